/* Tests how the page shows Markdown, in headless Chromium: its scripts run in an empty page,
 * without a server, and the checks of markdown_checks.js with them. testdata/markdown.json has the
 * HTML that another implementation makes. */
#include "tests/support/browser.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static struct browser page;

static int setup(void **state)
{
    (void)state;
    page = browser_start();
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
    const char *wrong = browser_value(&page, *state);

    if (*wrong) fail_msg("%s", wrong);
}

CASES(check, "checkCases(cases)", "checkOwn()", "checkStreams(cases)", "checkBegun()",
      "checkWork()", "checkPlaces(cases)", "checkHostile()", "checkRandom()", "checkEndless()");
GROUP_FIXTURE(setup, teardown);
