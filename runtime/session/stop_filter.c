#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "runtime/chat/chat_reader.h"

#include <stdlib.h>
#include <string.h>

void sp_stop_filter_release(struct sp_stop_filter *h)
{
    free(h->text);
    free(h->drafted);
    free(h->specials);
}

/* ---- passing on ---- */

/* Passes on the special tokens after at most n bytes; true: no more is to be passed on. */
static bool pass_specials(struct sp_stop_filter *h, size_t n)
{
    const struct sp_request *q = h->request;
    size_t n_passed = 0;
    bool stop = false;

    while (n_passed < h->n_specials && h->specials[n_passed].at <= n && !stop) {
        uint32_t id = h->specials[n_passed++].id;
        stop = (q->special && q->special(q->context, id)) ||
               (q->reader && sp_chat_reader_special(q->reader, id, &h->failure));
    }
    h->n_specials -= n_passed;
    if (n_passed > 0)
        memmove(h->specials, h->specials + n_passed, h->n_specials * sizeof *h->specials);
    return stop;
}

/* Passes on the first n bytes in runs, with the special tokens among them; true: no more is to be
 * passed on. */
static bool pass_on(struct sp_stop_filter *h, size_t n)
{
    const struct sp_request *q = h->request;
    bool stop = pass_specials(h, 0);

    for (size_t i = 0, j; i < n && !stop; i = j) {
        size_t end = h->n_specials > 0 && h->specials[0].at < n ? h->specials[0].at : n;
        for (j = i; j < end && h->drafted[j] == h->drafted[i]; j++)
            continue;
        stop = (q->text && q->text(q->context, h->text + i, j - i, h->drafted[i] != 0)) ||
               (q->reader && sp_chat_reader_text(q->reader, h->text + i, j - i, &h->failure)) ||
               pass_specials(h, j);
    }
    return stop;
}

static enum sp_status release(struct sp_stop_filter *h, size_t n, struct sp_err *err)
{
    struct sp_result *r = h->result;
    enum sp_status st;

    if ((st = sp_grow(&r->text, &h->cap_result, r->text_size + n + 1, 1, err))) return st;
    if (n > 0) memcpy(r->text + r->text_size, h->text, n);
    r->text_size += n;
    r->text[r->text_size] = '\0';
    if (!h->is_cancelled && pass_on(h, n)) h->is_cancelled = true;
    if (h->is_cancelled) h->n_specials = 0;
    if (h->failure.status && h->failure.status != SP_E_CANCELLED)
        return sp_fail_as(err, &h->failure);
    h->size -= n;
    if (n > 0) {
        memmove(h->text, h->text + n, h->size);
        memmove(h->drafted, h->drafted + n, h->size);
    }
    for (size_t i = 0; i < h->n_specials; i++)
        h->specials[i].at -= n;
    return SP_OK;
}

/* ---- holding back ---- */

static enum sp_status hold(struct sp_stop_filter *h, const char *text, size_t n, bool drafted,
                           struct sp_err *err)
{
    enum sp_status st;

    if (n == 0) return SP_OK;
    if ((st = sp_grow(&h->text, &h->cap, h->size + n, 1, err))) return st;
    if ((st = sp_grow(&h->drafted, &h->cap_drafted, h->size + n, 1, err))) return st;
    memcpy(h->text + h->size, text, n);
    memset(h->drafted + h->size, drafted, n);
    h->size += n;
    return SP_OK;
}

/* Position of the first stop text, of which *index is the number; if there is none, SIZE_MAX, that
 * of the first bytes that may begin one, or the end. */
static size_t find_stop(const struct sp_stop_filter *h, size_t *index)
{
    size_t beginning = h->size;

    for (size_t at = 0; at < h->size; at++) {
        for (size_t i = 0; i < h->request->n_stops; i++) {
            size_t len = strlen(h->request->stops[i]), tail = h->size - at;
            if (memcmp(h->text + at, h->request->stops[i], len < tail ? len : tail) != 0) continue;
            if (len <= tail) {
                *index = i;
                return at;
            }
            if (at < beginning) beginning = at;
        }
    }
    *index = SIZE_MAX;
    return beginning;
}

enum sp_status sp_stop_filter_add(struct sp_stop_filter *h, const char *text, size_t size,
                                  bool drafted, struct sp_err *err)
{
    enum sp_status st;
    size_t at, index;

    if ((st = hold(h, text, size, drafted, err))) return st;
    at = find_stop(h, &index);
    if (index < SIZE_MAX) {
        h->result->stop_index = index;
        h->is_stopped = true;
        h->size = at;
    }
    return release(h, at, err);
}

enum sp_status sp_stop_filter_add_special(struct sp_stop_filter *h, uint32_t id, struct sp_err *err)
{
    enum sp_status st =
        sp_grow(&h->specials, &h->cap_specials, h->n_specials + 1, sizeof *h->specials, err);

    if (st == SP_OK) h->specials[h->n_specials++] = (struct sp_stop_filter_special){h->size, id};
    return st;
}

enum sp_status sp_stop_filter_end(struct sp_stop_filter *h, const char *text, size_t size,
                                  struct sp_err *err)
{
    enum sp_status st = hold(h, text, size, false, err);

    return st ? st : release(h, h->size, err);
}
