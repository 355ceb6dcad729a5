/* Packed files made from the tiny models in a scratch folder, and what came out of it: tests of
 * create and quantize. All failures fail the test. */
#ifndef SP_TESTS_SUPPORT_CREATE_FILES_H
#define SP_TESTS_SUPPORT_CREATE_FILES_H

#include "convert/create/create.h"
#include "format/packfile.h"

#define TINY TESTDATA "/tiny"

/* A fresh scratch folder, and its removal with everything in it: set-up and teardown of a test. */
int create_setup(void **state);
int create_teardown(void **state);

/* A copy of `path`, and the path of `name` in the scratch folder; both valid until create_teardown.
 */
const char *create_keep_path(const char *path);
const char *create_path(const char *name);

/* Names in the scratch folder, hidden ones included. */
size_t create_count_files(void);

/* Path of `lines` as a Modelfile in the scratch folder, "@" standing for the tiny models' folder.
 * Valid until create_teardown. */
const char *create_modelfile(const char *lines);

struct sp_create_options create_options(const char *modelfile, const char *output);

/* Over what is there. SP_DTYPE_NONE: as it is. */
void create_pack(const char *modelfile, const char *output, enum sp_dtype target,
                 enum sp_dtype draft, unsigned n_threads);
void create_requantize(const char *input, const char *output, enum sp_dtype target,
                       enum sp_dtype draft);

/* Writes `n` bytes over the beginning of a target's tensor. */
void create_damage_tensor(const char *path, const char *tensor, const char *bytes, size_t n);

void create_assert_same_file(const char *a, const char *b);

/* Opens, checks every digest and the pairing; the caller closes. */
struct sp_pack *create_open(const char *path);

#endif
