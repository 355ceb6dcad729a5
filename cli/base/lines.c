#include "cli/base/lines.h"
#include "format/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 64 << 10, PATIENCE_MS = 200 };

struct lines {
    bool (*enough)(void *context);
    void *context;
    char *text;       /* [at..at + len] is read and not told yet; owned */
    size_t at, len;   /* bytes */
    size_t cap;       /* bytes */
    size_t n_checked; /* of those, without a line end */
    bool ended;
};

static bool has_enough(const struct lines *l)
{
    return l->enough != NULL && l->enough(l->context);
}

/* Until there is something to read, or enough of it. */
static enum sp_status wait_for_input(struct lines *l, struct sp_err *err)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = STDOUT_FILENO}};

    while (!has_enough(l)) {
        if (poll(fds, 2, l->enough ? PATIENCE_MS : -1) < 0) {
            if (errno == EINTR) continue;
            return sp_fail(err, SP_E_IO, "standard input: %s", strerror(errno));
        }
        if (fds[1].revents & POLLNVAL) fds[1].fd = -1;
        if (fds[1].revents & POLLERR) {
            raise(SIGPIPE);
            return sp_fail(err, SP_E_IO, "standard output: %s", strerror(EPIPE));
        }
        if (fds[0].revents) return SP_OK;
    }
    return SP_OK;
}

static enum sp_status read_more(struct lines *l, struct sp_err *err)
{
    enum sp_status st;
    ssize_t n;

    if (l->len) memmove(l->text, l->text + l->at, l->len);
    l->at = 0;
    if ((st = sp_grow(&l->text, &l->cap, l->len + CHUNK, 1, err))) return st;
    if ((st = wait_for_input(l, err)) || has_enough(l)) return st;
    n = read(STDIN_FILENO, l->text + l->len, CHUNK);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
        return sp_fail(err, SP_E_IO, "standard input: %s", strerror(errno));
    }
    if (n > 0) l->len += (size_t)n;
    l->ended = n == 0;
    return SP_OK;
}

/* *size = bytes of the next line, its end included; 0: there is none any more, or enough of them.
 */
static enum sp_status next_line(size_t *size, struct lines *l, struct sp_err *err)
{
    enum sp_status st;

    *size = 0;
    while (!has_enough(l)) {
        size_t left = l->len - l->n_checked;
        const char *rest = left ? l->text + l->at + l->n_checked : NULL;
        const char *end = left ? memchr(rest, '\n', left) : NULL;

        if (end != NULL || l->ended) {
            *size = end ? l->n_checked + (size_t)(end - rest) + 1 : l->len;
            return SP_OK;
        }
        l->n_checked = l->len;
        if ((st = read_more(l, err))) return st;
    }
    return SP_OK;
}

static bool is_whitespace(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

enum sp_status sp_each_line(enum sp_status (*line)(void *context, const char *text, size_t size,
                                                   struct sp_err *err),
                            bool (*enough)(void *context), void *context, struct sp_err *err)
{
    struct lines l = {.enough = enough, .context = context};
    enum sp_status st;
    size_t number = 0, size, told;

    while ((st = next_line(&size, &l, err)) == SP_OK && size > 0) {
        const char *text = l.text + l.at;
        number++;
        for (told = size; told > 0 && is_whitespace(text[told - 1]);)
            told--;
        if (told > 0 && (st = line(context, text, told, err))) {
            sp_context(err, "line %zu", number);
            break;
        }
        fflush(stdout);
        l.at += size;
        l.len -= size;
        l.n_checked = 0;
    }
    free(l.text);
    return st;
}
