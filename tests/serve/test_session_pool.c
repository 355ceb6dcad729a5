/* cli/chat/session_pool.c: alternating conversations reuse their cached tokens, and a session that
 * is no longer used is replaced. */
#include "cli/chat/loaded_model.h"
#include "tests/support/generate_checks.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

enum { N_CONTEXT = 256, N_IDS = 200 };

struct served {
    struct generate_fixture g;
    struct sp_session_pool *sessions;
};

static struct served serve(size_t n)
{
    const char *path = packed_file(TESTDATA "/tiny/Modelfile", SP_Q8, SP_Q8);
    struct served s = {
        .g = generate_open(path, NULL, 1,
                           &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                        .n_context = N_CONTEXT})};

    assert_ok(sp_session_pool_new(&s.sessions, s.g.session, n, NULL));
    return s;
}

static void stop(struct served *s)
{
    sp_session_pool_free(s->sessions);
}

/* Generates from the first n tokens of a conversation. Every conversation has different tokens. */
static struct sp_session *request(struct served *s, uint32_t conversation, size_t n,
                                  size_t *n_reused)
{
    uint32_t ids[N_IDS];
    struct sp_result r = SP_RESULT_INIT;

    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(conversation * 100 + i * 7 % 97);
    struct sp_session *session = sp_session_pool_take(s->sessions, NULL, 1, ids, n);
    r = generate_run(session, ids, n, 4, PLAIN, true);
    sp_session_pool_give(s->sessions, session);
    *n_reused = r.n_reused;
    return session;
}

TEST(conversations_keep_their_sessions)
{
    struct served s = serve(2);
    size_t n;
    struct sp_session *a = request(&s, 1, 100, &n), *b = request(&s, 2, 60, &n);

    assert_ptr_equal(a, s.g.session);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(request(&s, 1, 120, &n), a);
    assert_int_equal(n, 100);
    assert_ptr_equal(request(&s, 2, 70, &n), b);
    assert_int_equal(n, 60);
    /* a third conversation replaces the one that was used less recently */
    assert_ptr_equal(request(&s, 3, 40, &n), a);
    assert_int_equal(n, 0);
    stop(&s);
}

TEST(idle_sessions_are_replaced)
{
    struct served s = serve(2);
    size_t n;
    struct sp_session *a = request(&s, 1, 180, &n), *b = request(&s, 2, 40, &n);

    assert_ptr_equal(request(&s, 3, 30, &n), b); /* the session of the long conversation is kept */
    for (size_t i = 0; i < 6; i++)
        assert_ptr_equal(request(&s, 3, 31 + i, &n), b);
    assert_ptr_equal(request(&s, 4, 30, &n), a);
    assert_ptr_equal(request(&s, 3, 50, &n), b);
    assert_int_equal(n, 36);
    stop(&s);
}

TEST(one_session)
{
    struct served s = serve(1);
    size_t n;

    assert_ptr_equal(request(&s, 1, 100, &n), s.g.session);
    assert_ptr_equal(request(&s, 2, 60, &n), s.g.session);
    assert_ptr_equal(request(&s, 1, 100, &n), s.g.session);
    assert_int_equal(n, 0);
    stop(&s);
}

/* No session is opened before it is needed. */
TEST(sessions_are_opened_late)
{
    struct served s = serve(64);
    size_t n;

    for (size_t i = 0; i < 5; i++)
        assert_ptr_equal(request(&s, 1, 20 + 20 * i, &n), s.g.session);
    assert_ptr_not_equal(request(&s, 2, 20, &n), s.g.session);
    stop(&s);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
