/* The members of config.json that only some families have: those that the family's row lists
 * (format/config/gguf_row.h), each by a rule. */
#ifndef SP_CONVERT_GGUF_GGUF_MEMBERS_H
#define SP_CONVERT_GGUF_GGUF_MEMBERS_H

#include "convert/gguf/gguf_writer.h"

/* Appends the members of the model's family. A value that cannot be honoured is an error. */
void sp_gguf_put_members(struct sp_gguf_writer *w);
/* Whether that reads a key, which is without the architecture in front. */
bool sp_gguf_members_read(const struct sp_gguf_model *model, const char *key);

#endif
