/* Packs the tiny models into files of a scratch folder and compares the results, for tests of
 * create and quantize. Every failure fails the test. */
#ifndef SP_TESTS_SUPPORT_CREATE_FILES_H
#define SP_TESTS_SUPPORT_CREATE_FILES_H

#include "convert/create/create.h"
#include "format/packfile.h"

#define TINY TESTDATA "/tiny"

/* Setup and teardown of a test: creates a scratch folder, and removes it with its contents. */
int create_setup(void **state);
int create_teardown(void **state);

/* Return a copy of the string `path`, and the path of `name` in the scratch folder. Kept
 * (keep.h). */
const char *create_keep_path(const char *path);
const char *create_path(const char *name);

/* Returns the number of names in the scratch folder, including hidden ones. */
size_t create_count_files(void);

/* Writes `lines` as a Modelfile in the scratch folder, with "@" replaced by the folder of the tiny
 * models. Returns its path, which is valid until create_teardown. */
const char *create_modelfile(const char *lines);

struct sp_create_options create_options(const char *modelfile, const char *output);

/* Creates the packed file and overwrites an existing one. SP_DTYPE_NONE keeps the stored types. */
void create_pack(const char *modelfile, const char *output, enum sp_dtype target,
                 enum sp_dtype draft, unsigned n_threads);
void create_requantize(const char *input, const char *output, enum sp_dtype target,
                       enum sp_dtype draft);

/* Overwrites the first `n` bytes of a tensor of the target. */
void create_damage_tensor(const char *path, const char *tensor, const char *bytes, size_t n);

/* Opens the packed file and checks every digest and the pairing record. It is kept (keep.h). */
struct sp_pack *create_open(const char *path);

#endif
