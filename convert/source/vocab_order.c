/* The tables keep their numbers: only the spans of rows that they are read from change. */
#include "convert/source/vocab_order.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Replaces the one span of a tensor, or of a vector, by spans of rows that follow each other. */
static enum sp_status reorder(struct sp_specs *specs, struct sp_tensor_spec *spec,
                              const uint32_t *rows, size_t n, struct sp_err *err)
{
    struct sp_row_span span = specs->spans[spec->first_span];
    size_t first = specs->n_spans;

    if (spec->rank == 1 && span.n_rows == 1 && span.n_cols == n) {
        span.n_rows = n;
        span.n_cols = 1;
    }
    if (spec->n_spans != 1 || span.n_rows != n || span.step != 1 || span.transposed) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: its rows cannot be put in another order",
                       spec->name);
    }
    for (size_t i = 0, run; i < n; i += run) {
        enum sp_status st = sp_grow(&specs->spans, &specs->cap_spans, specs->n_spans + 1,
                                    sizeof *specs->spans, err);
        if (st) return st;
        for (run = 1; i + run < n && rows[i + run] == rows[i] + run;)
            run++;
        specs->spans[specs->n_spans] = span;
        specs->spans[specs->n_spans].first_row = span.first_row + rows[i];
        specs->spans[specs->n_spans++].n_rows = run;
    }
    spec->first_span = first;
    spec->n_spans = specs->n_spans - first;
    return SP_OK;
}

static enum sp_status copy_section(struct sp_source *source, const struct sp_source *target,
                                   enum sp_section section, struct sp_err *err)
{
    struct sp_source_text text;
    char *copy = NULL;
    enum sp_status st = sp_source_text_open(&text, target, section, err);

    if (!st && text.at) st = sp_copy_text(&copy, text.at, text.size, err);
    if (!st) {
        free(source->texts[section]);
        source->texts[section] = copy;
        source->text_sizes[section] = text.size;
    }
    free(text.owned);
    return st;
}

enum sp_status sp_source_reorder_vocab(struct sp_source *source, const uint32_t *rows,
                                       const struct sp_source *target, struct sp_err *err)
{
    static const char *const tables[] = {"embed_tokens.weight", "lm_head.weight", "lm_head.bias"};
    enum sp_status st;

    if (source->pack || source->config.n_per_layer_vocab) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s: its tokens have other ids than the target's, and its rows cannot be "
                       "moved%s",
                       source->path,
                       source->pack ? "; give the checkpoint that it was packed from" : "");
    }
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        struct sp_tensor_spec *spec = &source->specs.specs[i];
        for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++) {
            if (strcmp(spec->name, tables[k]) != 0) continue;
            st = reorder(&source->specs, spec, rows, source->config.n_vocab, err);
            if (st) return st;
        }
    }
    if ((st = copy_section(source, target, SP_SECTION_TOKENIZER, err))) return st;
    return copy_section(source, target, SP_SECTION_TOKENIZER_CONFIG, err);
}
