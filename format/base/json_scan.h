/* JSON text, token by token: where strings, numbers, literals and brackets stand. Not its grammar:
 * a parser that uses it decides what may follow what.
 *
 * It exists for what json-c takes and a reader of foreign files must not: raw control characters,
 * unpaired surrogates, keys holding NUL, numbers such as 007 or 1., malformed UTF-8; and to say of
 * integers that 64 bits do not hold them, which json-c would cut down. For format/base/json.c, and
 * for format/base/json_edit.c, which wants to know where things stand. */
#ifndef SP_FORMAT_BASE_JSON_SCAN_H
#define SP_FORMAT_BASE_JSON_SCAN_H

#include "format/base/err.h"

#include <stddef.h>

enum sp_json_token {
    SP_JSON_TOKEN_END,
    SP_JSON_TOKEN_KEY,    /* a string that a colon follows */
    SP_JSON_TOKEN_STRING, /* any other; both with their quotes */
    SP_JSON_TOKEN_NUMBER,
    SP_JSON_TOKEN_WIDE,    /* an integer beyond 64 bits, or -0: only a double holds it */
    SP_JSON_TOKEN_LITERAL, /* letters, or a minus sign and letters */
    SP_JSON_TOKEN_OPEN_OBJECT,
    SP_JSON_TOKEN_OPEN_ARRAY,
    SP_JSON_TOKEN_CLOSE, /* either bracket */
};

/* Begin with text and size set, the rest zero. */
struct sp_json_scan {
    const char *text;
    size_t size;
    size_t start, end; /* of the token just found */
};

/* The next token; the end again and again. */
SP_MUST_CHECK enum sp_status sp_json_scan(enum sp_json_token *token, struct sp_json_scan *scan,
                                          struct sp_err *err);

/* Moves to the last token of the value whose first token has just been found. A token that no value
 * begins with stays, and so does the end of the text. */
SP_MUST_CHECK enum sp_status sp_json_scan_value(enum sp_json_token token, struct sp_json_scan *scan,
                                                struct sp_err *err);

#endif
