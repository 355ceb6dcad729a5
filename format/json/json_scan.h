/* JSON text, token by token, by the grammar of RFC 8259 and the literals NaN and Infinity, which
 * the caller refuses where they are not allowed. The only reader of JSON text: json.c builds trees
 * from the tokens, format/safetensors_header.c reads one member after another, and json_edit.c
 * wants to know where things stand. */
#ifndef SP_FORMAT_JSON_JSON_SCAN_H
#define SP_FORMAT_JSON_JSON_SCAN_H

#include "format/base/strbuf.h"
#include "format/json/json.h"

enum sp_json_token {
    SP_JSON_TOKEN_END,
    SP_JSON_TOKEN_KEY,
    SP_JSON_TOKEN_STRING, /* any other; both with their quotes */
    SP_JSON_TOKEN_INTEGER,
    SP_JSON_TOKEN_WIDE, /* an integer beyond 64 bits, or -0: only a double holds it */
    SP_JSON_TOKEN_DOUBLE,
    SP_JSON_TOKEN_NONFINITE, /* NaN, Infinity, -Infinity */
    SP_JSON_TOKEN_TRUE,
    SP_JSON_TOKEN_FALSE,
    SP_JSON_TOKEN_NULL,
    SP_JSON_TOKEN_OPEN_OBJECT,
    SP_JSON_TOKEN_OPEN_ARRAY,
    SP_JSON_TOKEN_CLOSE, /* either bracket */
};

/* What may follow the token just found. */
enum sp_json_next {
    SP_JSON_NEXT_VALUE,
    SP_JSON_NEXT_FIRST, /* a value or a key, or the bracket that closes what was opened */
    SP_JSON_NEXT_KEY,
    SP_JSON_NEXT_COLON,
    SP_JSON_NEXT_COMMA, /* or a bracket; at depth 0 the end */
};

/* Begin with text and size set, `end` where the value begins, the rest zero. */
struct sp_json_scan {
    const char *text;
    size_t size;
    enum sp_json_token token; /* just found, at start..end-1 */
    size_t start, end;
    bool has_escapes; /* the string just found has a backslash */
    /* for json_scan.c */
    enum sp_json_next next;
    size_t depth;
    char closing[SP_JSON_DEPTH]; /* the bracket that closes each open object and array */
};

/* Finds the next token; the end again and again. Errors name the byte offset in the text. */
SP_MUST_CHECK enum sp_status sp_json_scan(struct sp_json_scan *scan, struct sp_err *err);

/* Moves to the last token of the value whose first token has just been found. */
SP_MUST_CHECK enum sp_status sp_json_scan_value(struct sp_json_scan *scan, struct sp_err *err);

/* Appends what the key or string just found means. */
SP_MUST_CHECK enum sp_status sp_json_scan_text(struct sp_strbuf *out,
                                               const struct sp_json_scan *scan, struct sp_err *err);

#endif
