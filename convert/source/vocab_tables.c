#include "convert/source/vocab_tables.h"

#include "convert/source/source_read.h"
#include "format/base/mem.h"

#include <stdlib.h>

/* *out = the elements of a vector, owned by the caller. */
static enum sp_status read_vector(float **out, const struct sp_source *source,
                                  const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_scratch scratch = {0};
    float *v = NULL;
    size_t size;
    enum sp_status st;

    if ((st = sp_source_scratch(&size, source, spec, err))) goto done;
    if ((st = sp_scratch_open(&scratch, size, err))) goto done;
    if ((st = sp_new(&v, spec->shape[0], sizeof *v, err))) goto done;
    if ((st = sp_source_read_all(v, source, spec, &scratch, err))) goto done;
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
    if ((st = sp_safetensors_read(source->checkpoint, t, 0, n_vocab, is_mapped, err))) goto done;
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

enum sp_status sp_vocab_tables_verify(const struct sp_source *source, struct sp_err *err)
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
