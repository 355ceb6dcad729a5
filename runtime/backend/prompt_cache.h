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
/* Creates a page. SP_E_CHECK, without a message: no pages are stored now, since one could not be.
 */
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

#endif
