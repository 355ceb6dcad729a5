/* Reads config.json files and compares what was parsed. */
#ifndef SP_TESTS_SUPPORT_CONFIG_CHECKS_H
#define SP_TESTS_SUPPORT_CONFIG_CHECKS_H

#include "format/config/config.h"

/* Parses the file; `warnings` is the parameter of sp_config_parse. */
enum sp_status config_parse_file(struct sp_config *c, const char *path, char **warnings,
                                 struct sp_err *err);
/* Parses the file and fails the test if it is refused. The config and the warnings are kept
 * (keep.h). */
struct sp_config *config_read(const char *path, char **warnings);
/* The same with a file of testdata/config, or with a text. */
struct sp_config *config_read_testdata(const char *name, char **warnings);
struct sp_config *config_parsed(const char *json);

/* Fails the test unless the numbers agree to 9 digits, the precision of hand calculations. */
void config_assert_near(double a, double b);
/* Whole numbers must be equal, others must be near. */
bool config_is_near(double a, double b);
/* Compares so the numbers of each pair "found, expected, found, expected, ...". */
#define config_assert_numbers(...)                                                                 \
    config_assert_pairs(#__VA_ARGS__, (const double[]){__VA_ARGS__},                               \
                        sizeof((const double[]){__VA_ARGS__}) / (2 * sizeof(double)))
void config_assert_pairs(const char *text, const double *pairs, size_t n);
/* Compares the attention windows of the layers with a text such as "4,0,4". */
void config_assert_windows(const struct sp_config *c, const char *expected);

#endif
