#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/unicode_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static bool is_stdin(const char *path)
{
    return path == NULL || strcmp(path, "-") == 0;
}

bool sp_input_is_piped(void)
{
    struct stat info;

    return fstat(fileno(stdin), &info) == 0 &&
           (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode));
}

static void announce(const char *what)
{
    if (sp_out_is_terminal(stdin) && sp_out_is_terminal(stderr))
        sp_word_wrap_print(stderr, 0,
                           "reading %s from the terminal; Ctrl-D in an empty line ends the input",
                           what);
}

const char *sp_input_name(const char *path)
{
    return is_stdin(path) ? "standard input" : path;
}

static enum sp_status read_stream(struct sp_text *text, FILE *stream, const char *name, size_t most,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;
    char *bytes = NULL;
    size_t n = 0, cap = 0, got;

    do {
        if ((st = sp_grow(&bytes, &cap, n + 4097, 1, err))) goto done;
        got = fread(bytes + n, 1, 4096, stream);
        n += got;
        if (n > most) {
            st = sp_fail(err, SP_E_INPUT, "%s holds more than %zu bytes", name, most);
            goto done;
        }
        /* A terminal could be read on after its end and after an interrupt. */
    } while (got > 0 && !feof(stream) && !ferror(stream));
    if (ferror(stream)) {
        st = errno == EINTR ? sp_fail(err, SP_E_CANCELLED, "interrupted")
                            : sp_fail(err, SP_E_IO, "%s: %s", name, strerror(errno));
        goto done;
    }
    bytes[n] = '\0';
    *text = (struct sp_text){bytes, n};
    bytes = NULL;
done:
    free(bytes);
    return st;
}

enum sp_status sp_input_text(struct sp_text *text, const char *path, const char *what, size_t most,
                             struct sp_err *err)
{
    FILE *stream;
    struct stat info;
    enum sp_status st;

    if (is_stdin(path)) {
        announce(what);
        return read_stream(text, stdin, sp_input_name(path), most, err);
    }
    if (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode))
        return sp_file_read_text(text, path, most, err);
    if ((stream = fopen(path, "rb")) == NULL)
        return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
    st = read_stream(text, stream, path, most, err);
    fclose(stream);
    return st;
}

/* ---- standard input line by line ---- */

enum { CHUNK = 64 << 10, POLL_MS = 200, MAX_LINE = 64 << 20 };

struct lines {
    bool (*stop)(void *context);
    void *context;
    char *text;       /* [at..at + len] bytes that were read and not passed on yet; owned */
    size_t at, len;   /* bytes */
    size_t cap;       /* bytes */
    size_t n_checked; /* number of those bytes known to contain no line end */
    bool ended;
};

static bool should_stop(const struct lines *l)
{
    return l->stop != NULL && l->stop(l->context);
}

/* Waits until there is input or stop() returns true. */
static enum sp_status wait_for_input(struct lines *l, struct sp_err *err)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = STDOUT_FILENO}};

    while (!should_stop(l)) {
        if (poll(fds, 2, l->stop ? POLL_MS : -1) < 0) {
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
    if (l->len >= MAX_LINE)
        return sp_fail(err, SP_E_INPUT, "standard input: a line has more than 64 MiB");
    if ((st = sp_grow(&l->text, &l->cap, l->len + CHUNK, 1, err))) return st;
    if ((st = wait_for_input(l, err)) || should_stop(l)) return st;
    n = read(STDIN_FILENO, l->text + l->len, CHUNK);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return sp_fail(err, SP_E_IO, "standard input: %s", strerror(errno));
    if (n > 0) l->len += (size_t)n;
    l->ended = n == 0;
    return SP_OK;
}

/* *size = the length of the next line with its line end; 0: the end, or stop() returned true. */
static enum sp_status next_line(size_t *size, struct lines *l, struct sp_err *err)
{
    enum sp_status st;

    *size = 0;
    while (!should_stop(l)) {
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

enum sp_status sp_each_line(enum sp_status (*line)(void *context, size_t number, const char *text,
                                                   size_t size, struct sp_err *err),
                            bool (*stop)(void *context), void *context, const char *what,
                            struct sp_err *err)
{
    struct lines l = {.stop = stop, .context = context};
    enum sp_status st;
    size_t number = 0, size, len;

    announce(what);
    while ((st = next_line(&size, &l, err)) == SP_OK && size > 0) {
        const char *text = l.text + l.at;
        number++;
        for (len = size; len > 0 && sp_is_whitespace(text[len - 1]);)
            len--;
        if (len > 0 && (st = line(context, number, text, len, err))) {
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
