#include "tests/support/server_process.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AWAIT_NAPS = 6000 };

void nap(double seconds)
{
    time_t whole = (time_t)seconds;

    nanosleep(&(struct timespec){whole, (long)((seconds - (double)whole) * 1e9)}, NULL);
}

static char *read_log(const struct server *s)
{
    FILE *f = fopen(s->log, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

size_t server_count_log(const struct server *s, const char *text)
{
    char *log = read_log(s), *rest = NULL;
    size_t n = 0;

    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        n += strstr(line, text) != NULL;
    free(log);
    return n;
}

void server_await_log(const struct server *s, const char *text, size_t n)
{
    for (int i = 0; i < AWAIT_NAPS; i++) {
        if (server_count_log(s, text) >= n) return;
        nap(0.01);
    }
    fail_msg("%s does not stand %zu times in %s", text, n, s->log);
}

size_t server_count_files(const struct server *s)
{
    size_t n = 0;

    DIR *folder = opendir(keep_format("/proc/%ld/fd", (long)s->pid));
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

void server_await_files(const struct server *s, size_t n)
{
    for (int i = 0; i < AWAIT_NAPS; i++) {
        if (server_count_files(s) <= n) return;
        nap(0.01);
    }
    fail_msg("%zu files are open, more than %zu", server_count_files(s), n);
}

double server_cpu_seconds(const struct server *s)
{
    char path[64], line[1024], *at;
    unsigned long user, system;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)s->pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    at = strrchr(line, ')'); /* ends the name, the second field; the times are 14th and 15th */
    assert_non_null(at);
    assert_int_equal(
        sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &system), 2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Reads the port from the end of the first log line. */
static bool read_port(struct server *s)
{
    char *log = read_log(s), *at = strstr(log, " at http://127.0.0.1:");

    if (at != NULL && strchr(at, '\n') != NULL)
        s->port = (unsigned)strtoul(strrchr(at, ':') + 1, NULL, 10);
    free(log);
    return s->port != 0;
}

/* Running servers, which are ended at exit because a failed test does not stop its own. */
static pid_t running[64];
static size_t n_running;

static void kill_running(void)
{
    for (size_t i = 0; i < n_running; i++)
        if (running[i] > 0) kill(running[i], SIGKILL);
}

static void note_ended(pid_t pid)
{
    for (size_t i = 0; i < n_running; i++)
        if (running[i] == pid) running[i] = 0;
}

/* Ends a server that the test did not end, and expects the status of one that was asked to. */
static void end_running(void *place)
{
    struct server s = {.pid = *(const pid_t *)place};

    if (s.pid > 0) assert_int_equal(server_stop(&s), 0);
}

struct server server_start(const char *packed, const char *const *options)
{
    static unsigned count;
    const char *words[64] = {SPECTOOL, "serve", packed, "--port", "0"};
    struct server s = {0};
    size_t n = 5;

    while (options && *options)
        words[n++] = *options++;
    s.log = packed_path(keep_format("log.%u", count++));
    s.pid = fork();
    assert_true(s.pid >= 0 && n_running < sizeof running / sizeof *running);
    if (s.pid > 0) {
        if (n_running == 0) assert_int_equal(atexit(kill_running), 0);
        running[n_running] = s.pid;
        keep_with(&running[n_running++], end_running);
    }
    if (s.pid == 0) {
        int log = open(s.log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        execv(SPECTOOL, (char **)(uintptr_t)words);
        _exit(127);
    }
    for (int i = 0; i < AWAIT_NAPS; i++) {
        nap(0.01);
        if (access(s.log, R_OK) == 0 && read_port(&s)) return s;
        if (waitpid(s.pid, NULL, WNOHANG) == s.pid) break;
    }
    fail_msg("spectool serve does not start, see %s", s.log);
    return s;
}

int server_wait(struct server *s)
{
    int status = 0;

    for (int i = 0; i < AWAIT_NAPS; i++) {
        pid_t pid = waitpid(s->pid, &status, WNOHANG);
        if (pid == s->pid) {
            note_ended(pid);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
        }
        nap(0.01);
    }
    kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
    fail_msg("spectool serve does not end");
    return -1;
}

int server_stop(struct server *s)
{
    kill(s->pid, SIGTERM);
    return server_wait(s);
}

int client_connect(const struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Sending may fail without failing the test: a server that has responded and closed the connection
 * reads no more. */
void client_send(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        bytes += n;
        size -= (size_t)n;
    }
}

static size_t receive_all(int fd, char **out)
{
    size_t size = 0, cap = 1 << 16;
    ssize_t n = 1;

    *out = malloc(cap + 1);
    while (n > 0 && *out != NULL) {
        if (size == cap) *out = realloc(*out, (cap *= 2) + 1);
        assert_non_null(*out);
        n = recv(fd, *out + size, cap - size, 0);
        if (n > 0) size += (size_t)n;
    }
    assert_non_null(*out);
    (*out)[size] = '\0';
    return size;
}

/* Joins the chunks of a body in place (RFC 9112), up to the empty chunk or the end of a truncated
 * body. */
static size_t join_chunks(char *body, size_t size, bool *whole)
{
    size_t at = 0, to = 0;

    *whole = false;
    while (at < size) {
        char *end;
        size_t n = strtoul(body + at, &end, 16);
        at = (size_t)(end - body);
        if (at + 2 > size || memcmp(body + at, "\r\n", 2) != 0) break;
        at += 2;
        if (n == 0) {
            *whole = size - at == 2 && memcmp(body + at, "\r\n", 2) == 0;
            break;
        }
        if (at + n + 2 > size || memcmp(body + at + n, "\r\n", 2) != 0) break;
        memmove(body + to, body + at, n);
        to += n;
        at += n + 2;
    }
    body[to] = '\0';
    return to;
}

struct http_reply client_receive(int fd)
{
    struct http_reply r = {0};
    size_t size = receive_all(fd, &r.head);
    char *end = strstr(r.head, "\r\n\r\n");

    keep(r.head);
    close(fd);
    if (end == NULL || sscanf(r.head, "HTTP/1.1 %d ", &r.status) != 1) return r;
    end[2] = '\0';
    r.body = end + 4;
    r.size = size - (size_t)(r.body - r.head);
    if (strstr(r.head, "\r\nTransfer-Encoding: chunked\r\n") != NULL)
        r.size = join_chunks(r.body, r.size, &r.chunked);
    return r;
}

static int begin(const struct server *s, const char *headers, const char *method, const char *path,
                 const char *text)
{
    int fd = client_connect(s);
    const char *body = text ? keep_quoted(text) : NULL;
    char head[1024];
    size_t size = body ? strlen(body) : 0;

    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n%s"
             "Content-Length: %zu\r\n\r\n",
             method, path, s->port, headers, size);
    client_send(fd, head, strlen(head));
    if (body != NULL) client_send(fd, body, size);
    return fd;
}

struct http_reply server_request_with(const struct server *s, const char *headers,
                                      const char *method, const char *path, const char *body)
{
    return client_receive(begin(s, headers, method, path, body));
}

struct http_reply server_request(const struct server *s, const char *method, const char *path,
                                 const char *body)
{
    return server_request_with(s, "", method, path, body);
}

int server_begin_request(const struct server *s, const char *path, const char *body)
{
    return begin(s, "", "POST", path, body);
}

struct sp_json *http_reply_json(struct http_reply reply, int status)
{
    if (reply.status != status)
        fail_msg("status %d, expected %d: %s", reply.status, status, reply.body);
    assert_non_null(strstr(reply.head, "\r\nContent-Type: application/json\r\n"));
    return keep_parsed(reply.body, reply.size, SP_JSON_STRICT);
}

struct sp_json *server_get(const struct server *s, const char *path, int status)
{
    return http_reply_json(server_request(s, "GET", path, NULL), status);
}

struct sp_json *server_post(const struct server *s, const char *path, const char *body, int status)
{
    return http_reply_json(server_request(s, "POST", path, body), status);
}

void server_await_load(const struct server *s, const char *key, int64_t n)
{
    for (int i = 0; i < AWAIT_NAPS; i++) {
        struct http_reply r = server_request(s, "GET", "/ready", NULL);
        struct sp_json *load = http_reply_json(r, r.status); /* 503 if the queue is full */
        int64_t now;
        if (sp_json_to_i64(sp_json_get(load, key), &now) && now >= n) return;
        nap(0.01);
    }
    fail_msg("%s does not reach %ld", key, (long)n);
}
