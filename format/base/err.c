#include "format/base/err.h"
#include "format/base/number_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The length of the UTF-8 sequence that begins at s, 0 if there is none. */
static size_t utf8_len(const unsigned char *s)
{
    size_t len = s[0] < 0x80                   ? 1
                 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                               : 0;

    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    return len;
}

/* Messages quote names from foreign files, which must not control a terminal. */
static void make_printable(char *text)
{
    for (unsigned char *s = (unsigned char *)text; *s;) {
        size_t len = utf8_len(s);
        if (len == 0 || *s < 0x20 || *s == 0x7F) {
            *s = '?';
            len = 1;
        }
        s += len;
    }
}

enum sp_status sp_fail(struct sp_err *err, enum sp_status status, const char *format, ...)
{
    va_list args;

    if (err == NULL || err->status != SP_OK) return status;
    err->status = status;
    va_start(args, format);
    sp_number_vprint(err->text, sizeof err->text, format, args);
    va_end(args);
    make_printable(err->text);
    return status;
}

void sp_context(struct sp_err *err, const char *format, ...)
{
    char old[SP_ERR_TEXT];
    va_list args;
    int n;

    if (err == NULL || err->status == SP_OK) return;
    memcpy(old, err->text, sizeof old);
    va_start(args, format);
    n = sp_number_vprint(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof err->text) {
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
    }
    make_printable(err->text);
}
