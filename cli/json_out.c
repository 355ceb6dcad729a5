#include "cli/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none (Unicode, table 3-7). */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;

    if (len == 0 || s[0] > 0xF4 || len > left) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
    }
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
    if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
    return len;
}

static void put_string(FILE *file, const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', file);
    for (size_t i = 0, len; i < size; i += len) {
        len = utf8_len(s + i, size - i);
        if (len == 0) {
            fputs("\xEF\xBF\xBD", file);
            len = 1;
        } else if (s[i] == '"' || s[i] == '\\') {
            fprintf(file, "\\%c", s[i]);
        } else if (s[i] == '\n') {
            fputs("\\n", file);
        } else if (s[i] < 0x20 || s[i] == 0x7F) {
            fprintf(file, "\\u%04x", s[i]);
        } else {
            fwrite(s + i, 1, len, file);
        }
    }
    fputc('"', file);
}

static void put_key(struct sp_json_out *out, const char *key)
{
    if (out->comma) fputs(", ", out->file);
    out->comma = true;
    if (key == NULL) return;
    put_string(out->file, key, strlen(key));
    fputs(": ", out->file);
}

void sp_json_out_begin(struct sp_json_out *out, const char *key, char bracket)
{
    put_key(out, key);
    fputc(bracket, out->file);
    out->comma = false;
}

void sp_json_out_end(struct sp_json_out *out, char bracket)
{
    fputc(bracket, out->file);
    out->comma = true;
}

void sp_json_out_string(struct sp_json_out *out, const char *key, const char *text, size_t size)
{
    put_key(out, key);
    put_string(out->file, text, size);
}

void sp_json_out_text(struct sp_json_out *out, const char *key, const char *text)
{
    put_key(out, key);
    if (text)
        put_string(out->file, text, strlen(text));
    else
        fputs("null", out->file);
}

void sp_json_out_u64(struct sp_json_out *out, const char *key, uint64_t value)
{
    put_key(out, key);
    fprintf(out->file, "%" PRIu64, value);
}

void sp_json_out_double(struct sp_json_out *out, const char *key, double value)
{
    put_key(out, key);
    if (isfinite(value))
        fprintf(out->file, "%.9g", value);
    else
        fputs("null", out->file);
}

void sp_json_out_bool(struct sp_json_out *out, const char *key, bool value)
{
    put_key(out, key);
    fputs(value ? "true" : "false", out->file);
}
