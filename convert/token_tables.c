#include "convert/token_tables.h"

#include "format/mem.h"

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
        st = sp_config_check_token_map(table, map->shape[0], source->config.n_vocab, err);
    }
    if (st) sp_context(err, "%s", source->path);
    free(table);
    return st;
}
