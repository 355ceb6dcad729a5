/* Runs `spectool serve` as a child process, with a client that sees every byte of its responses.
 * Every failure fails the test. */
#ifndef SP_TESTS_SUPPORT_SERVER_PROCESS_H
#define SP_TESTS_SUPPORT_SERVER_PROCESS_H

#include "format/json/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    unsigned port;
    const char *log; /* path of the file with its standard error */
};

/* Serves the packed file on a free port. `options`: further arguments, NULL-terminated; may be
 * NULL. A server that still runs when the test ends (that of a setup: when the group ends) gets
 * SIGTERM, and must end with status 0. */
struct server server_start(const char *packed, const char *const *options);
/* Sends SIGTERM, waits for the process and returns its exit status. */
int server_stop(struct server *s);
/* Waits for the process and returns its exit status. */
int server_wait(struct server *s);
/* Returns the number of log lines that contain `text`. */
size_t server_count_log(const struct server *s, const char *text);
/* Waits until n log lines contain `text`, for at most a minute. */
void server_await_log(const struct server *s, const char *text, size_t n);

/* Returns the number of files that the server has open, including connections. */
size_t server_count_files(const struct server *s);
/* Waits until the server has at most n files open, for at most a minute. */
void server_await_files(const struct server *s, size_t n);
/* Waits until /ready states at least n for this key, such as "answers_running", for at most a
 * minute. */
void server_await_load(const struct server *s, const char *key, int64_t n);
void nap(double seconds);
/* Returns the processor time that the server has used, in seconds. */
double server_cpu_seconds(const struct server *s);

/* ---- a client ---- */

int client_connect(const struct server *s);
void client_send(int fd, const char *bytes, size_t size);

struct http_reply {
    int status; /* 0: the connection ended without a response */
    char *head, *body;
    size_t size; /* size of the body after its chunks are joined */
    bool chunked;
};
/* Reads the response until the server closes the connection, and closes fd. The response is kept
 * (keep.h). */
struct http_reply client_receive(int fd);

/* Sends one request on a new connection and returns its response. body: may be NULL. */
struct http_reply server_request(const struct server *s, const char *method, const char *path,
                                 const char *body);
/* Sends one request with additional header lines, each with its line end. */
struct http_reply server_request_with(const struct server *s, const char *headers,
                                      const char *method, const char *path, const char *body);
/* Sends a request and returns the connection without waiting for the response. */
int server_begin_request(const struct server *s, const char *path, const char *body);
/* Check the status and return the JSON of the response; kept. */
struct sp_json *server_get(const struct server *s, const char *path, int status);
struct sp_json *server_post(const struct server *s, const char *path, const char *body, int status);
struct sp_json *http_reply_json(struct http_reply reply, int status);

#endif
