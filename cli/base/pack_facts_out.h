/* Prints the facts of a packed file for `show`, as text or as JSON. */
#ifndef SP_CLI_BASE_PACK_FACTS_OUT_H
#define SP_CLI_BASE_PACK_FACTS_OUT_H

#include "cli/base/pack_facts.h"
#include "format/base/json_write.h"

/* `name` is what the user calls the file. */
SP_MUST_CHECK enum sp_status sp_pack_facts_print(const struct sp_pack_facts *facts,
                                                 const char *name, const struct sp_pack *pack,
                                                 struct sp_err *err);
/* Writes the facts as members of an object that the caller has begun. */
void sp_pack_facts_to_json(struct sp_json_out *out, const struct sp_pack_facts *facts);

#endif
