/* The members of a long JSON object, one after another: the tree of one value at a time is held, so
 * that the memory does not grow with the number of members. The rules and messages are those of
 * SP_JSON_STRICT, except that a key of the object may occur twice: its reader checks that, with
 * sp_json_fail_repeated. */
#ifndef SP_FORMAT_BASE_JSON_STREAM_H
#define SP_FORMAT_BASE_JSON_STREAM_H

#include "format/base/json.h"
#include "format/base/json_scan.h"

struct sp_json_stream {
    size_t n;      /* members that the object has, if its syntax is right */
    size_t key_at; /* byte at which the key of the current member begins */
    const char *key;
    struct sp_json *value; /* of the current member; NULL for null */
    bool is_object;        /* false: `value` is the whole document, and there are no members */
    /* for json_stream.c */
    struct sp_json_scan scan;
    struct sp_json *key_text;
    char *plain_key;
    size_t key_cap;
    bool begun;
};

/* Opens a document of `size` bytes, borrowed until the stream is released. A value, or a document
 * that is no object, may take SP_JSON_SETTINGS bytes of memory. */
SP_MUST_CHECK enum sp_status sp_json_stream_open(struct sp_json_stream *out, const char *text,
                                                 size_t size, struct sp_err *err);
/* Moves to the next member. *found = false after the last one. Key and value are borrowed until the
 * next call. */
SP_MUST_CHECK enum sp_status sp_json_stream_next(bool *found, struct sp_json_stream *stream,
                                                 struct sp_err *err);
void sp_json_stream_release(struct sp_json_stream *stream); /* also after a failure */

/* The failure of a document that has the key at byte `at` for the second time. */
SP_MUST_CHECK enum sp_status sp_json_fail_repeated(const char *key, size_t at, struct sp_err *err);

#endif
