/* Packed files for tests of the runtime: made once per test binary from checkpoints, in a folder of
 * their own that is removed at the end. */
#ifndef SP_TESTS_SUPPORT_PACKED_MODELS_H
#define SP_TESTS_SUPPORT_PACKED_MODELS_H

#include "format/dtype.h"
#include "runtime/spectool.h"

/* A fresh temporary folder, and its removal with everything in it: set-up and teardown of a group
 * of tests. */
int packed_setup(void **state);
int packed_teardown(void **state);

/* Path (static storage, valid until packed_teardown) of the packed file of `modelfile` with these
 * types (SP_DTYPE_NONE: as stored). Fails the test on any error. */
const char *packed_file(const char *modelfile, enum sp_dtype target, enum sp_dtype draft);

/* Path of a file in the temporary folder. */
const char *packed_path(const char *name);

/* Modelfile in the temporary folder with these FROM and DRAFT (NULL: none). */
const char *packed_modelfile(const char *from, const char *draft);

#endif
