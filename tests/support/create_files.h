/* Packed files made from the tiny models in a scratch folder, and what came out of it: tests of
 * create and quantize. All failures fail the test. */
#ifndef SP_TESTS_SUPPORT_CREATE_FILES_H
#define SP_TESTS_SUPPORT_CREATE_FILES_H

#include "convert/create/create.h"
#include "format/packfile.h"

#define TINY TESTDATA "/tiny"

/* A fresh scratch folder, and its removal with everything in it: set-up and teardown of a test. */
int creating_begin(void **state);
int creating_end(void **state);

/* A copy of `path`, and the path of `name` in the scratch folder; both valid until creating_end. */
const char *creating_keep(const char *path);
const char *creating_at(const char *name);

/* Names in the scratch folder, hidden ones included. */
size_t creating_n_files(void);

/* Path of `lines` as a Modelfile in the scratch folder, "@" standing for the tiny models' folder.
 * Valid until creating_end. */
const char *creating_modelfile(const char *lines);

struct sp_create_options creating_options(const char *modelfile, const char *output);

/* Over what is there. SP_DTYPE_NONE: as it is. */
void creating_create(const char *modelfile, const char *output, enum sp_dtype target,
                     enum sp_dtype draft, unsigned n_threads);
void creating_requantize(const char *input, const char *output, enum sp_dtype target,
                         enum sp_dtype draft);

/* Writes `n` bytes over the beginning of a target's tensor. */
void creating_damage(const char *path, const char *tensor, const char *bytes, size_t n);

void creating_same_file(const char *a, const char *b);

/* Opens, checks every digest and the pairing; the caller closes. */
struct sp_pack *creating_open(const char *path);

#endif
