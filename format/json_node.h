/* What a JSON value is inside: shared by json_parse.c, which makes them, json_object.c, which finds
 * members, and json.c, which reads them. Not for anybody else.
 *
 * A document is one arena. Children of a container lie side by side; an object of more than
 * SP_JSON_LINEAR members also has them sorted by key, so that looking one up in a vocabulary of
 * 150 000 is a binary search and a repeated key is found in n log n. */
#ifndef SP_FORMAT_JSON_NODE_H
#define SP_FORMAT_JSON_NODE_H

#include "format/json.h"

enum { SP_JSON_LINEAR = 8, SP_JSON_STRICT_DEPTH = 64, SP_JSON_MAX_DEPTH = 256 };

struct sp_json {
    uint8_t kind;  /* enum sp_json_kind */
    bool negative; /* SP_JSON_INT: `i` counts, else `u` */
    bool lenient;  /* SP_JSON_DOUBLE from a lenient document: 3.0 is an integer too */
    size_t len;    /* bytes of a string, elements of an array, members of an object */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double d;
        const char *string; /* NUL-terminated as well */
        const struct sp_json *items;
        const struct sp_json_object *object;
    } as;
};

struct sp_json_member {
    const char *key;
    struct sp_json value;
};

/* `prefix`: the key's first eight bytes as a number, which settles most comparisons. */
struct sp_json_slot {
    uint64_t prefix;
    const struct sp_json_member *member;
};

struct sp_json_object {
    const struct sp_json_member *members; /* [len], in file order */
    const struct sp_json_slot *sorted;    /* [len], or NULL for a small object */
};

/* json_object.c: slots[n] = the members by key, those of one key in the text's order. */
void sp_json_sort_members(struct sp_json_slot *slots, const struct sp_json_member *members,
                          size_t n);
/* A key that more than one member has, or NULL. */
const char *sp_json_repeated_key(const struct sp_json_slot *slots, size_t n);
/* As Python's dict does it: the first place keeps the last value. Returns how many members stay;
 * they and their slots are in order again. */
size_t sp_json_merge_repeated(struct sp_json_slot *slots, struct sp_json_member *members, size_t n);
/* The value, null or not; NULL when `v` is no object or has no such member. */
const struct sp_json *sp_json_find_member(const struct sp_json *v, const char *key);

#endif
