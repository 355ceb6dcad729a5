/* Tests which connections the server closes to let others in. */
#include "cli/serve/http/serve_http.h"
#include "format/base/clock.h"
#include "tests/support/unit_test.h"

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { N = 4 };

static const double GRACE = 0.5; /* seconds in which a connection is not slow */

struct fixture {
    struct sp_connections *connections;
    int ours[N], theirs[N];
};

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 600000000}; /* beyond GRACE */

    nanosleep(&time, NULL);
}

static void add(struct fixture *f, size_t i, bool added)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    f->ours[i] = pair[0];
    f->theirs[i] = pair[1];
    assert_int_equal(sp_connections_add(f->connections, pair[0], NULL), added);
}

static bool is_closed(const struct fixture *f, size_t i)
{
    char byte;

    return recv(f->theirs[i], &byte, 1, MSG_DONTWAIT) == 0;
}

/* Returns false if the machine is so busy that the time of grace was over before it was checked. */
static bool check_slowest(void)
{
    struct fixture f = {.connections = NULL, {-1, -1, -1, -1}, {-1, -1, -1, -1}};
    double began = sp_seconds();

    assert_ok(sp_connections_open(&f.connections, 2, 3, NULL));
    add(&f, 0, true);
    add(&f, 1, true);
    sp_connections_set(f.connections, sp_connections_find(f.connections, f.ours[0], false), false);
    add(&f, 2, true);
    bool closed = is_closed(&f, 1);
    bool in_time = sp_seconds() - began < GRACE;
    if (in_time) {
        assert_false(closed); /* it is not slow yet */
        nap();
        add(&f, 3, false); /* more than there can be */
        assert_false(is_closed(&f, 0));
        assert_true(is_closed(&f, 1));
        assert_false(is_closed(&f, 2));
        sp_connections_remove(f.connections, f.ours[1]);
        assert_null(sp_connections_find(f.connections, f.ours[1], false));
        began = sp_seconds();
        sp_connections_set(f.connections, sp_connections_find(f.connections, f.ours[0], false),
                           true);
        assert_true(sp_connections_add(f.connections, f.ours[3], NULL));
        assert_true(is_closed(&f, 2));
        closed = is_closed(&f, 0);
        in_time = sp_seconds() - began < GRACE;
        if (in_time) assert_false(closed); /* its response has just been sent */
    }
    sp_connections_close(f.connections);
    for (size_t i = 0; i < N; i++) {
        close(f.ours[i]);
        close(f.theirs[i]);
    }
    return in_time;
}

/* A new connection beyond the wanted number closes the one that has been sending for the longest
 * time. Connections that wait for a response, or are new, stay open. */
TEST(the_slowest_is_closed)
{
    while (!check_slowest())
        continue;
}
