/* Tests that a hostile client can neither keep other clients out of `spectool serve` nor take all
 * memory, and that requests which a proxy could read differently are refused. */
#include "format/base/clock.h"
#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES "'messages': [{'role': 'user', 'content': 'Hi'}]"

/* Returns a number of /proc/PID/status in MB. */
static long memory_mb(const struct server *s, const char *key)
{
    char path[64], line[256];
    long kb = -1;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)s->pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kb = strtol(line + strlen(key) + 1, NULL, 10);
    fclose(f);
    assert_true(kb >= 0);
    return kb / 1024;
}

/* Returns a chat whose member `key` is an array of n objects; owned (free). */
static char *body_of(const char *key, size_t n)
{
    char *body = keep(malloc(256 + n * 8)), *at = body;

    assert_non_null(body);
    at += sprintf(at, "{" MESSAGES ", 'max_tokens': 4, '%s': [{'a':0}", key);
    for (size_t i = 1; i < n; i++)
        at += sprintf(at, ",{'a':0}");
    sprintf(at, "]}");
    return body;
}

/* Returns an object whose member `key` is a text of n blanks; kept. */
static char *blanks(const char *key, size_t n)
{
    char *body = keep(malloc(n + 64));

    assert_non_null(body);
    sprintf(body, "{'%s': '%*s'}", key, (int)n, "");
    return body;
}

enum { N_CLIENTS = 16 };

struct poster {
    const struct server *server;
    const char *path, *body;
    int status;
};

static void *post(void *context)
{
    struct poster *p = context;
    struct http_reply r = server_request(p->server, "POST", p->path, p->body);

    p->status = r.status;
    return NULL;
}

/* Sends the body from all clients at once; returns the number of responses with this status. */
static size_t post_all(const struct server *s, const char *path, const char *body, int status)
{
    struct poster posters[N_CLIENTS];
    pthread_t threads[N_CLIENTS];
    size_t n = 0;

    for (size_t i = 0; i < N_CLIENTS; i++) {
        posters[i] = (struct poster){.server = s, .path = path, .body = body};
        assert_int_equal(pthread_create(&threads[i], NULL, post, &posters[i]), 0);
    }
    for (size_t i = 0; i < N_CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        n += posters[i].status == status;
    }
    return n;
}

/* The JSON of all requests together stays within a budget. Members that no API has do not count
 * while a request waits, and JSON that is too large by itself is refused. */
TEST(test_memory)
{
    struct server s = server_start(served_file, (const char *const[]){"--sessions", "1", NULL});
    char *unknown = body_of("x", 40000), *kept = body_of("metadata", 40000),
         *large = body_of("x", 180000);
    size_t n_served = post_all(&s, "/v1/chat/completions", unknown, 200);

    assert_true(n_served > 0);
    assert_int_equal(post_all(&s, "/v1/chat/completions", large, 400), N_CLIENTS);
    n_served = post_all(&s, "/v1/chat/completions", kept, 200);
    assert_true(n_served > 0 && n_served < N_CLIENTS); /* the others get 503 */
    server_post(&s, "/v1/chat/completions", unknown, 200);
    if (!IS_SANITIZED) {
        assert_in_range(memory_mb(&s, "VmHWM"), 1, 300);
        assert_in_range(memory_mb(&s, "VmRSS"), 1, 100);
    }
}

/* A body whose text and JSON take more together than all requests may have is refused for good. */
TEST(test_text_and_json)
{
    enum { N_BLANKS = 15 << 20 };
    struct server s = server_start(served_file, NULL);
    char *body = body_of("x", 55000), *longer;
    size_t len = strlen(body);

    server_post(&s, "/v1/chat/completions", body, 200);
    longer = keep(malloc(len + N_BLANKS + 1));
    assert_non_null(longer);
    memcpy(longer, body, len);
    memset(longer + len, ' ', N_BLANKS);
    longer[len + N_BLANKS] = '\0';
    struct http_reply r = server_request(&s, "POST", "/v1/chat/completions", longer);
    assert_null(strstr(r.head, "Retry-After"));
    assert_non_null(strstr(json_text(http_reply_json(r, 400), "error.message"),
                           "takes more memory than the 128 MiB"));
}

/* Long texts are encoded one at a time, since a word takes some 30 bytes of memory for each of its
 * own: here the word is the whole text, for a tokenizer that is not byte-level. */
TEST(test_tokenizer_memory)
{
    enum { SIZE = RACES_ONLY ? 60000 : IS_SANITIZED ? 300000 : 800000 };
    struct server s =
        server_start(packed_file(packed_modelfile(TESTDATA "/embeddings/xlm_roberta", NULL),
                                 SP_DTYPE_NONE, SP_DTYPE_NONE),
                     NULL);
    char *body = blanks("content", SIZE);

    memset(strchr(body, ' ') + 2, 'h', SIZE);
    assert_int_equal(post_all(&s, "/tokenize", body, 200), N_CLIENTS);
    if (!IS_SANITIZED) assert_in_range(memory_mb(&s, "VmHWM"), 1, 120);
}

/* Renderings of a template that takes much memory are made one at a time. */
TEST(test_template_memory)
{
    static const char template[] =
        "TEMPLATE \"\"\"{% set x = messages[0].content * 9000000 %}{{ x | length }}\"\"\"\n";
    static const char body[] = "{'max_tokens': 4, 'model': 'tiny', 'messages': [{'role': 'user', "
                               "'content': '0123456789'}]}";
    static const char *const paths[] = {"/apply-template", "/v1/messages/count_tokens"};
    struct server s =
        server_start(served_pack(template), (const char *const[]){"--name", "tiny", NULL});

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_int_equal(post_all(&s, paths[i], body, 400), N_CLIENTS); /* too much alone */
    if (!IS_SANITIZED) assert_in_range(memory_mb(&s, "VmHWM"), 1, 500);
}

/* Responses whose size a request multiplies count against the memory of all requests. */
TEST(test_response_memory)
{
    enum { N_TOKENS = 3600000 };
    static const char head[] = "{'echo': true, 'logprobs': 20, 'stream': true, 'max_tokens': 1000, "
                               "'logit_bias': {'1596': -100, '1598': -100}, 'prompt': '";
    char *body = keep(malloc(2 * N_TOKENS + 64)), *at = body + sprintf(body, "%s", head), byte;

    assert_non_null(body);
    for (size_t i = 0; i < 1000; i++)
        at += sprintf(at, "a ");
    sprintf(at, "'}");
    int fd = server_begin_request(&tiny_server, "/v1/completions", body);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    assert_true(served_metric(&tiny_server, "spectool_request_memory_bytes") > 900000);
    close(fd);
    at = body + sprintf(body, "{'with_pieces': true, 'content': '");
    for (size_t i = 0; i < N_TOKENS / 2; i++)
        at += sprintf(at, "a b ");
    sprintf(at, "'}");
    server_post(&tiny_server, "/tokenize", body, 400);
    fd = server_begin_request(&tiny_server, "/v1/completions",
                              "{'logprobs': 20, 'stream': true, 'max_tokens': 4000, 'prompt': 'a', "
                              "'logit_bias': {'1596': -100, '1598': -100}}");
    for (ssize_t n = 0, more = 1; n < 100000 && more > 0; n += more)
        more = recv(fd, body, 4096, 0);
    assert_true(served_metric(&tiny_server, "spectool_request_memory_bytes") > 100000);
    close(fd);
}

/* A request that would find the queue full is refused before it is parsed. */
TEST(test_full_queue)
{
    static const char *const options[] = {"--max-queue",       "1", "--sessions", "1",
                                          SERVED_SLOW_OPTIONS, NULL};
    struct server s = server_start(served_file, options);
    char body[256], byte;

    snprintf(body, sizeof body, SERVED_LONG_REQUEST, "true");
    int running = server_begin_request(&s, "/v1/completions", body);
    assert_int_equal(recv(running, &byte, 1, 0), 1);
    int waiting = server_begin_request(&s, "/v1/completions", body);
    server_await_load(&s, "requests_waiting", 1);
    struct http_reply r = server_request(&s, "POST", "/v1/completions", "not JSON");
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "\r\nRetry-After: 1\r\n"));
    close(waiting);
    close(running);
}

/* Clients that send a byte from time to time do not keep others out, however many they are. */
TEST(test_dripping)
{
    enum { N_DRIPS = 200 };
    struct server s = server_start(served_file, (const char *const[]){"--max-queue", "1", NULL});
    int drips[N_DRIPS];
    double began;

    for (size_t i = 0; i < N_DRIPS; i++) {
        drips[i] = client_connect(&s);
        client_send(drips[i], "GET /health HTTP/1.1\r\nX: ", 25);
    }
    for (int round = 0; round < 4; round++) {
        nap(0.3);
        for (size_t i = 0; i < N_DRIPS; i++)
            (void)!send(drips[i], "x", 1, MSG_NOSIGNAL);
        began = sp_seconds();
        server_get(&s, "/health", 200);
        assert_true(sp_seconds() - began < 10);
    }
    for (size_t i = 0; i < N_DRIPS; i++)
        close(drips[i]);
}

/* More clients than --max-queue and its reserve all get a response. */
TEST(test_many_connections)
{
    enum { N_CONNECTIONS = 190 };
    static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct server s = server_start(served_file, (const char *const[]){"--max-queue", "1", NULL});
    int clients[N_CONNECTIONS];
    char byte;

    for (size_t i = 0; i < N_CONNECTIONS; i++)
        clients[i] = client_connect(&s);
    for (size_t i = 0; i < N_CONNECTIONS; i++)
        client_send(clients[i], request, strlen(request));
    for (size_t i = 0; i < N_CONNECTIONS; i++)
        assert_int_equal(recv(clients[i], &byte, 1, 0), 1);
    for (size_t i = 0; i < N_CONNECTIONS; i++)
        close(clients[i]);
}

/* A prompt that cannot fit is refused before it is tokenized: it takes less processor time than
 * the tokens of a text of a fifth of its size. */
TEST(test_long_prompt)
{
    enum { SIZE = IS_SANITIZED ? 5 << 20 : 15 << 20 };
    char *prompt = blanks("prompt", SIZE), *content = blanks("content", SIZE / 5);
    double began = server_cpu_seconds(&tiny_server), refused;

    struct sp_json *json = server_post(&tiny_server, "/v1/completions", prompt, 400);
    assert_non_null(strstr(json_text(json, "error.message"), "the prompt has "));
    /* By these words of llama-server litellm knows that the context is too small. */
    assert_non_null(strstr(json_text(json, "error.message"), "exceeds the available context size"));
    refused = server_cpu_seconds(&tiny_server);
    server_post(&tiny_server, "/tokenize", content, 200);
    assert_true(refused - began < server_cpu_seconds(&tiny_server) - refused);
}

TEST(test_ambiguous_requests)
{
    static const struct {
        const char *headers, *says;
    } all[] = {
        {"Host: localhost\r\nTransfer-Encoding: chunked\r\n", "HTTP/1.0"},
        {"Host: localhost\r\nContent-Length: 2\r\nContent-Length: 30\r\n", "one Content-Length"},
        {"Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", "both"},
        {"Host: localhost\r\nContent-Length:\r\n 2\r\n", "folded"},
        {"Host: localhost\r\nTransfer-Encoding:\r\n\tchunked\r\n", "folded"},
        {"Host: localhost\r\nHost: localhost\r\n", "one Host"},
        {"Host: localhost\r\nHost: evil.example\r\n", "one Host"},
        {"Content-Length: 2\r\n", "no Host"},
        {"Host : evil.example\r\n", "name of a header"},
        {"Host: localhost\r\nX Y: z\r\n", "name of a header"},
        {"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n",
         "one Origin"},
        {"Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n", "not chunked"},
        {"Host: localhost\r\nTransfer-Encoding: identity\r\n", "not chunked"},
    };
    static const char *const foreign[] = {"Host: localhost:1@evil.example\r\n",
                                          "Host: localhost.evil.example\r\n"};
    char request[256];
    struct http_reply r;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int fd = client_connect(&tiny_server);
        snprintf(request, sizeof request, "POST /v1/completions HTTP/1.%d\r\n%s\r\n{}",
                 strcmp(all[i].says, "HTTP/1.0") != 0, all[i].headers);
        client_send(fd, request, strlen(request));
        r = client_receive(fd);
        if (r.status != 400) fail_msg("%s: status %d", all[i].headers, r.status);
        assert_non_null(strstr(r.body, all[i].says));
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        int fd = client_connect(&tiny_server);
        snprintf(request, sizeof request, "GET /health HTTP/1.0\r\n%s\r\n", foreign[i]);
        client_send(fd, request, strlen(request));
        r = client_receive(fd);
        assert_int_equal(r.status, 403);
    }
}

/* Requests that are refused before their bodies have arrived, or that libmicrohttpd cannot read:
 * the client gets JSON although it sends nothing further. */
TEST(test_unreadable_requests)
{
    enum { MANY = 1 << 20 };
    static const struct {
        const char *head;
        size_t n_filler; /* bytes 'x' after the head, and a line end */
        int status;
        const char *says;
    } all[] = {
        {"Content-Length: 1000000000000\r\n\r\n", 0, 413, "at most 16 MiB"},
        {"Content-Length: 67108865\r\n\r\n", 0, 413, "at most 16 MiB"},
        {"Content-Length: 99999999999999999999999\r\n\r\n", 0, 413, "not valid HTTP"},
        {"Content-Length: -5\r\n\r\n", 0, 400, "not valid HTTP"},
        {"Transfer-Encoding: chunked\r\n\r\n5;a=", MANY, 413, "not valid HTTP"},
        {"Transfer-Encoding: chunked\r\n\r\nnone\r\n", 0, 400, "not valid HTTP"},
        {"X-Long: ", MANY, 431, "not valid HTTP"},
        {"GET /", MANY, 414, "not valid HTTP"},
    };
    static const char line[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";
    char *request = keep(malloc(MANY + 256));
    size_t n = server_count_files(&tiny_server);

    assert_non_null(request);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int fd = client_connect(&tiny_server);
        size_t len =
            (size_t)sprintf(request, "%s%s", strchr(all[i].head, '/') ? "" : line, all[i].head);
        if (all[i].n_filler) {
            memset(request + len, 'x', all[i].n_filler);
            len += all[i].n_filler;
            len += (size_t)sprintf(request + len, "\r\n");
        }
        while (len > 0) { /* the server may close before it has read everything */
            ssize_t sent = send(fd, request, len, MSG_NOSIGNAL);
            if (sent <= 0) break;
            memmove(request, request + sent, len -= (size_t)sent);
        }
        struct http_reply r = client_receive(fd);
        if (r.status != all[i].status) fail_msg("%s: status %d", all[i].head, r.status);
        assert_non_null(strstr(r.head, "application/json"));
        assert_non_null(strstr(r.body, all[i].says));
    }
    server_await_files(&tiny_server, n);
}

/* A body in chunks, which does not announce its size, is not received for ever. How much can be
 * sent after the response depends on the kernel's buffers and on how fast the server closes. */
TEST(test_endless_body)
{
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    enum { CHUNK = 1 << 20, SECONDS = 60 };
    size_t size = 8 + CHUNK + 2, sent = 0;
    char *chunk = keep(malloc(size + 1)), status[13] = "";
    int fd = client_connect(&tiny_server);
    double end = sp_seconds() + SECONDS;
    ssize_t n = 1;

    assert_non_null(chunk);
    sprintf(chunk, "%06x\r\n", CHUNK);
    memset(chunk + 8, 'x', CHUNK);
    memcpy(chunk + 8 + CHUNK, "\r\n", 2);
    client_send(fd, head, sizeof head - 1);
    while (n > 0 && sp_seconds() < end) {
        n = send(fd, chunk + sent % size, size - sent % size, MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
    }
    assert_true(n < 0 && sent >= 64 * size);
    assert_int_equal(recv(fd, status, sizeof status - 1, 0), sizeof status - 1);
    assert_string_equal(status, "HTTP/1.1 413");
    close(fd);
}

/* A path does not end at an escaped NUL. */
TEST(test_escaped_nul)
{
    static const char request[] = "GET /health%00/../metrics HTTP/1.0\r\n\r\n";
    int fd = client_connect(&tiny_server);

    client_send(fd, request, sizeof request - 1);
    struct http_reply r = client_receive(fd);
    assert_int_equal(r.status, 404);
}

GROUP_FIXTURE(served_setup, served_teardown);
