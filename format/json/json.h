/* JSON values, read only.
 *
 * Two strictnesses: SP_JSON_STRICT for safetensors headers, shard indexes and our own sections
 * (one value, no duplicate keys, valid UTF-8, no NaN); SP_JSON_LENIENT for files that Python wrote
 * (config.json and friends): NaN and Infinity literals allowed, a repeated key's last value wins,
 * and numbers such as 1e6 count as integers. A `null` member counts as absent.
 *
 * A document takes memory by its values, about 0.8 KB for an object: one that would take more than
 * 1 GB is refused. The largest published tokenizer takes 0.3 GB. */
#ifndef SP_FORMAT_JSON_JSON_H
#define SP_FORMAT_JSON_JSON_H

#include "format/base/mem.h"

/* max_bytes of sp_json_parse_within for a document of settings: a configuration or a record. */
#define SP_JSON_SETTINGS ((size_t)64 << 20)

enum { SP_JSON_DEPTH = 256 }; /* of objects and arrays in each other; deeper ones are refused */

enum sp_json_strictness { SP_JSON_STRICT, SP_JSON_LENIENT };

enum sp_json_kind {
    SP_JSON_NULL,
    SP_JSON_BOOL,
    SP_JSON_INT,
    SP_JSON_DOUBLE,
    SP_JSON_STRING,
    SP_JSON_ARRAY,
    SP_JSON_OBJECT,
};

struct sp_json; /* one value; borrowed from the document, valid until sp_json_free(root) */

/* Parses `size` bytes of text. Errors name the byte offset. *out is NULL if the text says null. */
SP_MUST_CHECK enum sp_status sp_json_parse(struct sp_json **out, const char *text, size_t size,
                                           enum sp_json_strictness strictness, struct sp_err *err);
/* Parses text from an untrusted file: a document that would take more than max_bytes of memory is
 * refused. */
SP_MUST_CHECK enum sp_status sp_json_parse_within(struct sp_json **out, const char *text,
                                                  size_t size, enum sp_json_strictness strictness,
                                                  size_t max_bytes, struct sp_err *err);
/* Parses a lenient document of settings: a configuration or a record. *out is NULL for no text. */
SP_MUST_CHECK enum sp_status sp_json_parse_settings(struct sp_json **out,
                                                    const struct sp_text *text, struct sp_err *err);
/* Parses such a file of the folder, at most 128 MB; *out is NULL if it does not exist. */
SP_MUST_CHECK enum sp_status sp_json_read_in(struct sp_json **out, const char *folder,
                                             const char *name, struct sp_err *err);
/* Parses the value whose first token the scan (json_scan.h) has just found, and moves to the last
 * one. */
struct sp_json_scan;
SP_MUST_CHECK enum sp_status sp_json_parse_value(struct sp_json **out, struct sp_json_scan *scan,
                                                 enum sp_json_strictness strictness,
                                                 size_t max_bytes, struct sp_err *err);
void sp_json_free(struct sp_json *root); /* NULL is fine */

/* *bytes = an upper bound of the memory that the document would take, which is at most max_bytes;
 * a text that would take more is refused as by sp_json_parse_within. */
SP_MUST_CHECK enum sp_status sp_json_measure(size_t *bytes, const char *text, size_t size,
                                             enum sp_json_strictness strictness, size_t max_bytes,
                                             struct sp_err *err);
/* The memory that a parsed value takes, by the same count. */
size_t sp_json_tree_bytes(const struct sp_json *v);
/* Remembers in `marks`, which begins as zero, which members of an object are asked for with the
 * functions below; null has none. Until the marks are removed only one thread may read it. */
enum { SP_JSON_MAX_MARKS = 128 }; /* more members than any reader asks for */
struct sp_json_marks {
    size_t n, n_asked;
    const void *members[SP_JSON_MAX_MARKS];
};
void sp_json_watch(struct sp_json *object, struct sp_json_marks *marks);
/* Removes the marks, if there are any, and the members that nobody asked for, after telling each to
 * `dropped`. An object that nobody looked into keeps its members. */
void sp_json_drop_unmarked(struct sp_json *object,
                           void (*dropped)(void *context, const char *key,
                                           const struct sp_json *value),
                           void *context);

enum sp_json_kind sp_json_kind(const struct sp_json *v); /* of NULL: SP_JSON_NULL */
const char *sp_json_kind_name(enum sp_json_kind kind);   /* "object", "string", ... */

/* Object member; NULL when `v` is not an object, the key is absent, or its value is null. */
const struct sp_json *sp_json_get(const struct sp_json *v, const char *key);
bool sp_json_has(const struct sp_json *v, const char *key); /* present, even as null */

/* Number of elements of an array or members of an object, else 0. */
size_t sp_json_len(const struct sp_json *v);
const struct sp_json *sp_json_at(const struct sp_json *array, size_t i); /* NULL for null */

/* for (struct sp_json_iter it = {0}; sp_json_next(object, &it);) in file order */
struct sp_json_iter {
    const char *key;             /* NUL-terminated UTF-8; a key holding \u0000 is a parse error */
    const struct sp_json *value; /* NULL for null */
    const void *next;
    bool started;
};
bool sp_json_next(const struct sp_json *object, struct sp_json_iter *it);

/* The value as another type; false when it is of another kind or does not fit. */
bool sp_json_to_i64(const struct sp_json *v, int64_t *out); /* 3, and in lenient documents 3.0 */
bool sp_json_to_u64(const struct sp_json *v, uint64_t *out);
bool sp_json_to_double(const struct sp_json *v, double *out); /* integers too */
bool sp_json_to_bool(const struct sp_json *v, bool *out);
const char *sp_json_to_string(const struct sp_json *v, size_t *len); /* NULL; may hold NULs */
const char *sp_json_get_text(const struct sp_json *object, const char *key); /* of a member */

/* Members with a type and a range. Absent (or null): *out keeps its value, SP_OK. Wrong type or out
 * of range: SP_E_INPUT naming the key, e.g. `hidden_size is "x", expected an integer 1..65536`. */
SP_MUST_CHECK enum sp_status sp_json_get_i64(const struct sp_json *object, const char *key,
                                             int64_t min, int64_t max, int64_t *out,
                                             struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_json_get_double(const struct sp_json *object, const char *key,
                                                double min, double max, double *out,
                                                struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_json_get_bool(const struct sp_json *object, const char *key,
                                              bool *out, struct sp_err *err);
/* *out borrowed from the document; a string holding NUL is refused. */
SP_MUST_CHECK enum sp_status sp_json_get_string(const struct sp_json *object, const char *key,
                                                const char **out, struct sp_err *err);

/* The text that a double was read from; NULL for every other value. */
const char *sp_json_spelling(const struct sp_json *v);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_json_library(char *text, size_t size);

/* Equality of JSON values, as JSON Schema defines it (core, 4.2.2). */

/* *equal: both have the same value. 1, 1.0 and 10e-1 are equal, and so are objects whose members
 * have another order. */
SP_MUST_CHECK enum sp_status sp_json_equal(bool *equal, const struct sp_json *a,
                                           const struct sp_json *b, struct sp_err *err);

#endif
