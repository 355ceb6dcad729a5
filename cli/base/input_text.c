#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/word_wrap.h"
#include "format/base/file.h"
#include "format/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

void sp_input_announce(const char *what)
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
        sp_input_announce(what);
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
