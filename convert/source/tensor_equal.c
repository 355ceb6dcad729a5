#include "convert/source/tensor_equal.h"

#include "convert/source/source_read.h"
#include "format/base/mem.h"
#include "quantize/codec.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 }; /* at a time; whole panels of a packed file */

/* *scratch grows to what reading takes. */
static enum sp_status can_read(bool *out, size_t *scratch, const struct sp_source *source,
                               const struct sp_tensor_spec *spec, struct sp_err *err)
{
    struct sp_stored stored;
    size_t need;
    enum sp_status st;

    if ((st = sp_source_stored(&stored, source, spec, err))) return st;
    *out = sp_codec_can_read(stored.dtype);
    if (!*out) return SP_OK;
    if ((st = sp_source_scratch(&need, source, spec, err))) return st;
    if (need > *scratch) *scratch = need;
    return SP_OK;
}

enum sp_status sp_tensor_equal(bool *same, const struct sp_source *a, const char *a_name,
                               const struct sp_source *b, const char *b_name, struct sp_err *err)
{
    const struct sp_tensor_spec *s = sp_specs_find(&a->specs, a_name);
    const struct sp_tensor_spec *t = sp_specs_find(&b->specs, b_name);
    struct sp_scratch scratch = {0};
    uint64_t rows = s ? sp_spec_rows(s) : 0, cols = s ? sp_spec_cols(s) : 0;
    bool readable[2];
    size_t need = 0;
    float *x = NULL, *y;
    enum sp_status st;

    *same = false;
    if (s == NULL || t == NULL || rows != sp_spec_rows(t) || cols != sp_spec_cols(t)) return SP_OK;
    if ((st = can_read(&readable[0], &need, a, s, err))) return st;
    if ((st = can_read(&readable[1], &need, b, t, err))) return st;
    if (!readable[0] || !readable[1]) return SP_OK;
    if ((st = sp_scratch_open(&scratch, need, err))) goto done;
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
