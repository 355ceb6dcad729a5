/* Reads and writes token ids as users write them. */
#ifndef SP_CLI_BASE_IDS_H
#define SP_CLI_BASE_IDS_H

#include "format/base/err.h"
#include "format/json/json.h"
#include "format/json/json_write.h"

struct sp_ids {
    uint32_t *at; /* ids; owned */
    size_t n;
};

/* Parses "1,2,3"; whitespace around the numbers and brackets around the list are allowed.
 * SP_E_USAGE names the first word that is not an id. */
SP_MUST_CHECK enum sp_status sp_ids_parse(struct sp_ids *out, const char *text, struct sp_err *err);
/* Reads a JSON array of ids. SP_E_INPUT if it is not one. */
SP_MUST_CHECK enum sp_status sp_ids_of_json(struct sp_ids *out, const struct sp_json *array,
                                            struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_ids_append(struct sp_ids *to, const uint32_t *ids, size_t n,
                                           struct sp_err *err);
void sp_ids_release(struct sp_ids *ids);

void sp_ids_to_json(struct sp_json_out *out, const char *key, const uint32_t *ids, size_t n);

#endif
