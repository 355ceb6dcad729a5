#include "tests/support/stored_tensor.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"
#include "convert/source/source.h"

static void release(void *source)
{
    sp_source_release(source);
    free(source);
}

struct sp_source *keep_source(const char *path)
{
    struct sp_source *source = malloc(sizeof *source);

    assert_non_null(source);
    assert_ok(sp_source_open(source, path, SP_PART_TARGET, NULL, why));
    return keep_with(source, release);
}

float *stored_tensor_floats(const struct sp_source *source, const struct sp_tensor_spec *spec,
                            enum sp_dtype *dtype)
{
    float *out = keep(calloc(sp_spec_elements(spec), sizeof *out));
    struct sp_scratch scratch = {0};
    struct sp_stored stored;

    assert_ok(sp_scratch_open(&scratch, 1 << 16, NULL));
    assert_ok(sp_source_stored(&stored, source, spec, NULL));
    assert_ok(sp_source_read_rows(out, source, spec, 0,
                                  stored.layout == SP_PLAIN ? SP_ALL_ROWS : sp_spec_rows(spec),
                                  &scratch, NULL));
    sp_scratch_release(&scratch);
    *dtype = stored.dtype;
    return out;
}
