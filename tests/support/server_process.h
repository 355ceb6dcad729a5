/* `spectool serve` as a child process, and a client that sees every byte of what it says. All
 * failures fail the test. */
#ifndef SP_TESTS_SUPPORT_SERVER_PROCESS_H
#define SP_TESTS_SUPPORT_SERVER_PROCESS_H

#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct serving {
    pid_t pid;
    unsigned port;
    const char *log; /* path of its standard error */
};

/* Serves the packed file on a free port; `options`: more words of the command line, NULL at the
 * end, or NULL. */
struct serving serving_start(const char *packed, const char *const *options);
/* Sends SIGTERM and waits: the exit code. */
int serving_stop(struct serving *s);
/* Waits: the exit code. */
int serving_wait(struct serving *s);
/* How many lines of the log hold the text. */
size_t serving_logged(const struct serving *s, const char *text);
/* Waits until so many do, ten seconds at most. */
void serving_await(const struct serving *s, const char *text, size_t n);

/* How many files it has open, connections among them. */
size_t serving_n_files(const struct serving *s);
/* Waits until it has so many, ten seconds at most. */
void serving_await_files(const struct serving *s, size_t n);

/* ---- a client ---- */

int serving_connect(const struct serving *s);
void serving_send(int fd, const char *bytes, size_t size);

struct serving_reply {
    int status; /* 0: the connection ended without an answer */
    char *head, *body;
    size_t size; /* of the body, out of its chunks */
    bool chunked;
};
/* All that comes until the connection ends, which is closed. */
struct serving_reply serving_receive(int fd);
void serving_release(struct serving_reply *reply);

/* One request on a connection of its own. body NULL: none. */
struct serving_reply serving_ask(const struct serving *s, const char *method, const char *path,
                                 const char *body);
/* The same with a line of headers more, its end included. */
struct serving_reply serving_ask_with(const struct serving *s, const char *headers,
                                      const char *method, const char *path, const char *body);
/* A request sent, its answer not awaited. */
int serving_begin(const struct serving *s, const char *path, const char *body);
/* The answer's JSON, the reply released. */
struct sp_json *serving_json(struct serving_reply reply, int status);

#endif
