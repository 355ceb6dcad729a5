#include "convert/source/source.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "quantize/types/float_cast.h"

#include <stdlib.h>
#include <string.h>

/* ---- equal tables ---- */

enum { ROWS = 64 /* at a time; whole panels of a packed file */, SCRATCH = 1 << 16 };

static enum sp_status can_read(bool *out, const struct sp_source *source,
                               const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_stored stored;
    enum sp_status st = sp_source_stored(&stored, source, spec, err);

    if (!st) *out = sp_can_decode_floats(stored.dtype);
    return st;
}

/* *same: both sources have their matrix, in one shape, and every element is the same float; false
 * where one is of a type that cannot be read. Reads them a few rows at a time. */
static enum sp_status tensor_equal(bool *same, const struct sp_source *a, const char *a_name,
                                   const struct sp_source *b, const char *b_name,
                                   struct sp_err *err)
{
    const struct sp_tensor_spec *s = sp_specs_find(&a->specs, a_name);
    const struct sp_tensor_spec *t = sp_specs_find(&b->specs, b_name);
    struct sp_scratch scratch = {0};
    uint64_t rows = s ? sp_spec_rows(s) : 0, cols = s ? sp_spec_cols(s) : 0;
    bool readable[2];
    float *x = NULL, *y;
    enum sp_status st;

    *same = false;
    if (s == NULL || t == NULL || rows != sp_spec_rows(t) || cols != sp_spec_cols(t)) return SP_OK;
    if ((st = can_read(&readable[0], a, s, err))) return st;
    if ((st = can_read(&readable[1], b, t, err))) return st;
    if (!readable[0] || !readable[1]) return SP_OK;
    if ((st = sp_scratch_open(&scratch, SCRATCH, err))) goto done;
    if ((st = sp_new_aligned(&x, 2 * ROWS * cols, sizeof *x, err))) goto done;
    y = x + ROWS * cols;
    *same = true;
    for (uint64_t r = 0; *same && r < rows; r += ROWS) {
        uint64_t n = rows - r < ROWS ? rows - r : ROWS;
        if ((st = sp_source_read_rows(x, a, s, r, n, &scratch, err))) goto done;
        if ((st = sp_source_read_rows(y, b, t, r, n, &scratch, err))) goto done;
        *same = memcmp(x, y, n * cols * sizeof *x) == 0;
    }
done:
    free(x);
    sp_scratch_release(&scratch);
    return st;
}

enum sp_status sp_source_share_head(struct sp_source *source, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    bool equal;

    if (!source->compare_heads) return SP_OK;
    st = tensor_equal(&equal, source, "embed_tokens.weight", source, "lm_head.weight", err);
    if (st) return st;
    if (equal) {
        sp_specs_share_head(&source->specs, &source->config);
        return SP_OK;
    }
    return sp_warn(warnings, err,
                   "%s: tie_word_embeddings is true, but lm_head.weight differs from the embedding "
                   "and is used",
                   source->path);
}

enum sp_status sp_source_share_embedding(struct sp_source *draft, const struct sp_source *target,
                                         char **warnings, struct sp_err *err)
{
    static const char name[] = "embed_tokens.weight";
    const struct sp_draft_config *d = &draft->config.draft;
    enum sp_status st;
    bool equal;

    if (!d->owns_head || !(sp_draft_is_eagle(d->kind) || d->raw_embeddings)) return SP_OK;
    st = tensor_equal(&equal, draft, name, target, name, err);
    if (st || !equal) return st;
    sp_specs_share_embedding(&draft->specs, &draft->config);
    return sp_warn(warnings, err, "%s: its embedding equals the target's, which is used for both",
                   draft->path);
}

/* ---- another order of rows ---- */

/* The tables keep their numbers: only the spans of rows that they are read from change. */

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
    struct sp_text text;
    enum sp_status st = sp_source_read_text(&text, target, section, err);

    if (st) return st;
    free(source->texts[section].at);
    source->texts[section] = text;
    return SP_OK;
}

enum sp_status sp_source_reorder_vocab(struct sp_source *source, const uint32_t *rows,
                                       const struct sp_source *target, struct sp_err *err)
{
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
        if (sp_is_among(spec->name, "embed_tokens.weight lm_head.weight lm_head.bias") &&
            (st = reorder(&source->specs, spec, rows, source->config.n_vocab, err)))
            return st;
    }
    if ((st = copy_section(source, target, SP_SECTION_TOKENIZER, err))) return st;
    return copy_section(source, target, SP_SECTION_TOKENIZER_CONFIG, err);
}

/* ---- tables of token ids ---- */

/* *out = the elements of a vector, owned by the caller. */
static enum sp_status read_vector(float **out, const struct sp_source *source,
                                  const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_scratch scratch = {0};
    float *v = NULL;
    enum sp_status st;

    if ((st = sp_scratch_open(&scratch, SCRATCH, err))) goto done;
    if ((st = sp_new(&v, spec->shape[0], sizeof *v, err))) goto done;
    if ((st = sp_source_read_rows(v, source, spec, 0, SP_ALL_ROWS, &scratch, err))) goto done;
    *out = v;
    v = NULL;
done:
    sp_scratch_release(&scratch);
    free(v);
    return st;
}

/* A draft's t2d, where a checkpoint has it: true for each token that d2t maps to, and no other. */
static enum sp_status verify_marks(const struct sp_source *source, const float *map, size_t n,
                                   struct sp_err *err)
{
    const char *what = sp_draft_name(source->config.draft.kind);
    const struct sp_safetensor *t = NULL;
    size_t n_vocab = source->config.n_vocab, n_mapped = 0, n_right = 0;
    uint8_t *is_mapped = NULL;
    enum sp_status st = SP_OK;

    if (source->checkpoint) t = sp_safetensors_find(source->checkpoint, "t2d");
    if (t == NULL || (t->dtype != SP_BOOL && t->dtype != SP_U8)) return SP_OK;
    if ((st = sp_new(&is_mapped, n_vocab, 1, err))) return st;
    if (t->rank != 1 || t->shape[0] != n_vocab) {
        st = sp_fail(err, SP_E_INPUT, "%s t2d has no entry for each of %zu tokens", what, n_vocab);
        goto done;
    }
    if ((st = sp_safetensors_read(t, 0, n_vocab, is_mapped, err))) goto done;
    for (size_t i = 0; i < n_vocab; i++)
        n_mapped += is_mapped[i] != 0;
    for (size_t i = 0; i < n; i++)
        n_right += is_mapped[i + (size_t)map[i]] != 0;
    if (n_right != n || n_mapped != n)
        st = sp_fail(err, SP_E_INPUT, "%s t2d disagrees with d2t", what);
done:
    free(is_mapped);
    return st;
}

enum sp_status sp_token_tables_verify(const struct sp_source *source, struct sp_err *err)
{
    const struct sp_tensor_spec *order =
        sp_specs_find(&source->specs, "masked_embedding.token_ordering");
    const struct sp_tensor_spec *map = sp_specs_find(&source->specs, "d2t");
    float *table = NULL;
    enum sp_status st;

    if (order == NULL && map == NULL) return SP_OK;
    st = read_vector(&table, source, order ? order : map, err);
    if (!st && order) {
        st = sp_config_check_token_order(table, order->shape[0], err);
    } else if (!st) {
        st = sp_config_check_token_map(source->config.draft.kind, table, map->shape[0],
                                       source->config.n_vocab, err);
        if (!st) st = verify_marks(source, table, map->shape[0], err);
    }
    if (st) sp_context(err, "%s", source->path);
    free(table);
    return st;
}
