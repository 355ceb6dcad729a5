/* Changes to single members of a JSON object that leave every other byte of its text as it is.
 *
 * The text is a document that format/json/json.h has parsed. Keys are compared as they are spelled:
 * a key written with escapes equals no other. An object of more than SP_JSON_MAX_MEMBERS is
 * refused. */
#ifndef SP_FORMAT_JSON_JSON_EDIT_H
#define SP_FORMAT_JSON_JSON_EDIT_H

#include "format/base/strbuf.h"

#include <stdbool.h>

enum { SP_JSON_MAX_MEMBERS = 16384 };

/* Where a member stands in the text: from its key's quote to the end of its value. */
struct sp_json_member {
    size_t begin, key_end, value, end;
};

/* Members of the object that begins at byte `at` of the text, in order; *members owned by the
 * caller. SP_E_INPUT where there is no object. */
SP_MUST_CHECK enum sp_status sp_json_members(struct sp_json_member **members, size_t *n,
                                             const struct sp_strbuf *text, size_t at,
                                             struct sp_err *err);

/* The root's member `key`, the last one of that name; false when there is none. */
SP_MUST_CHECK enum sp_status sp_json_find_member(bool *found, struct sp_json_member *member,
                                                 const struct sp_strbuf *text, const char *key,
                                                 struct sp_err *err);

/* Gives the root's `key` this value (JSON text): in its place, or as a new first member, on a line
 * like the first one's. */
SP_MUST_CHECK enum sp_status sp_json_set(struct sp_strbuf *text, const char *key, const char *value,
                                         size_t value_size, struct sp_err *err);

/* Puts in front what `from`'s root has and the text's has not, of the keys that are wanted. */
SP_MUST_CHECK enum sp_status sp_json_merge(struct sp_strbuf *text, const struct sp_strbuf *from,
                                           bool (*wanted)(const char *key, size_t len),
                                           struct sp_err *err);

/* Removes every member `key` of the root, with its comma. */
SP_MUST_CHECK enum sp_status sp_json_remove(struct sp_strbuf *text, const char *key,
                                            struct sp_err *err);

/* The text becomes that of the root's member `key`, an object, with its indentation made less by
 * the member's own. */
SP_MUST_CHECK enum sp_status sp_json_lift(struct sp_strbuf *text,
                                          const struct sp_json_member *member, struct sp_err *err);

#endif
