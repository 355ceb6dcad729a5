/* tekken.json, the tokenizer file of Mistral's own format, from which tokenizer.json is made where
 * a checkpoint has none. */
#ifndef SP_FORMAT_TOKENIZER_TEKKEN_H
#define SP_FORMAT_TOKENIZER_TEKKEN_H

#include "format/base/err.h"

#include <stddef.h>

/* *text = the tokenizer.json of the folder's tekken.json, owned by the caller; NULL if there is
 * none. Texts begin with token 1, as in mistral-common. */
SP_MUST_CHECK enum sp_status sp_tekken_read(char **text, size_t *size, const char *folder,
                                            struct sp_err *err);

#endif
