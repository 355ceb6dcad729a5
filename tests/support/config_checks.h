/* Configs for tests: read from files, and looked at. */
#ifndef SP_TESTS_SUPPORT_CONFIG_CHECKS_H
#define SP_TESTS_SUPPORT_CONFIG_CHECKS_H

#include "format/model/config.h"

/* `notes` as sp_config_parse takes it. */
enum sp_status config_parse_file(struct sp_config *c, const char *path, char **warnings,
                                 struct sp_err *err);
/* One that is right, or the test fails. */
void config_read(struct sp_config *c, const char *path, char **warnings);
/* One of testdata/config. */
void config_read_testdata(struct sp_config *c, const char *name, char **warnings);

/* Numbers near each other to 9 digits: what a hand calculation gives. */
void config_assert_near(double a, double b);
/* Windows of the layers as text: "4,0,4". */
void config_assert_windows(const struct sp_config *c, const char *expected);

#endif
