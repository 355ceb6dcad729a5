/* Token ids as users write and read them. */
#ifndef SP_CLI_BASE_IDS_H
#define SP_CLI_BASE_IDS_H

#include "cli/base/json_out.h"
#include "format/base/err.h"
#include "format/base/json.h"

struct sp_ids {
    uint32_t *at; /* owned */
    size_t n;
};

/* "1,2,3", blanks allowed around the numbers, and brackets around all of it. SP_E_USAGE names the
 * word that is no id. */
SP_MUST_CHECK enum sp_status sp_ids_parse(struct sp_ids *out, const char *text, struct sp_err *err);
/* A JSON array of ids; SP_E_INPUT. */
SP_MUST_CHECK enum sp_status sp_ids_of_json(struct sp_ids *out, const struct sp_json *array,
                                            struct sp_err *err);
void sp_ids_release(struct sp_ids *ids);

void sp_ids_to_json(struct sp_json_out *out, const char *key, const uint32_t *ids, size_t n);

#endif
