/* `spectool serve` as a child process, and a client that sees every byte of what it says. All
 * failures fail the test. */
#ifndef SP_TESTS_SUPPORT_SERVER_PROCESS_H
#define SP_TESTS_SUPPORT_SERVER_PROCESS_H

#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    unsigned port;
    const char *log; /* path of its standard error */
};

/* Serves the packed file on a free port; `options`: more words of the command line, NULL at the
 * end, or NULL. */
struct server server_start(const char *packed, const char *const *options);
/* Sends SIGTERM and waits: the exit code. */
int server_stop(struct server *s);
/* Waits: the exit code. */
int server_wait(struct server *s);
/* How many lines of the log hold the text. */
size_t server_count_log(const struct server *s, const char *text);
/* Waits until so many do, ten seconds at most. */
void server_await_log(const struct server *s, const char *text, size_t n);

/* How many files it has open, connections among them. */
size_t server_count_files(const struct server *s);
/* Waits until it has so many, ten seconds at most. */
void server_await_files(const struct server *s, size_t n);

/* ---- a client ---- */

int client_connect(const struct server *s);
void client_send(int fd, const char *bytes, size_t size);

struct http_reply {
    int status; /* 0: the connection ended without an answer */
    char *head, *body;
    size_t size; /* of the body, out of its chunks */
    bool chunked;
};
/* All that comes until the connection ends, which is closed. */
struct http_reply client_receive(int fd);
void http_reply_release(struct http_reply *reply);

/* One request on a connection of its own. body NULL: none. */
struct http_reply server_request(const struct server *s, const char *method, const char *path,
                                 const char *body);
/* The same with a line of headers more, its end included. */
struct http_reply server_request_with(const struct server *s, const char *headers,
                                      const char *method, const char *path, const char *body);
/* A request sent, its answer not awaited. */
int server_begin_request(const struct server *s, const char *path, const char *body);
/* The answer's JSON, the reply released. */
struct sp_json *http_reply_json(struct http_reply reply, int status);

#endif
