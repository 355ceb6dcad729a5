#include "tests/support/calibration_files.h"
#include "tests/support/create_files.h"
#include "tests/support/unit_test.h"

const char *calibration_target(void)
{
    const char *path = create_path("target.bin");

    create_pack(create_modelfile("FROM @/target\n"), path, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    return path;
}

enum sp_status calibration_requantize(const char *in, const char *out, const char *calibration,
                                      enum sp_dtype target, unsigned n_threads, struct sp_err *err)
{
    struct sp_create_options o = {.from = in,
                                  .output = out,
                                  .target_type = target,
                                  .calibration = calibration,
                                  .n_threads = n_threads,
                                  .force = true};

    return sp_requantize(NULL, &o, err);
}

void calibration_assert_refused(const char *model, const char *calibration, enum sp_dtype type,
                                enum sp_status expected, const char *part)
{
    const char *out = create_path("refused.bin");
    size_t n_files = create_count_files();

    assert_fails(calibration_requantize(model, out, calibration, type, 2, why), expected, part);
    assert_int_equal(create_count_files(), n_files);
}
