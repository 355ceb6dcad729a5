#include "format/family/config_parse.h"
#include "tests/support/config_checks.h"

#include <math.h>

#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

enum sp_status config_parse_file(struct sp_config *c, const char *path, char **warnings,
                                 struct sp_err *err)
{
    size_t size;
    char *text = scratch_read(path, &size);
    return sp_config_parse(c, text, size, warnings, err);
}

static void release(void *config)
{
    sp_config_release(config);
    free(config);
}

struct sp_config *config_read(const char *path, char **warnings)
{
    struct sp_config *c = malloc(sizeof *c);

    assert_non_null(c);
    assert_case_ok(path, config_parse_file(c, path, warnings, why));
    if (warnings) keep(*warnings);
    return keep_with(c, release);
}

struct sp_config *config_parsed(const char *json)
{
    struct sp_config *c = malloc(sizeof *c);

    assert_non_null(c);
    assert_case_ok(json, sp_config_parse(c, json, strlen(json), NULL, why));
    return keep_with(c, release);
}

struct sp_config *config_read_testdata(const char *name, char **warnings)
{
    return config_read(keep_format(TESTDATA "/config/%s.json", name), warnings);
}

void config_assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b)))) fail_msg("%.12g, expected %.12g", a, b);
}

bool config_is_near(double a, double b)
{
    bool whole = a == floor(a) && b == floor(b);

    return a == b || (!whole && fabs(a - b) <= 1e-9 * (1 + fabs(b)));
}

void config_assert_pairs(const char *text, const double *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double a = pairs[2 * i], b = pairs[2 * i + 1];
        if (!config_is_near(a, b))
            fail_msg("pair %zu of %s is %.12g, expected %.12g", i + 1, text, a, b);
    }
}

void config_assert_windows(const struct sp_config *c, const char *expected)
{
    char text[256] = "";

    for (unsigned i = 0; i < c->n_layers; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? ",%u" : "%u",
                 c->layers[i].window);
    }
    assert_string_equal(text, expected);
}
