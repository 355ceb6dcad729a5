#include "convert/source/shared_tables.h"

#include "convert/source/tensor_equal.h"
#include "format/base/warnings.h"

enum sp_status sp_source_share_head(struct sp_source *source, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    bool equal;

    if (!source->compare_heads) return SP_OK;
    st = sp_tensor_equal(&equal, source, "embed_tokens.weight", source, "lm_head.weight", err);
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
    st = sp_tensor_equal(&equal, draft, name, target, name, err);
    if (st || !equal) return st;
    sp_specs_share_embedding(&draft->specs, &draft->config);
    return sp_warn(warnings, err, "%s: its embedding equals the target's, which is used for both",
                   draft->path);
}
