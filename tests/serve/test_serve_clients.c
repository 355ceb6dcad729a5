/* Tests many clients of `spectool serve` at once, the queue, disconnecting and slow clients, and
 * the shutdown of the server. */
#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static void *request_stream(void *context)
{
    const struct served_api *w = context;
    size_t n;

    struct http_reply r =
        server_request(&tiny_server, "POST", w->path, keep_format("%strue}", w->body));
    return r.status == 200 ? stream_text(&r, w->piece, &n) : NULL;
}

/* Clients that request at the same time each get their own whole response. */
TEST(test_many_clients)
{
    enum { EACH = 4 };
    pthread_t threads[EACH * N_SERVED_APIS];
    char *first = request_stream((void *)(uintptr_t)&served_apis[0]);

    for (size_t i = 0; i < EACH * N_SERVED_APIS; i++) {
        void *way = (void *)(uintptr_t)&served_apis[i % N_SERVED_APIS];
        assert_int_equal(pthread_create(&threads[i], NULL, request_stream, way), 0);
    }
    for (size_t i = 0; i < EACH * N_SERVED_APIS; i++) {
        void *text = NULL;
        assert_int_equal(pthread_join(threads[i], &text), 0);
        assert_non_null(text);
        assert_string_equal(text, first);
    }
}

/* The server generates as many responses at the same time as it has sessions. */
TEST(test_concurrent_responses)
{
    enum { N = 3 };
    static const char *const options[] = {"--sessions", "3", SERVED_SLOW_OPTIONS, NULL};
    struct server s = server_start(served_file, options);
    int running[N];

    const char *streamed = keep_format(SERVED_LONG_REQUEST, "true");
    for (size_t i = 0; i < N; i++) {
        char byte;
        running[i] = server_begin_request(&s, "/v1/completions", streamed);
        assert_int_equal(recv(running[i], &byte, 1, 0), 1);
    }
    for (size_t i = 0; i < N; i++)
        close(running[i]);
    server_await_log(&s, "POST /v1/completions 200", N);
    assert_int_equal(server_count_log(&s, ", length"), 0);
}

/* One client is served, one waits, and the third is refused with an error. Disconnected clients
 * free their place at once, whether they stream or not. */
TEST(test_queue)
{
    static const char *const options[] = {"--max-queue",       "1", "--sessions", "1",
                                          SERVED_SLOW_OPTIONS, NULL};
    struct server s = server_start(served_file, options);
    struct http_reply r;

    const char *streamed = keep_format(SERVED_LONG_REQUEST, "true");
    const char *whole = keep_format(SERVED_LONG_REQUEST, "false");
    for (int i = 0; i < 2; i++) {
        int running = server_begin_request(&s, "/v1/completions", streamed);
        struct pollfd rest[2] = {{.events = POLLIN}, {.events = POLLIN}};
        char byte;
        assert_int_equal(recv(running, &byte, 1, 0), 1); /* the request is being served */
        for (size_t k = 0; k < 2; k++)
            rest[k].fd = server_begin_request(&s, "/v1/completions", i ? whole : streamed);
        assert_true(poll(rest, 2, 60000) > 0);
        size_t away = rest[0].revents ? 0 : 1;
        r = client_receive(rest[away].fd);
        assert_int_equal(r.status, 503);
        assert_non_null(strstr(r.head, "\r\nRetry-After: 1\r\n"));
        assert_non_null(strstr(r.body, "too many requests are waiting"));
        close(rest[1 - away].fd);
        server_await_log(&s, "client disconnected", (size_t)i + 1);
        close(running);
        server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT "}", 200);
    }
    server_await_log(&s, "200: 4 (0 cached) + ", 1);
    server_await_log(&s, ", cancelled", 2);
    close(server_begin_request(&s, "/v1/completions",
                               whole)); /* whether it is being served or still waits */
    server_await_log(&s, "client disconnected", 3);
}

/* A short request is answered while the answers to a request for many are generated. */
TEST(test_many_answers)
{
    struct server s = server_start(served_file, (const char *const[]){SERVED_SLOW_OPTIONS, NULL});
    char body[256], byte;

    snprintf(body, sizeof body, SERVED_LONG_REQUEST, "true, 'n': 128");
    int many = server_begin_request(&s, "/v1/completions", body);
    assert_int_equal(recv(many, &byte, 1, 0), 1);
    server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT "}", 200);
    server_await_log(&s, "POST /v1/completions 200", 1);
    assert_int_equal(server_count_log(&s, "POST /v1/completions 200"), 1);
    close(many);
}

/* Closes the connection, or lets it be reset. */
static void leave(int fd, bool reset)
{
    const struct linger at_once = {.l_onoff = 1};

    if (reset) assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
}

/* Returns a request with a long prompt; owned (free). */
static char *long_prompt(void)
{
    enum { TOKENS = 900, ROOM = 1 << 13 };
    char *body = keep(malloc(ROOM)), *at = body;

    assert_non_null(body);
    at += sprintf(at, "{'prompt': [582");
    for (int i = 1; i < TOKENS; i++)
        at += sprintf(at, ", %d", 300 + i % 1000);
    sprintf(at, "]}");
    return body;
}

/* A client that disconnects inside a request leaves nothing open. */
static void disconnect_inside_request(const struct server *s)
{
    static const char request[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 100000\r\n\r\n{'prompt': 'On";
    size_t n_files = server_count_files(s);

    for (size_t size = 0; size < sizeof request; size += 12) {
        for (int reset = 0; reset < 2; reset++) {
            int fd = client_connect(s);
            client_send(fd, request, size);
            leave(fd, reset);
        }
    }
    server_await_files(s, n_files);
}

/* A client that disconnects during prompt processing or generation ends both, whether its bytes
 * were read or not. */
TEST(test_disconnects)
{
    static const char next[] = "{'prompt': [582], 'max_tokens': 1}";
    static const char more[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const struct {
        const char *stream; /* NULL: a long prompt */
        const char *behind; /* sent after the request */
        bool reads, reset;
    } all[] = {
        {"true", "", false, false},  {"true", "", false, true},     {"true", "", true, false},
        {"true", "", true, true},    {"false", "", false, true},    {"false", "", false, false},
        {"true", more, true, false}, {"false", more, false, false}, {"false", "\r\n", false, false},
        {NULL, "", false, false},    {NULL, "", false, true},
    };
    static const char *const options[] = {"--sessions", "1", SERVED_SLOW_OPTIONS, NULL};
    struct server s = server_start(served_file, options);
    char *prompt = long_prompt(), body[256], byte;
    size_t n_files = server_count_files(&s), n = 0;

    disconnect_inside_request(&s);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(body, sizeof body, SERVED_LONG_REQUEST, all[i].stream ? all[i].stream : "");
        int fd = server_begin_request(&s, "/v1/completions", all[i].stream ? body : prompt);
        client_send(fd, all[i].behind, strlen(all[i].behind));
        if (all[i].reads) assert_int_equal(recv(fd, &byte, 1, 0), 1);
        server_await_load(&s, "answers_running", 1);
        leave(fd, all[i].reset);
        server_await_log(&s, "POST /v1/completions", ++n);
        server_await_files(&s, n_files);
        server_post(&s, "/v1/completions", next, 200);
        server_await_log(&s, "POST /v1/completions", ++n);
    }
    assert_int_equal(server_count_log(&s, ", length"), n / 2); /* no other response was complete */
}

/* A client that sends half a request, or does not read its response, delays no other client. */
TEST(test_slow_clients)
{
    static const char half[] = "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Le";
    int slow[8], deaf;

    for (size_t i = 0; i < 8; i++) {
        slow[i] = client_connect(&tiny_server);
        client_send(slow[i], half, strlen(half) - i);
    }
    const char *body = keep_format(SERVED_LONG_REQUEST, "true");
    memcpy(strstr(body, "4000"), " 400", 4);
    deaf = server_begin_request(&tiny_server, "/v1/completions", body);
    served_post("/v1/completions", "{" GOLDEN_PROMPT "}");
    for (size_t i = 0; i < 8; i++)
        close(slow[i]);
    close(deaf);
}

/* After the time for shutdown a running response ends with an error, waiting requests are refused,
 * and the server exits successfully. */
TEST(test_stopping)
{
    struct server s = server_start(
        served_file, (const char *const[]){SERVED_SLOW_OPTIONS, "--shutdown-timeout", "0.1", NULL});
    char streamed[256], whole[256], byte;

    snprintf(streamed, sizeof streamed, SERVED_LONG_REQUEST, "true");
    snprintf(whole, sizeof whole, SERVED_LONG_REQUEST, "false");
    int running = server_begin_request(&s, "/v1/completions", streamed);
    assert_int_equal(recv(running, &byte, 1, MSG_PEEK), 1);
    int waiting = server_begin_request(&s, "/v1/completions", whole);
    server_get(&s, "/health", 200);
    kill(s.pid, SIGTERM);
    struct http_reply r = client_receive(running);
    assert_int_equal(r.status, 200);
    assert_true(r.chunked);
    assert_non_null(
        strstr(r.body, "data: {\"error\": {\"message\": \"the server is shutting down\""));
    assert_null(strstr(r.body, "[DONE]"));
    r = client_receive(waiting);
    assert_true(r.status == 503 || r.status == 0);
    server_await_log(&s, ", at most 0.1 s; a second signal ends the server at once", 1);
    assert_int_equal(server_wait(&s), 0);
}

/* A signal lets the pending requests be answered and refuses further ones. */
TEST(test_draining)
{
    struct server s =
        server_start(served_file, (const char *const[]){SERVED_SLOW_OPTIONS, "--sessions", "1",
                                                        "--shutdown-timeout", "-1", NULL});
    char streamed[256], whole[256], byte;
    struct http_reply r;

    snprintf(streamed, sizeof streamed, SERVED_LONG_REQUEST, "true");
    snprintf(whole, sizeof whole, SERVED_LONG_REQUEST, "false");
    memcpy(strstr(streamed, "4000"), RACES_ONLY ? " 120" : " 400", 4); /* some five seconds */
    memcpy(strstr(whole, "4000"), "   9", 4);
    int running = server_begin_request(&s, "/v1/completions", streamed);
    assert_int_equal(recv(running, &byte, 1, MSG_PEEK), 1);
    int waiting = server_begin_request(&s, "/v1/completions", whole);
    server_await_load(&s, "requests_waiting", 1);
    kill(s.pid, SIGTERM);
    do {
        r = server_request(&s, "GET", "/ready", NULL);
        byte = r.status == 503;
        if (byte) assert_non_null(strstr(r.body, "\"shutting down\""));
    } while (!byte);
    r = server_request(&s, "POST", "/v1/completions", "{" GOLDEN_PROMPT "}");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(r.body, "the server is shutting down"));
    server_get(&s, "/health", 200);
    r = client_receive(running);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body, "[DONE]"));
    assert_null(strstr(r.body, "\"error\""));
    http_reply_json(client_receive(waiting), 200);
    assert_int_equal(server_wait(&s), 0);
}

/* A second signal ends the server at once. The log counts all answers of a request. */
TEST(test_second_signal)
{
    struct server s = server_start(
        served_file, (const char *const[]){SERVED_SLOW_OPTIONS, "--shutdown-timeout", "-1", NULL});
    char body[256], byte;
    struct http_reply r;

    snprintf(body, sizeof body, SERVED_LONG_REQUEST, "true, 'n': 3");
    int running = server_begin_request(&s, "/v1/completions", body);
    assert_int_equal(recv(running, &byte, 1, MSG_PEEK), 1);
    kill(s.pid, SIGTERM);
    do {
        r = server_request(&s, "GET", "/ready", NULL);
        byte = r.status == 503;
    } while (!byte);
    server_await_log(&s, "waiting for 3 answers; a second signal ends the server at once", 1);
    kill(s.pid, SIGTERM);
    assert_int_equal(server_wait(&s), 1000 + SIGTERM);
    close(running);
}

GROUP_FIXTURE(served_setup, served_teardown);
