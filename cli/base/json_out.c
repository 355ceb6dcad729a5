#include "cli/base/json_out.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_string(FILE *file, const char *text, size_t size)
{
    fputc('"', file);
    for (size_t i = 0, len; i < size; i += len) {
        unsigned char c = (unsigned char)text[i];
        if (sp_utf8_scan(text + i, size - i, &len) != SP_UTF8_CHAR)
            fputs("\xEF\xBF\xBD", file);
        else if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", file);
        else if (c < 0x20 || c == 0x7F)
            fprintf(file, "\\u%04x", c);
        else
            fwrite(text + i, 1, len, file);
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

void sp_json_out_written(struct sp_json_out *out, const char *key, const char *text, size_t size)
{
    put_key(out, key);
    fwrite(text, 1, size, out->file);
}

enum sp_status sp_json_out_value(struct sp_json_out *out, const char *key,
                                 const struct sp_json *value, struct sp_err *err)
{
    char *text = NULL;
    enum sp_status st = sp_json_print(&text, value, err);

    if (st) return st;
    put_key(out, key);
    fputs(text, out->file);
    free(text);
    return SP_OK;
}

enum sp_status sp_json_draft_begin(struct sp_json_draft *draft, struct sp_err *err)
{
    *draft = (struct sp_json_draft){.text = NULL};
    draft->out.file = open_memstream(&draft->text, &draft->size);
    return draft->out.file ? SP_OK : sp_fail(err, SP_E_NOMEM, "out of memory for a document");
}

enum sp_status sp_json_draft_end(struct sp_json **value, struct sp_json_draft *draft,
                                 enum sp_status st, struct sp_err *err)
{
    enum sp_status closed = sp_close_text(draft->out.file, &draft->text, st ? NULL : err);

    if (!st) st = closed;
    if (!st) st = sp_json_parse(value, draft->text, draft->size, SP_JSON_STRICT, err);
    free(draft->text);
    return st;
}
