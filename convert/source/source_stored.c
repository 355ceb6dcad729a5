/* How the tensors of a source are stored. */
#include "convert/source/source.h"

#include "convert/gguf/gguf_model.h"
#include "convert/source/quantized_weights.h"
#include "format/ggml_type.h"
#include "format/safetensors.h"
#include "quantize/types/float_cast.h"

uint64_t sp_spec_elements(const struct sp_tensor_spec *spec)
{
    return sp_n_elements(spec->shape, spec->rank);
}

uint64_t sp_spec_cols(const struct sp_tensor_spec *spec)
{
    return spec->rank ? spec->shape[spec->rank - 1] : 1;
}

uint64_t sp_spec_rows(const struct sp_tensor_spec *spec)
{
    return sp_spec_elements(spec) / sp_spec_cols(spec);
}

/* How one span of a tensor is stored. */
static enum sp_status describe_span(struct sp_stored *out, const struct sp_source *source,
                                    const struct sp_row_span *p, struct sp_err *err)
{
    const struct sp_gguf_weight *g =
        source->gguf ? sp_gguf_weight_find(source->gguf, p->source) : NULL;
    const struct sp_weight *w = sp_quantized_weights_find(&source->weights, p->source);
    const struct sp_safetensor *t = NULL;
    uint64_t n_rows = p->n_rows;

    if (source->checkpoint)
        t = w ? w->codes.tensor : sp_safetensors_find(source->checkpoint, p->source);
    if (g) {
        const struct sp_ggml_type_info *info = sp_ggml_type_info(g->tensor->type);
        if (p->transposed) n_rows = n_rows * p->n_cols / g->shape[g->rank - 1];
        if (!p->transposed) out->kept = sp_gguf_weight_kept(&out->kept_flags, g);
        out->dtype = sp_gguf_weight_float_type(g);
        out->coding = info->code_bits ? info->name : NULL;
        out->code_bits = info->code_bits;
        out->size = g->rank > 1 ? g->tensor->size / sp_n_elements(g->shape, g->rank - 1) * n_rows
                                : g->tensor->size;
        return SP_OK;
    }
    if (t == NULL) return sp_fail(err, SP_E_BUG, "tensor %s is not in the file", p->source);
    out->dtype = w ? sp_weight_float_type(w) : t->dtype;
    if (w == NULL) {
        out->size = p->n_rows * p->n_cols * sp_dtype_info(t->dtype)->bits / 8;
        return SP_OK;
    }
    out->size = w->size / w->codes.rows * (p->n_rows * p->n_cols) / w->shape[w->rank - 1];
    out->coding = w->coding;
    out->code_bits = w->codes.bits;
    if (!p->transposed) out->kept = sp_weight_kept(&out->kept_flags, w);
    out->rounds_scales = out->kept && w->scale_type == SP_F32;
    return SP_OK;
}

/* Merges how another part of a tensor is stored into that of the parts before it. */
static void add_part(struct sp_stored *out, const struct sp_stored *part, bool first)
{
    if (first || !sp_can_decode_floats(part->dtype))
        out->dtype = part->dtype;
    else if (out->dtype != part->dtype && sp_can_decode_floats(out->dtype))
        out->dtype = SP_F32;
    if (first) {
        out->kept = part->kept;
        out->kept_flags = part->kept_flags;
    } else if (out->kept != part->kept || out->kept_flags != part->kept_flags) {
        out->kept = SP_DTYPE_NONE;
    }
    if (part->coding) out->coding = part->coding;
    if (part->code_bits > out->code_bits) out->code_bits = part->code_bits;
    out->rounds_scales = out->rounds_scales || part->rounds_scales;
    out->size += part->size;
}

enum sp_status sp_source_stored(struct sp_stored *out, const struct sp_source *source,
                                const struct sp_tensor_spec *spec, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    bool merged = source->merge && sp_merge_changes(source->merge, spec), plain = false;

    if (source->pack) {
        const struct sp_pack_tensor *t = sp_pack_find(source->pack, source->part, spec->name);
        *out = (struct sp_stored){.dtype = t->dtype,
                                  .layout = t->layout,
                                  .size = t->size,
                                  .data = merged ? NULL : t->data,
                                  .merged = merged};
        return SP_OK;
    }
    *out = (struct sp_stored){.layout = SP_PLAIN, .merged = merged};
    for (size_t i = 0; i < spec->n_spans && !st; i++) {
        struct sp_stored part = {0};
        st = describe_span(&part, source, &source->specs.spans[spec->first_span + i], err);
        add_part(out, &part, i == 0);
        plain = plain || part.coding == NULL;
    }
    if (plain) out->code_bits = 0;
    if (merged) out->kept = SP_DTYPE_NONE;
    return st;
}
