/* Packs checkpoints into files for tests of the runtime. Each file is made once per test binary,
 * in a temporary folder that is removed at the end. */
#ifndef SP_TESTS_SUPPORT_PACKED_MODELS_H
#define SP_TESTS_SUPPORT_PACKED_MODELS_H

#include "format/dtype.h"
#include "runtime/spectool.h"

/* Setup and teardown of a test group: creates the temporary folder, and removes it with its
 * contents. */
int packed_setup(void **state);
int packed_teardown(void **state);

/* Returns the path of the packed file of `modelfile` with these types (SP_DTYPE_NONE: as stored).
 * Static; valid until packed_teardown. Fails the test on any error. */
const char *packed_file(const char *modelfile, enum sp_dtype target, enum sp_dtype draft);

/* False if the checkpoint is refused because its family is not supported, which is printed. Fails
 * the test on any other error. */
bool packed_is_supported(const char *checkpoint);

/* Returns the path of `name` in the temporary folder. */
const char *packed_path(const char *name);

/* The packed file of a folder without a draft; of a folder of testdata/families; and of
 * testdata/speculators, with a draft. */
const char *packed_alone(const char *folder, enum sp_dtype type);
const char *packed_family(const char *name, enum sp_dtype type);
const char *packed_speculator(const char *name, enum sp_dtype target, enum sp_dtype draft);

/* Writes a Modelfile with these FROM and DRAFT (NULL: none) to the temporary folder and returns
 * its path. */
const char *packed_modelfile(const char *from, const char *draft);

#endif
