/* Tests the server's sockets: which of them are on the loopback interface, and UNIX sockets. */
#include "cli/serve/http/serve_http.h"
#include "tests/support/packed_models.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <sys/socket.h>
#include <unistd.h>

/* The bound address decides, in whatever way it is spelled. */
TEST(loopback_by_address)
{
    static const struct {
        const char *host;
        bool loopback, maybe; /* maybe: the machine may lack IPv6 */
    } all[] = {
        {"127.0.0.1", true, false}, {"LOCALHOST", true, false},
        {"127.1", true, false},     {"::ffff:127.0.0.1", true, true},
        {"::1", true, true},        {"0.0.0.0", false, false},
        {"::", false, true},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sp_listeners l = {.n = 0};
        enum sp_status st = sp_listen(&l, all[i].host, 0, NULL);
        if (st && all[i].maybe) continue;
        assert_ok(st);
        assert_int_equal(l.n, 1);
        assert_int_equal(l.at[0].loopback, all[i].loopback);
        sp_listen_close(&l);
    }
}

/* The socket of a server that was killed is replaced, that of a running one is not. */
TEST(unix_sockets)
{
    const char *path = packed_path("spectool.sock");
    struct sp_listeners first = {.n = 0}, second = {.n = 0};

    assert_ok(sp_listen(&first, path, 0, NULL));
    assert_true(first.at[0].local && !first.at[0].loopback);
    assert_fails(sp_listen(&second, path, 0, why), SP_E_IO, "Address already in use");
    close(first.at[0].fd);
    assert_ok(sp_listen(&second, path, 0, NULL));
    sp_listen_close(&second);
    assert_int_equal(access(path, F_OK), -1);
    free(first.at[0].path);
}

/* A file that is not a socket is neither replaced nor removed. */
TEST(other_files_stay)
{
    const char *path = scratch_write("model.bin", "a model", 7),
               *moved = scratch_path("moved.sock");
    struct sp_listeners l = {.n = 0};

    assert_fails(sp_listen(&l, path, 0, why), SP_E_USAGE, "a file that is not a socket is there");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_fails(sp_listen(&l, path, 0, why), SP_E_USAGE, "");
    assert_int_equal(unlink(path), 0);
    assert_ok(sp_listen(&l, path, 0, NULL));
    assert_int_equal(rename(path, moved), 0);
    scratch_write("model.bin", "another file", 12);
    sp_listen_close(&l);
    assert_int_equal(access(path, F_OK), 0);
    scratch_remove();
}

/* Sockets that systemd passes begin at descriptor 3. */
TEST(passed_sockets)
{
    struct sp_listeners own = {.n = 0}, passed = {.n = 0};
    char pid[32];

    assert_ok(sp_listen_activated(&passed, NULL));
    assert_int_equal(passed.n, 0);
    assert_ok(sp_listen(&own, "127.0.0.1", 0, NULL));
    assert_int_equal(dup2(own.at[0].fd, 3), 3);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", "1", 1);
    assert_ok(sp_listen_activated(&passed, NULL));
    assert_int_equal(passed.n, 0); /* they are those of another process */
    setenv("LISTEN_PID", pid, 1);
    assert_ok(sp_listen_activated(&passed, NULL));
    assert_int_equal(passed.n, 1);
    assert_true(passed.at[0].loopback);
    assert_string_equal(passed.at[0].url, own.at[0].url);
    sp_listen_close(&passed);
    sp_listen_close(&own);
    assert_int_equal(dup2(STDERR_FILENO, 3), 3); /* no listening socket */
    assert_int_equal(sp_listen_activated(&passed, NULL), SP_E_USAGE);
    close(3);
    unsetenv("LISTEN_FDS");
}

GROUP_FIXTURE(packed_setup, packed_teardown);
