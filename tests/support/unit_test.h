/* What each test file includes: cmocka, the headers of C that nearly every test needs, and macros
 * that hand the file's tests to the program of its folder (unit_main.c). A test file is a module;
 * the program runs the module that its argument names.
 *
 *     TEST(numbers_are_read)                      a test; *state is what the fixture left there
 *     {
 *         assert_int_equal(1, 1);
 *     }
 *     CASES(golden_text, "qwen3", "llama");       golden_text, once with each string as *state
 *     CASES_OF(same_logits, golden_families);     the same, with the strings that a function lists
 *     GROUP_FIXTURE(packed_setup, packed_teardown);   around all tests of the file
 *     TEST_FIXTURE(NULL, scratch_teardown);           around each of them */
#ifndef SP_TESTS_SUPPORT_UNIT_TEST_H
#define SP_TESTS_SUPPORT_UNIT_TEST_H

#include "format/base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Whether a sanitizer slows the tests down and takes memory of its own. */
#ifdef SP_SANITIZED
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

/* Where the functions under test say why they fail: their `err`, which the checks below clear. */
extern struct sp_err *const why;

/* A call that must succeed; also with the name of its case for the message. */
#define assert_ok(call) unit_check_ok((int)(call), #call, __FILE__, __LINE__)
#define assert_case_ok(name, call) unit_check_ok((int)(call), name, __FILE__, __LINE__)
/* A call that must return this status, where *why contains the text, or is equal to it. */
#define assert_fails(call, status, part)                                                           \
    unit_check_failure((int)(call), (int)(status), part, false, __FILE__, __LINE__)
#define assert_fails_as(call, status, sentence)                                                    \
    unit_check_failure((int)(call), (int)(status), sentence, true, __FILE__, __LINE__)

void unit_check_ok(int status, const char *what, const char *file, int line);
void unit_check_failure(int found, int status, const char *text, bool whole, const char *file,
                        int line);

enum unit_kind { UNIT_TEST, UNIT_TEST_FIXTURE, UNIT_GROUP_FIXTURE };

/* A statement of a test file. */
struct unit_entry {
    enum unit_kind kind;
    const char *file;
    int line;
    const char *name;
    CMUnitTestFunction run;
    const char *const *cases;               /* ends with NULL; NULL: one test without a case */
    const char *const *(*list_cases)(void); /* returns cases; NULL: as above */
    CMFixtureFunction setup, teardown;
};

/* The linker joins the pointers that have this section into one array. */
#define UNIT_ENTRY(id, ...)                                                                        \
    static const struct unit_entry unit_entry_##id = {                                             \
        .file = __FILE__, .line = __LINE__, __VA_ARGS__};                                          \
    static const struct unit_entry *const unit_pointer_##id                                        \
        __attribute__((used, section("unit_entries"))) = &unit_entry_##id

#define TEST(function)                                                                             \
    static void function(void **state);                                                            \
    UNIT_ENTRY(function, .kind = UNIT_TEST, .name = #function, .run = function);                   \
    static void function(__attribute__((unused)) void **state)

#define CASES(function, ...)                                                                       \
    UNIT_ENTRY(function, .kind = UNIT_TEST, .name = #function, .run = function,                    \
               .cases = (const char *const[]){__VA_ARGS__, NULL})

#define CASES_OF(function, list)                                                                   \
    UNIT_ENTRY(function, .kind = UNIT_TEST, .name = #function, .run = function, .list_cases = list)

#define GROUP_FIXTURE(start, end)                                                                  \
    UNIT_ENTRY(group_fixture, .kind = UNIT_GROUP_FIXTURE, .setup = start, .teardown = end)

#define TEST_FIXTURE(start, end)                                                                   \
    UNIT_ENTRY(test_fixture, .kind = UNIT_TEST_FIXTURE, .setup = start, .teardown = end)

#endif
