/* Other files of tokenizers, from which tokenizer.json is made where a checkpoint has none. */
#ifndef SP_FORMAT_TOKENIZER_BPE_FILES_H
#define SP_FORMAT_TOKENIZER_BPE_FILES_H

#include "format/base/mem.h"

/* *text = the tokenizer.json of the folder's vocab.json and merges.txt, as transformers makes it
 * for the tokenizer_class of `config`, its tokenizer_config.json, or else of its tokenizer.model
 * (sentencepiece.c) or tekken.json (tekken.h). None if none is there, or the class of the two is
 * none of GPT-2's, Qwen 2's. */
SP_MUST_CHECK enum sp_status sp_bpe_files_read(struct sp_text *text, const char *folder,
                                               const struct sp_text *config, struct sp_err *err);

/* SP_E_INPUT with a sentence on a folder without tokenizer.json: it names the tokenizer's file that
 * is there, and what makes tokenizer.json of it. */
enum sp_status sp_tokenizer_files_fail(const char *folder, struct sp_err *err);

#endif
