#include "format/base/err.h"
#include "format/base/number_text.h"
#include "format/base/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Messages quote names from foreign files. */
static void make_printable(char *text)
{
    sp_utf8_hide_controls(text, strlen(text), "");
}

static SP_PRINTF(4, 0) enum sp_status fail(struct sp_err *err, enum sp_status status,
                                           enum sp_topic topic, const char *format, va_list args)
{
    if (err == NULL || err->status != SP_OK) return status;
    err->status = status;
    err->topic = topic;
    sp_number_vprint(err->text, sizeof err->text, format, args);
    make_printable(err->text);
    return status;
}

enum sp_status sp_fail(struct sp_err *err, enum sp_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(err, status, SP_TOPIC_NONE, format, args);
    va_end(args);
    return status;
}

enum sp_status sp_fail_about(struct sp_err *err, enum sp_status status, enum sp_topic topic,
                             const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(err, status, topic, format, args);
    va_end(args);
    return status;
}

enum sp_status sp_fail_as(struct sp_err *err, const struct sp_err *from)
{
    if (err && err->status == SP_OK) *err = *from;
    return from->status;
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
    if ((size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
    make_printable(err->text);
}
