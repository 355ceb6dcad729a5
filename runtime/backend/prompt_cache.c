#define _GNU_SOURCE /* memfd_create and its kin beside the names of POSIX 2008 */
#include "runtime/backend/prompt_cache.h"

#include "format/base/bounded_folder.h"
#include "format/base/clock.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/system/macos.h"
#include "runtime/spectool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Of the free space of the disk, pages may take 1/FREE_SHARE; after 1/TRIM_SHARE of what they may
 * take was added, the folder is looked at again. */
enum { FREE_SHARE = 10, TRIM_SHARE = 16 };

/* Half of the mappings that Linux allows a process (vm.max_map_count). */
enum { MOST_MAPPINGS = 1 << 15 };

static const double pause_seconds = 60;

/* A page in memory. */
struct sp_shared_page {
    struct sp_prompt_cache *cache;
    char name[SP_PAGE_NAME];
    uint64_t at; /* its first byte in the file */
    size_t size; /* bytes of all rows */
    size_t n;    /* runs of rows, each a mapping of a use */
    size_t n_uses;
    bool is_filled;
    struct sp_shared_page *next;
};

struct sp_prompt_cache {
    struct sp_prompt_cache_options options;
    char *folder;         /* owned */
    pthread_mutex_t lock; /* of the members below */
    uint64_t most;        /* bytes that the pages may take */
    uint64_t added;       /* bytes added since the folder was looked at */
    double paused_until;  /* seconds of sp_seconds */
    bool noted;           /* that pages cannot be stored */
    struct sp_page_claim *claims;
    pthread_cond_t unclaimed; /* some page */
    struct sp_shared_page *shared;
    uint64_t shared_end; /* of the file, where a page that was dropped leaves a hole */
    size_t n_mappings;
    int memory; /* the file of shared pages; -1: none */
};

static void note(const struct sp_prompt_cache *c, const char *sentence)
{
    if (c->options.note) c->options.note(c->options.context, sentence);
}

/* Removes the oldest pages if all take more than they may. The caller holds the lock, if any other
 * thread knows the cache. */
static void trim(struct sp_prompt_cache *c)
{
    struct sp_folder_bound bound = {
        .part = ".page", .n_digits = SP_HASH128_TEXT - 1, .most = UINT64_MAX};
    struct statvfs disk;

    c->added = 0;
    c->most = c->options.limit;
    if (c->most == 0) {
        uint64_t own = sp_folder_trim(c->folder, &bound);
        if (statvfs(c->folder, &disk) == 0)
            c->most = (own + (uint64_t)disk.f_bavail * disk.f_frsize) / FREE_SHARE;
    }
    bound.most = c->most;
    (void)sp_folder_trim(c->folder, &bound);
}

enum sp_status sp_prompt_cache_open(struct sp_prompt_cache **out,
                                    const struct sp_prompt_cache_options *options,
                                    struct sp_err *err)
{
    struct sp_prompt_cache_options o = {0};
    struct sp_prompt_cache *c = NULL;
    enum sp_status st = sp_copy_in(&o, sizeof o, options, "sp_prompt_cache_options", err);

    if (st) return st;
    if (mkdir(o.folder, 0700) && errno != EEXIST)
        return sp_fail(err, SP_E_IO, "%s: %s", o.folder, strerror(errno));
    if (!sp_file_is_folder(o.folder))
        return sp_fail(err, SP_E_USAGE, "%s is not a folder", o.folder);
    if ((st = sp_new(&c, 1, sizeof *c, err))) return st;
    c->options = o;
    if ((st = sp_copy_text(&c->folder, o.folder, strlen(o.folder), err))) {
        free(c);
        return st;
    }
    c->options.folder = c->folder;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->unclaimed, NULL);
    c->memory = memfd_create("pages", MFD_CLOEXEC);
    trim(c);
    *out = c;
    return SP_OK;
}

void sp_prompt_cache_close(struct sp_prompt_cache *c)
{
    if (c == NULL) return;
    if (c->memory >= 0) close(c->memory);
    pthread_cond_destroy(&c->unclaimed);
    pthread_mutex_destroy(&c->lock);
    free(c->folder);
    free(c);
}

/* A path that is too long is that of no file. */
static const char *path_of(char path[PATH_MAX], const struct sp_prompt_cache *c, const char *name)
{
    if (snprintf(path, PATH_MAX, "%s/%s", c->folder, name) >= PATH_MAX) *path = '\0';
    return path;
}

bool sp_prompt_cache_has(const struct sp_prompt_cache *c, const char *name)
{
    char path[PATH_MAX];

    return access(path_of(path, c, name), R_OK) == 0;
}

void sp_prompt_cache_prefetch(const struct sp_prompt_cache *c, const char *name)
{
    char path[PATH_MAX];
    int fd = open(path_of(path, c, name), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    close(fd);
}

enum sp_status sp_prompt_cache_open_page(const struct sp_prompt_cache *c,
                                         struct sp_cache_file **out, const char *name,
                                         struct sp_err *err)
{
    char path[PATH_MAX];

    return sp_cache_file_open(out, path_of(path, c, name), err);
}

/* The caller of this and the next function holds the lock. */
static bool is_paused(const struct sp_prompt_cache *c)
{
    return c->paused_until > sp_seconds();
}

/* The link to the claim to a page; a link to NULL: there is none. */
static struct sp_page_claim **find_claim(struct sp_prompt_cache *c, const char *name)
{
    struct sp_page_claim **at = &c->claims;

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

enum sp_status sp_prompt_cache_create_page(struct sp_prompt_cache *c, struct sp_cache_file **out,
                                           const char *name, struct sp_err *err)
{
    char path[PATH_MAX];
    bool paused;

    pthread_mutex_lock(&c->lock);
    paused = is_paused(c);
    pthread_mutex_unlock(&c->lock);
    return paused ? SP_E_CHECK : sp_cache_file_create(out, path_of(path, c, name), err);
}

void sp_prompt_cache_touch(const struct sp_prompt_cache *c, const char *name, struct timespec used)
{
    const struct timespec times[2] = {used, used};
    char path[PATH_MAX];

    (void)utimensat(AT_FDCWD, path_of(path, c, name), times, 0);
}

void sp_prompt_cache_count(struct sp_prompt_cache *c, uint64_t size)
{
    pthread_mutex_lock(&c->lock);
    c->added += size;
    if (c->added > c->most / TRIM_SHARE) trim(c);
    pthread_mutex_unlock(&c->lock);
}

void sp_prompt_cache_drop(struct sp_prompt_cache *c, const char *name, const struct sp_err *why)
{
    char path[PATH_MAX], sentence[SP_ERR_TEXT + 64];

    (void)unlink(path_of(path, c, name));
    snprintf(sentence, sizeof sentence, "%s: the prompt is processed from there on", why->text);
    note(c, sentence);
}

void sp_prompt_cache_pause(struct sp_prompt_cache *c, const struct sp_err *why)
{
    char sentence[SP_ERR_TEXT + 64];
    bool is_first;

    pthread_mutex_lock(&c->lock);
    c->paused_until = sp_seconds() + pause_seconds;
    is_first = !c->noted;
    c->noted = true;
    pthread_mutex_unlock(&c->lock);
    if (!is_first) return;
    snprintf(sentence, sizeof sentence, "%s: prompts are not kept for now", why->text);
    note(c, sentence);
}

bool sp_prompt_cache_claim(struct sp_prompt_cache *c, struct sp_page_claim *claim, const char *name)
{
    bool granted = true;

    if (name ? strcmp(claim->name, name) == 0 : *claim->name == '\0') return true;
    pthread_mutex_lock(&c->lock);
    if (*claim->name) {
        *find_claim(c, claim->name) = claim->next;
        *claim->name = '\0';
        pthread_cond_broadcast(&c->unclaimed);
    }
    if (name && !is_paused(c)) {
        granted = *find_claim(c, name) == NULL;
        if (granted) {
            snprintf(claim->name, sizeof claim->name, "%s", name);
            claim->next = c->claims;
            c->claims = claim;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return granted;
}

void sp_prompt_cache_await(struct sp_prompt_cache *c, const char *name, double seconds)
{
    struct timespec until = sp_deadline(seconds);

    pthread_mutex_lock(&c->lock);
    while (*find_claim(c, name) && pthread_cond_timedwait(&c->unclaimed, &c->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&c->lock);
}

/* ---- pages in memory ---- */

/* The callers of the next functions hold the lock. */
static void end_use(struct sp_page_use *use)
{
    struct sp_shared_page *page = use->page;
    struct sp_prompt_cache *c = page->cache;
    struct sp_shared_page **at = &c->shared;

    if (use->is_mapped) c->n_mappings -= page->n;
    *use = (struct sp_page_use){0};
    if (--page->n_uses > 0) return;
    while (*at != page)
        at = &(*at)->next;
    *at = page->next;
    if (page->is_filled)
        (void)fallocate(c->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page->at,
                        (off_t)page->size);
    free(page);
}

/* The page of this name with one use more; NULL: there is no memory. */
static struct sp_shared_page *begin_use(struct sp_prompt_cache *c, const char *name, size_t size,
                                        size_t n)
{
    struct sp_shared_page *page = c->shared;

    while (page && (page->n != n || page->size != size || strcmp(page->name, name) != 0))
        page = page->next;
    if (page == NULL) {
        if (sp_new(&page, 1, sizeof *page, NULL)) return NULL;
        *page = (struct sp_shared_page){
            .cache = c, .at = c->shared_end, .size = size, .n = n, .next = c->shared};
        memcpy(page->name, name, strlen(name) + 1);
        c->shared = page;
        c->shared_end += size;
    }
    page->n_uses++;
    return page;
}

/* Fills the page unless it is filled, and maps it. */
static void map(struct sp_page_use *use, const struct sp_page_rows *rows)
{
    struct sp_shared_page *page = use->page;
    struct sp_prompt_cache *c = page->cache;
    uint64_t at = page->at;

    if (c->n_mappings + page->n > MOST_MAPPINGS) return;
    for (size_t i = 0; i < page->n && !page->is_filled; at += rows[i].size, i++)
        if (pwrite(c->memory, rows[i].at, rows[i].size, (off_t)at) != (ssize_t)rows[i].size) return;
    page->is_filled = use->is_mapped = true;
    c->n_mappings += page->n;
    at = page->at;
    /* Rows that cannot be mapped keep the memory that they have, with the same bytes. */
    for (size_t i = 0; i < page->n; at += rows[i].size, i++)
        (void)mmap(rows[i].at, rows[i].size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                   c->memory, (off_t)at);
}

bool sp_page_use_is_settled(const struct sp_page_use *use, const char *name)
{
    struct sp_prompt_cache *c;
    bool is_alone;

    if (use->page == NULL || strcmp(use->page->name, name) != 0) return false;
    c = use->page->cache;
    pthread_mutex_lock(&c->lock);
    is_alone = use->page->n_uses == 1;
    pthread_mutex_unlock(&c->lock);
    return use->is_mapped || is_alone;
}

void sp_prompt_cache_share(struct sp_prompt_cache *c, struct sp_page_use *use, const char *name,
                           const struct sp_page_rows *rows, size_t n, bool at_once)
{
    enum { LEAST_PAGE = 4096 };
    bool is_same = use->page && strcmp(use->page->name, name) == 0;
    size_t size = 0;

    if (c->memory < 0 || n == 0 || (is_same && use->is_mapped)) return;
    for (size_t i = 0; i < n; size += rows[i].size, i++)
        for (size_t k = 0; k < rows[i].size && use->is_mapped; k += LEAST_PAGE)
            *(volatile uint8_t *)(rows[i].at + k) = rows[i].at[k]; /* no longer the mapped page */
    pthread_mutex_lock(&c->lock);
    if (!is_same && use->page) end_use(use);
    if (use->page == NULL) use->page = begin_use(c, name, size, n);
    if (use->page && (at_once || use->page->n_uses > 1)) map(use, rows);
    pthread_mutex_unlock(&c->lock);
}

void sp_page_use_end(struct sp_page_use *use)
{
    struct sp_prompt_cache *c = use->page ? use->page->cache : NULL;

    if (c == NULL) return;
    pthread_mutex_lock(&c->lock);
    end_use(use);
    pthread_mutex_unlock(&c->lock);
}
