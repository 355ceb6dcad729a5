/* The pages of a prompt cache, files of a folder that several processes share (spectool.h).
 *
 * A page has a name that tells all that its content depends on. It appears whole or not at all, and
 * is not changed afterwards; any process may remove it at any time. Functions that fail do so with
 * a note to the user at most, since a page that is missing is computed. */
#ifndef SP_RUNTIME_BACKEND_PROMPT_CACHE_H
#define SP_RUNTIME_BACKEND_PROMPT_CACHE_H

#include "runtime/backend/cache_file.h"

#include <time.h>

struct sp_prompt_cache; /* opaque; sp_prompt_cache_open in spectool.h */

/* A name and its NUL. */
enum { SP_PAGE_NAME = 48 };

/* All functions: [any thread] */
bool sp_prompt_cache_has(const struct sp_prompt_cache *cache, const char *name);
/* Has the system read the file of a page that will be opened; does not wait. */
void sp_prompt_cache_prefetch(const struct sp_prompt_cache *cache, const char *name);
SP_MUST_CHECK enum sp_status sp_prompt_cache_open_page(const struct sp_prompt_cache *cache,
                                                       struct sp_cache_file **out, const char *name,
                                                       struct sp_err *err);
/* Creates a page. SP_E_CHECK, without a message: pages are not stored, since one could not be. */
SP_MUST_CHECK enum sp_status sp_prompt_cache_create_page(struct sp_prompt_cache *cache,
                                                         struct sp_cache_file **out,
                                                         const char *name, struct sp_err *err);
/* Sets the time when a page was last used. */
void sp_prompt_cache_touch(const struct sp_prompt_cache *cache, const char *name,
                           struct timespec used);
/* Counts a page that was created, and removes the oldest ones if they take too much. */
void sp_prompt_cache_count(struct sp_prompt_cache *cache, uint64_t size);
/* Removes a page that cannot be used, and notes why. */
void sp_prompt_cache_drop(struct sp_prompt_cache *cache, const char *name,
                          const struct sp_err *why);
/* Notes why a page could not be stored, and stores none for a while. */
void sp_prompt_cache_pause(struct sp_prompt_cache *cache, const struct sp_err *why);

/* A sequence's claim to a page that it computes, so that others of the process wait for it. */
struct sp_page_claim {
    char name[SP_PAGE_NAME]; /* empty: none */
    struct sp_page_claim *next;
};

/* Exchanges what a claim holds for the page of this name; NULL: for none. False: another claim has
 * the page, and this one holds none. While no pages are stored every claim is granted. */
bool sp_prompt_cache_claim(struct sp_prompt_cache *cache, struct sp_page_claim *claim,
                           const char *name);
/* Waits until no claim has the page, for at most so many seconds. */
void sp_prompt_cache_await(struct sp_prompt_cache *cache, const char *name, double seconds);

/* ---- pages that several sequences of a process have in memory once ----
 *
 * The rows of a page, the keys and values of SP_SPAN positions in each layer, are copied to a file
 * in memory that has no name, so that no other process can change it or cut it short. Each sequence
 * that has the page maps the rows there privately, in place of its own memory: the kernel keeps one
 * copy of what all of them read, and a sequence that goes back and writes other rows gets a copy of
 * those alone. What is copied was computed by the sequence, or read from the folder and checked. A
 * page that no sequence has any more is dropped.
 *
 * The file consists of small pages of memory, which long reads pay for where a sequence of its own
 * would have huge ones. There a page is mapped only when a second sequence has it. Without such
 * files, and beyond some number of mappings, nothing is shared. */

/* Rows of one cache: whole pages of memory. */
struct sp_page_rows {
    uint8_t *at;
    size_t size;
};

/* What a sequence has in the place of one page; zeroed: nothing. */
struct sp_page_use {
    struct sp_shared_page *page;
    bool is_mapped;
};

/* True if sp_prompt_cache_share would change nothing: the use has the page of this name, which is
 * mapped, or which no other use has. */
bool sp_page_use_is_settled(const struct sp_page_use *use, const char *name);
/* Says that rows[0..n-1], which are those of all calls for this use, have the bytes of the page of
 * this name. It is mapped over them if another use has it, too, or at_once is true; else a later
 * call may map it. */
void sp_prompt_cache_share(struct sp_prompt_cache *cache, struct sp_page_use *use, const char *name,
                           const struct sp_page_rows *rows, size_t n, bool at_once);
/* After the rows were given back to the system. */
void sp_page_use_end(struct sp_page_use *use);

#endif
