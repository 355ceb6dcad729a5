/* Quantizes the tiny target with calibration files, for tests of these. Files are in the scratch
 * folder of tests/support/create_files.h. Every failure fails the test. */
#ifndef SP_TESTS_SUPPORT_CALIBRATION_FILES_H
#define SP_TESTS_SUPPORT_CALIBRATION_FILES_H

#include "format/base/err.h"
#include "format/dtype.h"

/* Packs the tiny target as stored; returns the path. */
const char *calibration_target(void);

enum sp_status calibration_requantize(const char *in, const char *out, const char *calibration,
                                      enum sp_dtype target, unsigned n_threads, struct sp_err *err);

/* Quantizing the model with the calibration fails as expected, with a message that contains `part`,
 * and leaves no file. */
void calibration_assert_refused(const char *model, const char *calibration, enum sp_dtype type,
                                enum sp_status expected, const char *part);

#endif
