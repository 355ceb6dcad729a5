/* The reading of a tokenizer.json, for vocab*.c. */
#ifndef SP_FORMAT_TOKENIZER_VOCAB_READING_H
#define SP_FORMAT_TOKENIZER_VOCAB_READING_H

#include "format/tokenizer/vocab.h"

#include <string.h>

/* The first failure is recorded in `err` and stays there, and reading goes on: what is read after a
 * failure is not used. */
struct sp_vocab_reading {
    struct sp_vocab *vocab;
    size_t n_entries;                         /* of the lists of tokens in the file */
    size_t cap_tokens, cap_scores, cap_added; /* of the arrays of `vocab` */
    const struct sp_json *v;                  /* the component that is read */
    struct sp_steps *out;                     /* the chain that gets its steps */
    struct sp_err *err;                       /* not NULL */
};

static inline bool sp_vocab_failed(const struct sp_vocab_reading *r)
{
    return r->err->status != SP_OK;
}

/* Fail with a message about the file: SP_E_INPUT, or SP_E_UNSUPPORTED. */
#define SP_VOCAB_INVALID(r, ...) ((void)sp_fail((r)->err, SP_E_INPUT, __VA_ARGS__))
#define SP_VOCAB_REFUSED(r, ...) ((void)sp_fail((r)->err, SP_E_UNSUPPORTED, __VA_ARGS__))

static inline bool sp_token_is(const struct sp_vocab_token *t, const char *text, size_t len)
{
    return t->text && t->len == len && memcmp(t->text, text, len) == 0;
}

/* Makes room for a token, and a place for its score where the model has them. False: a failure, as
 * for an ID that is far beyond the number of entries. */
bool sp_vocab_make_room(struct sp_vocab_reading *r, uint64_t id);

/* Reads the file's added tokens, then those of tokenizer_config.json, which names bos and eos. */
void sp_vocab_read_added(struct sp_vocab_reading *r);

/* Reads the component trees of the file, reduced to chains of primitive steps: normalizer, splitter
 * and decoder, and prefix and suffix of its post_processor. Texts stay in the document. */
void sp_vocab_read_steps(struct sp_vocab_reading *r);

/* Components of the post_processor: TemplateProcessing, and both BertProcessing and
 * RobertaProcessing. */
void sp_vocab_read_template(struct sp_vocab_reading *r);
void sp_vocab_read_bert(struct sp_vocab_reading *r);

#endif
