#include "convert/adapter/adapter.h"

#include "format/base/mem.h"
#include "quantize/types/float_cast.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)SP_GGUF_MAX_RANK <= (int)SP_MAX_RANK, "shapes fit");

static enum sp_status list_tensors(struct sp_adapter_file *f, struct sp_err *err)
{
    const struct sp_safetensor *plain = NULL;
    enum sp_status st;

    f->n = f->gguf.n;
    if (f->safetensors) plain = sp_safetensors_tensors(f->safetensors, &f->n);
    if ((st = sp_new(&f->tensors, f->n, sizeof *f->tensors, err))) return st;
    for (size_t i = 0; i < f->n; i++) {
        struct sp_adapter_tensor *t = &f->tensors[i];
        if (plain) {
            *t = (struct sp_adapter_tensor){.name = plain[i].name,
                                            .published = plain[i].name,
                                            .dtype = plain[i].dtype,
                                            .rank = plain[i].rank,
                                            .plain = &plain[i]};
            memcpy(t->shape, plain[i].shape, t->rank * sizeof *t->shape);
        } else {
            const struct sp_gguf_weight *w = &f->gguf.weights[i];
            *t = (struct sp_adapter_tensor){.name = w->tensor->name,
                                            .published = w->name,
                                            .dtype = sp_gguf_weight_float_type(w),
                                            .rank = w->rank,
                                            .encoded = w};
            memcpy(t->shape, w->shape, t->rank * sizeof *t->shape);
        }
    }
    return SP_OK;
}

enum sp_status sp_adapter_file_open(struct sp_adapter_file *out, const char *path, bool is_gguf,
                                    const struct sp_config *model, struct sp_err *err)
{
    struct sp_adapter_file f = {0};
    enum sp_status st;

    *out = f;
    st = is_gguf ? sp_gguf_model_open(&f.gguf, path, model, NULL, err)
                 : sp_safetensors_open(&f.safetensors, path, NULL, err);
    if (st || (st = list_tensors(&f, err))) {
        sp_adapter_file_close(&f);
        return st;
    }
    *out = f;
    return SP_OK;
}

void sp_adapter_file_close(struct sp_adapter_file *file)
{
    free(file->tensors);
    sp_gguf_model_release(&file->gguf);
    sp_safetensors_close(file->safetensors);
    *file = (struct sp_adapter_file){0};
}

enum sp_status sp_adapter_file_read(float *out, const struct sp_adapter_tensor *t, uint64_t first,
                                    size_t n, struct sp_adapter_scratch *scratch,
                                    struct sp_err *err)
{
    size_t width = sp_dtype_info(t->dtype)->bits / 8, size;
    uint64_t cols = t->shape[t->rank - 1];
    enum sp_status st;

    if (t->encoded ? !sp_gguf_weight_scratch(&size, t->encoded, n) : !sp_mul(&size, n, width))
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor \"%s\" is too large", t->name);
    if ((st = sp_reserve(&scratch->bytes, &scratch->size, size, 1, err))) return st;
    if (t->encoded) {
        if (first % cols || n % cols) cols = 1;
        return sp_gguf_weight_read(out, t->encoded, cols, first / cols, 1, n / cols, scratch->bytes,
                                   scratch->size, err);
    }
    st = sp_safetensors_read(t->plain, first * width, n * width, scratch->bytes, err);
    if (!st) sp_decode_floats(out, t->dtype, scratch->bytes, n);
    return st;
}
