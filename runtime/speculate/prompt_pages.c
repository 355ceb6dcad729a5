#include "runtime/speculate/prompt_pages.h"

#include "format/base/clock.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A state is written when the pages since the last one take as much, or after so many pages. */
enum { MOST_PAGES_WITHOUT_STATE = 4 };

/* So often a sequence that waits for another one's page looks whether it was cancelled. */
#define WAIT_SECONDS 0.1

struct name {
    char text[SP_PAGE_NAME];
};

struct sp_prompt_pages {
    struct sp_prompt_cache *cache; /* this and the next members are borrowed */
    struct sp_decoder *decoder;
    struct sp_drafter *drafter; /* NULL: none */
    struct sp_scheduler *scheduler;
    const struct sp_backend *backend;
    uint64_t identity;
    struct name root;   /* of the sequence's model and adapter */
    struct name *names; /* [n_names] of the first pages of the sequence; owned */
    size_t n_names, room;
    size_t n_kept;         /* pages that need not be written */
    size_t n_prompt;       /* pages of the prompt without its last token */
    size_t n_shared;       /* pages that are read if another sequence computes them */
    size_t n_seen;         /* pages that were there when the claim was last refused */
    uint64_t since_state;  /* bytes of the pages since the last state */
    struct timespec begun; /* when the sequence began */
    double page_seconds;   /* to read a page; 0: not known */
    struct sp_page_claim claim;
};

enum sp_status sp_prompt_pages_open(struct sp_prompt_pages **out,
                                    const struct sp_sequence_setup *setup,
                                    struct sp_decoder *decoder, struct sp_drafter *drafter,
                                    uint64_t identity, struct sp_err *err)
{
    struct sp_prompt_pages *p = NULL;
    enum sp_status st = sp_new(&p, 1, sizeof *p, err);

    if (st) return st;
    p->cache = setup->prompt_cache;
    p->decoder = decoder;
    p->drafter = drafter;
    p->scheduler = setup->scheduler;
    p->backend = setup->backend;
    p->identity = identity;
    *out = p;
    return SP_OK;
}

void sp_prompt_pages_close(struct sp_prompt_pages *p)
{
    if (p == NULL) return;
    free(p->names);
    free(p);
}

/* ---- names ---- */

/* The drafter that has a part in the pages; NULL: none. */
static struct sp_drafter *drafter_of(const struct sp_prompt_pages *p)
{
    struct sp_drafter *d = p->drafter;

    return d && d->ops->page ? d : NULL;
}

static void begin_names(struct sp_prompt_pages *p)
{
    char text[160];
    float scale;
    const struct sp_lora *lora = sp_decoder_lora(p->decoder, &scale);
    int n = snprintf(text, sizeof text, "%s %d %d %016" PRIx64 " %016" PRIx64 " %016" PRIx64,
                     sp_version(), SP_SPAN, drafter_of(p) != NULL, p->identity,
                     sp_decoder_cache_digest(p->decoder), lora ? sp_lora_digest(lora, scale) : 0);

    sp_hash128_text(p->root.text, text, (size_t)n);
    p->n_names = 0;
}

/* Names the first n pages of ids; false: there is no memory. */
static bool name_pages(struct sp_prompt_pages *p, const uint32_t *ids, size_t n)
{
    enum { HEX = SP_HASH128_TEXT - 1 };
    char text[HEX + SP_SPAN * sizeof *ids];

    if (sp_grow(&p->names, &p->room, n, sizeof *p->names, NULL)) return false;
    for (; p->n_names < n; p->n_names++) {
        struct name *name = &p->names[p->n_names];
        memcpy(text, (p->n_names ? name[-1] : p->root).text, HEX);
        memcpy(text + HEX, ids + p->n_names * SP_SPAN, SP_SPAN * sizeof *ids);
        sp_hash128_text(name->text, text, sizeof text);
        snprintf(name->text + HEX, sizeof name->text - HEX, ".page");
    }
    return true;
}

/* The name of the recurrent state at the end of a page. */
static struct name state_name(const struct sp_prompt_pages *p, size_t page)
{
    struct name name;

    snprintf(name.text, sizeof name.text, "%.*s.state.page", SP_HASH128_TEXT - 1,
             p->names[page].text);
    return name;
}

/* Later pages of a sequence are older: the first ones, which other prompts begin with, too, are
 * removed last. */
static void touch(const struct sp_prompt_pages *p, const struct name *name, size_t page)
{
    const int64_t ms = 1000000, s = 1000 * ms;
    int64_t ns = p->begun.tv_sec * s + p->begun.tv_nsec - (int64_t)page * ms;

    sp_prompt_cache_touch(p->cache, name->text,
                          (struct timespec){(time_t)(ns / s), (long)(ns % s)});
}

/* ---- contents ---- */

/* What a page or a state begins with. */
static enum sp_status match(struct sp_cache_file *file, const struct name *name,
                            const uint32_t *ids, size_t page, struct sp_err *err)
{
    enum sp_status st = sp_cache_file_match(file, name->text, strlen(name->text), err);

    return st ? st : sp_cache_file_match(file, ids, (page + 1) * SP_SPAN * sizeof *ids, err);
}

static enum sp_status walk_page(const struct sp_prompt_pages *p, struct sp_cache_file *file,
                                const uint32_t *ids, size_t page, bool resumes, struct sp_err *err)
{
    struct sp_drafter *drafter = drafter_of(p);
    enum sp_status st;

    if ((st = match(file, &p->names[page], ids, page, err)) ||
        (st = sp_decoder_transfer(p->decoder, file, page, err)) || drafter == NULL)
        return st;
    return drafter->ops->page(drafter, file, page, resumes, err);
}

static enum sp_status walk_state(const struct sp_prompt_pages *p, struct sp_cache_file *file,
                                 const uint32_t *ids, size_t page, struct sp_err *err)
{
    const struct name name = state_name(p, page);
    enum sp_status st = match(file, &name, ids, page, err);

    return st ? st : sp_decoder_transfer_state(p->decoder, file, err);
}

/* Shares the first n pages, which the caches have, with other sequences. */
static void share(const struct sp_prompt_pages *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_decoder_share(p->decoder, p->cache, p->names[i].text, i);
}

/* ---- reading ---- */

/* Pages that are read, by several threads if there are no others that compute. */
struct reading {
    const struct sp_prompt_pages *pages;
    const uint32_t *ids;
    size_t first, end;
    atomic_size_t n_good; /* pages up to the first that failed */
};

/* Reads a page or a state; if it cannot be used, other than for lack of memory, removes it. */
static bool read_file(const struct sp_prompt_pages *p, const uint32_t *ids, size_t page,
                      bool is_state, bool resumes)
{
    const struct name name = is_state ? state_name(p, page) : p->names[page];
    struct sp_cache_file *file = NULL;
    struct sp_err err = {0};
    enum sp_status st = sp_prompt_cache_open_page(p->cache, &file, name.text, &err);

    if (st == SP_E_IO) return false; /* another process has removed it */
    if (!st && is_state)
        st = walk_state(p, file, ids, page, &err);
    else if (!st)
        st = walk_page(p, file, ids, page, resumes, &err);
    if (!st) st = sp_cache_file_finish(file, &err);
    if (st == SP_OK)
        touch(p, &name, page);
    else if (st != SP_E_NOMEM)
        sp_prompt_cache_drop(p->cache, name.text, &err);
    sp_cache_file_close(file);
    return st == SP_OK;
}

static void read_item(void *context, size_t item, unsigned worker)
{
    struct reading *r = context;
    size_t page = r->first + item, n_good = r->n_good;

    (void)worker;
    if (page >= n_good || read_file(r->pages, r->ids, page, false, page + 1 == r->end)) return;
    while (page < n_good && !atomic_compare_exchange_weak(&r->n_good, &n_good, page))
        continue;
}

/* Reads the pages first..end-1. Returns the number of pages up to the first that failed. With other
 * threads at work the scheduler is released meanwhile, unless other processes have their part of
 * the caches, with which the thread that holds it alone may talk. */
static size_t read_pages(const struct sp_prompt_pages *p, const uint32_t *ids, size_t first,
                         size_t end)
{
    struct reading r = {.pages = p, .ids = ids, .first = first, .end = end, .n_good = end};
    const struct sp_backend *backend = p->backend;
    const struct sp_drafter *d = p->drafter;
    bool is_alone = sp_scheduler_n_active(p->scheduler) == 1;
    /* A window's slots have those of several pages in turn. */
    bool in_any_order = sp_decoder_keeps_all(p->decoder) &&
                        (d == NULL || d->decoder == NULL || sp_decoder_keeps_all(d->decoder));

    for (size_t i = first; i < end; i++)
        sp_prompt_cache_prefetch(p->cache, p->names[i].text);
    if (is_alone && backend->remote == NULL && in_any_order) {
        sp_pool_run(backend->pool, end - first, read_item, &r);
    } else {
        if (backend->remote == NULL) sp_scheduler_release(p->scheduler);
        for (size_t i = 0; i < end - first; i++)
            read_item(&r, i, 0);
        if (backend->remote == NULL) sp_scheduler_acquire(p->scheduler);
    }
    if (r.n_good == end && sp_decoder_state_size(p->decoder) > 0 &&
        !read_file(p, ids, end - 1, true, true))
        return end - 1;
    return r.n_good;
}

/* The number of pages, at most `most`, after which the sequence can continue. */
static size_t find(const struct sp_prompt_pages *p, size_t most)
{
    bool is_recurrent = sp_decoder_state_size(p->decoder) > 0;
    size_t n = 0;

    while (n < most && sp_prompt_cache_has(p->cache, p->names[n].text))
        n++;
    while (n > 0 && is_recurrent && !sp_prompt_cache_has(p->cache, state_name(p, n - 1).text))
        n--;
    return n;
}

size_t sp_prompt_pages_restore(struct sp_prompt_pages *p, const uint32_t *ids, size_t n_cached,
                               size_t n, double row_seconds)
{
    size_t most = (n - 1) / SP_SPAN, first = n_cached / SP_SPAN, end;
    double t0 = sp_seconds();

    clock_gettime(CLOCK_REALTIME, &p->begun);
    begin_names(p);
    p->n_prompt = most;
    p->n_shared = 0;
    p->since_state = 0;
    p->n_kept = name_pages(p, ids, most) ? 0 : SIZE_MAX;
    if (p->n_kept > 0) return n_cached;
    if (row_seconds > 0 && p->page_seconds > row_seconds * SP_SPAN) {
        p->page_seconds /= 2; /* so that reading is tried again later */
        return n_cached;
    }
    p->n_shared = most;
    while ((end = find(p, most)) * SP_SPAN > n_cached) {
        size_t n_read = read_pages(p, ids, first, end);
        n_cached = n_read == end ? end * SP_SPAN : 0;
        if (n_read == end) break;
        first = 0;
        most = n_read;
    }
    if (n_cached / SP_SPAN > first)
        p->page_seconds = (sp_seconds() - t0) / (double)(n_cached / SP_SPAN - first);
    if (n_cached >= SP_SPAN && p->backend->remote == NULL) {
        sp_scheduler_release(p->scheduler);
        share(p, n_cached / SP_SPAN);
        sp_scheduler_acquire(p->scheduler);
    }
    return n_cached;
}

bool sp_prompt_pages_claim(struct sp_prompt_pages *p, size_t n_cached)
{
    size_t n = n_cached / SP_SPAN, page = n;
    struct sp_prompt_cache *cache = p->cache;
    bool granted = true;

    if (p->n_kept == SIZE_MAX) p->n_shared = 0;
    while (page < p->n_shared &&
           (granted = sp_prompt_cache_claim(cache, &p->claim, p->names[page].text)) &&
           sp_prompt_cache_has(cache, p->names[page].text))
        page++;
    if (page >= p->n_shared) sp_prompt_cache_claim(cache, &p->claim, NULL);
    if (page > n && page > p->n_seen) { /* they came after they were looked for */
        p->n_seen = page;
        return false;
    }
    if (granted) return true;
    sp_scheduler_release(p->scheduler);
    sp_prompt_cache_await(cache, p->names[page].text, WAIT_SECONDS);
    sp_scheduler_acquire(p->scheduler);
    return false;
}

void sp_prompt_pages_unclaim(struct sp_prompt_pages *p)
{
    p->n_seen = 0;
    sp_prompt_cache_claim(p->cache, &p->claim, NULL);
}

size_t sp_prompt_pages_rows(const struct sp_prompt_pages *p, size_t pos, size_t most)
{
    size_t left = SP_SPAN - pos % SP_SPAN;

    return p && left < most ? left : most;
}

/* ---- writing ---- */

/* Writes a page or a state; *size = its bytes. False: it cannot be written. */
static bool write_file(struct sp_prompt_pages *p, const uint32_t *ids, size_t page, bool is_state,
                       uint64_t *size)
{
    const struct name name = is_state ? state_name(p, page) : p->names[page];
    struct sp_cache_file *file = NULL;
    struct sp_err err = {0};
    enum sp_status st = sp_prompt_cache_create_page(p->cache, &file, name.text, &err);

    if (st) goto done;
    st = is_state ? walk_state(p, file, ids, page, &err)
                  : walk_page(p, file, ids, page, false, &err);
    if (!st) st = sp_cache_file_finish(file, &err);
    *size = sp_cache_file_size(file);
done:
    sp_cache_file_close(file);
    if (st && st != SP_E_CHECK) sp_prompt_cache_pause(p->cache, &err);
    if (st == SP_OK) {
        touch(p, &name, page);
        sp_prompt_cache_count(p->cache, *size);
    }
    return st == SP_OK;
}

/* Writes the recurrent state at the end of a page, which the states have now, if one is due. */
static void keep_state(struct sp_prompt_pages *p, const uint32_t *ids, size_t page)
{
    uint64_t size = sp_decoder_state_size(p->decoder);

    if (page + 1 != p->n_prompt && p->since_state < size) return;
    if (sp_prompt_cache_has(p->cache, state_name(p, page).text) ||
        write_file(p, ids, page, true, &size))
        p->since_state = 0;
}

/* Writes page n_kept unless the cache has it. The caches have what it needs as long as no window
 * has dropped it. */
static bool keep_page(struct sp_prompt_pages *p, const uint32_t *ids, size_t n_cached)
{
    uint64_t size = 0, least = sp_decoder_state_size(p->decoder) / MOST_PAGES_WITHOUT_STATE;

    if (!sp_prompt_cache_has(p->cache, p->names[p->n_kept].text)) {
        size_t end = (p->n_kept + 1) * SP_SPAN;
        if (end < n_cached && !sp_decoder_keeps_windows(p->decoder, n_cached, end)) return false;
        if (!write_file(p, ids, p->n_kept, false, &size)) return false;
    }
    p->since_state += size > least ? size : least;
    p->n_kept++;
    return true;
}

void sp_prompt_pages_keep(struct sp_prompt_pages *p, const uint32_t *ids, size_t n_cached)
{
    struct sp_drafter *drafter = drafter_of(p);
    size_t n = n_cached / SP_SPAN;
    bool is_held = p->backend->remote != NULL, good;

    if (p->n_kept >= n) return;
    good = name_pages(p, ids, n);
    if (drafter && drafter->ops->catch_up) drafter->ops->catch_up(drafter, ids, n_cached);
    if (!is_held) sp_scheduler_release(p->scheduler);
    while (good && p->n_kept < n)
        good = keep_page(p, ids, n_cached);
    share(p, p->n_kept);
    if (!is_held) sp_scheduler_acquire(p->scheduler);
    if (!good)
        p->n_kept = SIZE_MAX; /* later pages would have none before them */
    else if (n_cached % SP_SPAN == 0 && sp_decoder_state_size(p->decoder) > 0)
        keep_state(p, ids, n - 1);
}
