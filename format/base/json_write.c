/* JSON text: strings with what must be escaped, and numbers whatever the locale is. */
#include "format/base/json_write.h"
#include "format/base/number_text.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_PRINTED = 256, MAX_DIGITS = 9 /* digits that distinguish any two f32 */ };

enum sp_status sp_json_put_string(struct sp_strbuf *out, const char *text, size_t len,
                                  struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(out, "\"", 1, err);
    size_t begin = 0;
    char escape[8];

    for (size_t i = 0; i < len && !st; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c != '"' && c != '\\' && c >= 0x20) continue;
        snprintf(escape, sizeof escape, c < 0x20 ? "\\u%04x" : "\\%c", c);
        if ((st = sp_strbuf_append(out, text + begin, i - begin, err))) break;
        st = sp_strbuf_append(out, escape, strlen(escape), err);
        begin = i + 1;
    }
    if (!st) st = sp_strbuf_append(out, text + begin, len - begin, err);
    return st ? st : sp_strbuf_append(out, "\"", 1, err);
}

enum sp_status sp_json_put(struct sp_strbuf *out, struct sp_err *err, const char *format, ...)
{
    char text[MAX_PRINTED];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    return sp_strbuf_append(out, text, strlen(text), err);
}

enum sp_status sp_json_put_f32(struct sp_strbuf *out, float number, struct sp_err *err)
{
    char text[32];

    for (int digits = 1; digits <= MAX_DIGITS; digits++) {
        sp_number_print(text, sizeof text, "%.*g", digits, (double)number);
        if ((float)sp_number_read(text, NULL) == number) break;
    }
    return sp_strbuf_append(out, text, strlen(text), err);
}
