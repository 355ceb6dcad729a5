/* tekken.json, the tokenizer file of Mistral's own format, from which tokenizer.json is made where
 * a checkpoint has none. */
#ifndef SP_FORMAT_TOKENIZER_TEKKEN_H
#define SP_FORMAT_TOKENIZER_TEKKEN_H

#include "format/base/mem.h"

/* *text = the tokenizer.json of the folder's tekken.json; none if there is no such file. Texts
 * begin with token 1, as in mistral-common. */
SP_MUST_CHECK enum sp_status sp_tekken_read(struct sp_text *text, const char *folder,
                                            struct sp_err *err);

#endif
