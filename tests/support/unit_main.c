/* The program of a folder of tests: `format_tests test_json` runs the tests of test_json.c, and
 * `format_tests test_json 'numbers*'` those of them whose names match, `format_tests test_json
 * '-numbers*'` all others. */
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

/* The linker defines them: the entries of all files of the program. */
extern const struct unit_entry *const __start_unit_entries[], *const __stop_unit_entries[];

enum { MAX_TESTS = 256, NAME_SIZE = 128 };

static struct CMUnitTest tests[MAX_TESTS];
static char names[MAX_TESTS][NAME_SIZE];
static size_t n_tests;
static const struct unit_entry *around_each, *around_all; /* fixtures; NULL: none */
static size_t n_kept;                                     /* before the test */

/* The name of a file without its folder and suffix. */
static void module_of(const char *file, char module[NAME_SIZE])
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;

    snprintf(module, NAME_SIZE, "%.*s", (int)strcspn(name, "."), name);
}

static int begin_test(void **state)
{
    n_kept = kept_count();
    *why = (struct sp_err){0};
    return around_each && around_each->setup ? around_each->setup(state) : 0;
}

static int end_test(void **state)
{
    int failed = around_each && around_each->teardown ? around_each->teardown(state) : 0;

    kept_release(n_kept);
    return failed;
}

static int end_group(void **state)
{
    int failed = around_all && around_all->teardown ? around_all->teardown(state) : 0;

    kept_release(0);
    return failed;
}

static void add_test(const struct unit_entry *e, const char *arg)
{
    struct CMUnitTest *test = &tests[n_tests];

    if (n_tests == MAX_TESTS) abort();
    snprintf(names[n_tests], NAME_SIZE, "%s%s%s", e->name, arg ? " " : "", arg ? arg : "");
    test->name = names[n_tests++];
    test->test_func = e->run;
    test->setup_func = begin_test;
    test->teardown_func = end_test;
    test->initial_state = (void *)(uintptr_t)arg;
}

static int compare_lines(const void *a, const void *b)
{
    const struct unit_entry *const *x = a, *const *y = b;

    return ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

static int run_module(const char *module)
{
    const struct unit_entry *found[MAX_TESTS];
    char name[NAME_SIZE];
    size_t n = 0;

    for (const struct unit_entry *const *e = __start_unit_entries; e < __stop_unit_entries; e++) {
        module_of((*e)->file, name);
        if (strcmp(name, module) != 0) continue;
        if (n == MAX_TESTS) abort();
        found[n++] = *e;
        if ((*e)->kind == UNIT_TEST_FIXTURE) around_each = *e;
        if ((*e)->kind == UNIT_GROUP_FIXTURE) around_all = *e;
    }
    qsort(found, n, sizeof *found, compare_lines);
    for (size_t i = 0; i < n; i++) {
        const char *const *arg = found[i]->cases;
        if (found[i]->kind != UNIT_TEST) continue;
        if (found[i]->list_cases) arg = found[i]->list_cases();
        if (arg == NULL) add_test(found[i], NULL);
        for (; arg && *arg; arg++)
            add_test(found[i], *arg);
    }
    if (n_tests == 0) {
        fprintf(stderr, "this program has no tests of %s\n", module);
        return 2;
    }
    return _cmocka_run_group_tests(module, tests, n_tests, around_all ? around_all->setup : NULL,
                                   end_group);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s MODULE [PATTERN]\n", argv[0]);
        return 2;
    }
    if (argc == 3 && *argv[2] == '-')
        cmocka_set_skip_filter(argv[2] + 1);
    else if (argc == 3)
        cmocka_set_test_filter(argv[2]);
    return run_module(argv[1]);
}
