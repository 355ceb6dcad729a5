#include "cli/base/backend_opts.h"

#include "cli/base/out.h"
#include "convert/adapter/merge.h"
#include "convert/source/source.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status add_product(struct sp_lora *lora, const struct sp_source *source,
                                  const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_low_rank factors = {0};
    struct sp_lora_product product = SP_LORA_PRODUCT_INIT;
    enum sp_status st;

    if ((st = sp_low_rank_read(&factors, source->merge, &source->merge->specs, spec, err)))
        return st;
    if (factors.rank) {
        product.tensor = spec->name;
        product.n_rows = factors.n_rows;
        product.n_cols = factors.n_cols;
        product.rank = factors.rank;
        product.left = factors.left;
        product.right = factors.right;
        st = sp_lora_add(lora, &product, err);
    }
    sp_low_rank_release(&factors);
    return st;
}

enum sp_status sp_lora_file_open(struct sp_lora **out, struct sp_package *package,
                                 const char *packed, const char *path, const char *command,
                                 struct sp_err *err)
{
    struct sp_source source = {0};
    struct sp_lora *lora = NULL;
    char *warnings = NULL;
    enum sp_status st;

    if ((st = sp_source_open(&source, packed, SP_PART_TARGET, NULL, err))) goto done;
    if ((st = sp_source_place(&source, path, &warnings, err))) goto done;
    if ((st = sp_lora_open(&lora, package, err))) goto done;
    for (size_t i = 0; i < source.merge->specs.n_specs && !st; i++)
        st = add_product(lora, &source, &source.merge->specs.specs[i], err);
    if (st) {
        sp_context(err, "%s", path);
        goto done;
    }
    for (char *line = warnings ? strtok(warnings, "\n") : NULL; line; line = strtok(NULL, "\n"))
        sp_note(command, "%s", line);
    *out = lora;
    lora = NULL;
done:
    sp_lora_close(lora);
    sp_source_release(&source);
    free(warnings);
    return st;
}
