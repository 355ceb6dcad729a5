/* Tests how the page shows Markdown, in headless Chromium: its scripts run in an empty page,
 * without a server, and the checks of markdown_checks.js with them. testdata/markdown.json has the
 * HTML that another implementation makes. */
#include "tests/support/browser.h"
#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum { SKIPPED = 77 };

static struct browser page;

static int setup(void **state)
{
    (void)state;
    page = browser_start(browser_find());
    browser_run_file(&page, "", TESTDATA "/../cli/serve/page/elements.js");
    browser_run_file(&page, "", TESTDATA "/../cli/serve/page/markdown_inline.js");
    browser_run_file(&page, "", TESTDATA "/../cli/serve/page/markdown.js");
    browser_run_file(&page, "", TESTDATA "/../tests/serve/markdown_checks.js");
    browser_run_file(&page, "const cases = ", TESTDATA "/markdown.json");
    return 0;
}

static int teardown(void **state)
{
    browser_stop(&page);
    return scratch_teardown(state);
}

static void check(void **state)
{
    char *wrong = browser_value(&page, *state);

    if (*wrong) fail_msg("%s", wrong);
    free(wrong);
}

#define CHECK(call)                                                                                \
    {                                                                                              \
        call, check, NULL, NULL, (void *)(uintptr_t)(call)                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK("checkCases(cases)"), CHECK("checkOwn()"),    CHECK("checkStreams(cases)"),
        CHECK("checkBegun()"),      CHECK("checkWork()"),   CHECK("checkPlaces(cases)"),
        CHECK("checkHostile()"),    CHECK("checkRandom()"), CHECK("checkEndless()"),
    };

    if (browser_find() == NULL) {
        fprintf(stderr, "skipped: Chromium is not installed (apt-get install chromium)\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
