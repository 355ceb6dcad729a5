/* The tensors of a checkpoint, found by name. A claimed tensor is marked as used, and a missing or
 * misshapen one is reported. When a checkpoint is exported, every claim adds a tensor to it. */
#include "format/family/family_parts.h"

#include "format/base/number_text.h"
#include "format/dtype.h"
#include "format/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t sp_tensor_match_find(const struct sp_tensor_match *m, const char *name)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->sorted[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->n && strcmp(m->sorted[low]->name, name) == 0 ? low : m->n;
}

bool sp_tensor_match_has(const struct sp_tensor_match *m, const char *prefix, const char *name)
{
    char full[SP_SOURCE_NAME];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    return sp_tensor_match_find(m, full) < m->n;
}

void sp_tensor_match_report(struct sp_tensor_match *m, const char *format, ...)
{
    struct sp_findings *f = &m->findings;
    char text[SP_ERR_TEXT];
    va_list args;
    size_t len;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    if (f->n_shown && strstr(f->text, text)) return; /* of another part of the same tensor */
    len = strlen(text);
    f->n++;
    if (f->n_shown + 1 != f->n || f->len + len + 2 >= sizeof f->text) {
        if (f->n > 1) return;
        len = sizeof f->text - 1; /* the first finding alone is too long */
    }
    f->len += (size_t)snprintf(f->text + f->len, sizeof f->text - f->len, "%s%.*s",
                               f->n_shown ? "; " : "", (int)len, text);
    f->n_shown++;
}

/* Adds a tensor to the checkpoint that is exported. */
static enum sp_status publish(struct sp_tensor_match *m, const char *name, const uint64_t *shape,
                              unsigned rank)
{
    struct sp_published_list *list = m->published;
    struct sp_source_tensor t = {.rank = rank};
    enum sp_status st;

    if (list->n == SP_MAX_PUBLISHED) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "a checkpoint of more than %d tensors",
                       SP_MAX_PUBLISHED);
    }
    memcpy(t.shape, shape, rank * sizeof *shape);
    if ((st = sp_specs_add_string(&t.name, m->specs, name, m->err))) return st;
    st = sp_grow(&list->all, &list->cap, list->n + 1, sizeof *list->all, m->err);
    if (st == SP_OK) list->all[list->n++] = t;
    return st;
}

/* True for a convolution [channels, 1, taps] that mlx stores as [channels, taps, 1], with the
 * elements in the same order. */
static bool is_turned(const struct sp_source_tensor *t, const uint64_t *shape, unsigned rank)
{
    return rank == 3 && t->rank == 3 && shape[1] == 1 && t->shape[2] == 1 &&
           t->shape[0] == shape[0] && t->shape[1] == shape[2];
}

enum sp_status sp_tensor_match_claim(bool *found, const struct sp_alias_source *s,
                                     const uint64_t *shape, unsigned rank)
{
    struct sp_tensor_match *m = s->match;
    const char *name = s->name;
    size_t i = sp_tensor_match_find(m, name);
    const struct sp_source_tensor *t = i < m->n ? m->sorted[i] : NULL;
    char have[SP_SHAPE_TEXT], want[SP_SHAPE_TEXT];

    *found = true;
    if (m->published) return publish(m, name, shape, rank);
    *found = false;
    sp_shape_text(want, shape, rank);
    if (t == NULL) {
        sp_tensor_match_report(m, "missing tensor \"%s\" %s", name, want);
        return SP_OK;
    }
    m->used[i] = true;
    *found = (t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0) ||
             (t->rank == 0 && rank == 1 && shape[0] == 1) || is_turned(t, shape, rank);
    if (*found) return SP_OK;
    sp_tensor_match_report(m, "tensor \"%s\" has shape %s, expected %s", name,
                           sp_shape_text(have, t->shape, t->rank), want);
    return SP_OK;
}

enum sp_status sp_tensor_match_add(const struct sp_alias_source *s, struct sp_row_span span)
{
    struct sp_specs *specs = s->match->specs;
    struct sp_err *err = s->match->err;
    enum sp_status st;

    if ((st = sp_specs_add_string(&span.source, specs, s->name, err))) return st;
    st = sp_grow(&specs->spans, &specs->cap_spans, specs->n_spans + 1, sizeof *specs->spans, err);
    if (st) return st;
    if (s->spec->n_spans++ == 0) s->spec->first_span = specs->n_spans;
    specs->spans[specs->n_spans++] = span;
    return SP_OK;
}

enum sp_status sp_tensor_match_take(const struct sp_alias_source *s, const uint64_t *shape,
                                    unsigned rank, struct sp_row_span span)
{
    bool found;
    enum sp_status st = sp_tensor_match_claim(&found, s, shape, rank);

    return st || !found ? st : sp_tensor_match_add(s, span);
}

enum sp_status sp_tensor_match_conclude(const struct sp_tensor_match *m)
{
    const struct sp_findings *f = &m->findings;

    if (f->n == 0) return SP_OK;
    if (f->n == f->n_shown) return sp_fail(m->err, SP_E_INPUT, "%s", f->text);
    return sp_fail(m->err, SP_E_INPUT, "%s; and %zu more%s", f->text, f->n - f->n_shown,
                   f->n < SP_MAX_FINDINGS ? "" : " at least");
}
