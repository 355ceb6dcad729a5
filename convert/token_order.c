#include "convert/token_order.h"

#include "format/mem.h"

#include <stdlib.h>

enum sp_status sp_token_order_verify(const struct sp_source *source, struct sp_err *err)
{
    const struct sp_tensor_spec *spec =
        sp_specs_find(&source->specs, "masked_embedding.token_ordering");
    struct sp_scratch scratch = {0};
    float *order = NULL;
    size_t n = source->config.n_vocab, size;
    enum sp_status st;

    if (spec == NULL) return SP_OK;
    if ((st = sp_source_scratch(&size, source, spec, err))) goto done;
    if ((st = sp_scratch_open(&scratch, size, err))) goto done;
    if ((st = sp_new(&order, n, sizeof *order, err))) goto done;
    if ((st = sp_source_read_all(order, source, spec, &scratch, err))) goto done;
    st = sp_config_check_token_order(order, n, err);
done:
    if (st) sp_context(err, "%s", source->path);
    sp_scratch_release(&scratch);
    free(order);
    return st;
}
