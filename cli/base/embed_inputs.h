/* The texts of a request for embeddings, as token ids; and the option --pooling. */
#ifndef SP_CLI_BASE_EMBED_INPUTS_H
#define SP_CLI_BASE_EMBED_INPUTS_H

#include "cli/base/opt.h"
#include "format/json/json.h"
#include "runtime/spectool.h"

struct sp_embed_inputs {
    const struct sp_package *package; /* borrowed, like prompt */
    const char *prompt;               /* as in sp_package_encode_for_embedding */
    bool truncate;                    /* shorten texts that the model cannot read as a whole */
    struct sp_embedding_text *texts;  /* [n]; owned, with their ids */
    size_t n, cap;
    size_t n_tokens; /* of all texts */
    bool too_long;   /* the last failure was a text that is too long */
};

/* The words of --pooling, those of a server, and the value of one; NULL: the file's pooling. */
extern const char *const sp_embed_poolings[], *const sp_embed_server_poolings[];
enum sp_pooling sp_embed_pooling_of(const char *word);

#define SP_OPT_POOLING(type, member, words, text)                                                  \
    {                                                                                              \
        SP_OPT_CHOICE, 0, "pooling", NULL, "METHOD", offsetof(type, member),                       \
            .choices = (words), .shown = "the file's", .help = (text)                              \
    }

/* Adds a text of valid UTF-8. SP_E_USAGE: it is too long and not truncated, or has no tokens. */
SP_MUST_CHECK enum sp_status sp_embed_inputs_add(struct sp_embed_inputs *inputs, const char *text,
                                                 size_t size, struct sp_err *err);
/* Adds a JSON string, or an array of token ids. SP_E_INPUT: the value is neither. */
SP_MUST_CHECK enum sp_status sp_embed_inputs_add_json(struct sp_embed_inputs *inputs,
                                                      const struct sp_json *value,
                                                      struct sp_err *err);
/* Adds ids, which the inputs own from then on, also on failure. */
SP_MUST_CHECK enum sp_status sp_embed_inputs_add_ids(struct sp_embed_inputs *inputs, uint32_t *ids,
                                                     size_t n, struct sp_err *err);
/* Frees the texts; the inputs are then empty. */
void sp_embed_inputs_release(struct sp_embed_inputs *inputs);

#endif
