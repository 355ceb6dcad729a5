/* Tests ranks through the library: their link is measured, and a program that goes on after it lost
 * a rank gets the same ids from the process that is left. */
#include "tests/support/packed_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { N_IDS = 24 };

static void note_lost(void *context, const char *sentence)
{
    snprintf(context, 256, "%s", sentence);
}

static struct sp_package *open_ranks(unsigned n_ranks, char lost[256])
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct sp_package_options options = SP_PACKAGE_OPTIONS_INIT;
    struct sp_package *package;

    options.n_threads = 1;
    options.n_ranks = n_ranks;
    options.rank_lost = note_lost;
    options.rank_context = lost;
    assert_int_equal(sp_package_open(&package, path, &options, NULL), SP_OK);
    return package;
}

static void generate(struct sp_package *package, uint32_t ids[N_IDS])
{
    static const uint32_t story[] = {582, 580, 258, 421};
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_request request = {.size = sizeof request,
                                 .prompt = story,
                                 .n_prompt = 4,
                                 .max_tokens = N_IDS,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO,
                                 .ignore_eos = true};
    struct sp_result result = SP_RESULT_INIT;
    struct sp_session *session;

    assert_int_equal(sp_session_open(&session, package, &options, NULL), SP_OK);
    assert_int_equal(sp_session_generate(session, &request, &result, NULL), SP_OK);
    assert_int_equal(result.n_ids, N_IDS);
    memcpy(ids, result.ids, N_IDS * sizeof *ids);
    sp_result_release(&result);
    sp_session_close(session);
}

/* The last child of this process. */
static pid_t find_rank(void)
{
    char path[64];
    int pid = 0, next;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    f = fopen(path, "r");
    if (f == NULL) return 0; /* a kernel without this list */
    while (fscanf(f, "%d", &next) == 1)
        pid = next;
    fclose(f);
    return pid;
}

static void lost_rank_is_replaced(void **state)
{
    uint32_t want[N_IDS], got[N_IDS];
    char lost[256] = "";
    struct sp_package *one = open_ranks(1, lost), *three = open_ranks(3, lost);
    pid_t rank = find_rank();

    (void)state;
    generate(one, want);
    generate(three, got);
    assert_memory_equal(got, want, sizeof want);
    assert_string_equal(lost, "");
    if (rank) {
        assert_int_equal(kill(rank, SIGKILL), 0);
        generate(three, got);
        assert_memory_equal(got, want, sizeof want);
        assert_string_equal(lost, "rank 2 of 3 was ended by signal 9");
    }
    sp_package_close(three);
    sp_package_close(one);
}

static void link_is_measured(void **state)
{
    char lost[256] = "";
    struct sp_package *one = open_ranks(1, lost), *two = open_ranks(2, lost);
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_rank_link link = SP_RANK_LINK_INIT;

    (void)state;
    assert_int_equal(sp_package_measure_link(one, &link, NULL), SP_E_USAGE);
    assert_int_equal(sp_package_measure_link(two, &link, NULL), SP_OK);
    assert_true(link.round_trip > 0 && link.bandwidth > 0);
    sp_package_describe(two, &info);
    assert_int_equal(info.n_ranks, 2);
    assert_int_equal(info.n_ranks_here, 2);
    sp_package_close(two);
    sp_package_close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_rank_is_replaced),
        cmocka_unit_test(link_is_measured),
    };

    return cmocka_run_group_tests(tests, packed_setup, packed_teardown);
}
