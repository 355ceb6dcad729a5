/* The file is a vocabulary of tiktoken: tokens in the order in which they are merged, behind
 * special tokens that texts cannot spell. It is read as the metadata of a GGUF file whose scores
 * are the ranks, so that its merges are found as those of SentencePiece are. */
#include "format/tokenizer/tekken.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/json/json.h"
#include "format/tokenizer/byte_level.h"
#include "format/tokenizer/gguf_token_writer.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "format/tokenizer/gguf_tokens.h"
#include "format/tokenizer/rewrite.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 64 << 20, MOST_TOKENS = 1 << 22, MOST_BYTES = 4096 /* of a token */ };

/* Those of files without a list, which are of version 7 or older. */
static const char *const old_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
enum { N_OLD = sizeof old_specials / sizeof *old_specials };

/* Element i of a list, whose ranks must ascend from 0. */
static enum sp_status find_ranked(const struct sp_json **out, const struct sp_json *list, size_t i,
                                  const char *name, struct sp_err *err)
{
    uint64_t rank;

    *out = sp_json_at(list, i);
    if (sp_json_to_u64(sp_json_get(*out, "rank"), &rank) && rank == i) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s[%zu] does not have rank %zu", name, i, i);
}

static enum sp_status add_special(struct sp_gguf_token_list *tokens, const struct sp_json *list,
                                  size_t i, struct sp_err *err)
{
    const struct sp_json *special;
    const char *text = list == NULL && i < N_OLD ? old_specials[i] : NULL;
    char filler[40];
    bool is_control = true;
    enum sp_status st;

    if (i < sp_json_len(list)) {
        if ((st = find_ranked(&special, list, i, "special_tokens", err))) return st;
        if ((st = sp_json_get_bool(special, "is_control", &is_control, err))) return st;
        text = sp_json_get_text(special, "token_str");
        if (text == NULL || *text == '\0')
            return sp_fail(err, SP_E_INPUT, "special_tokens[%zu] has no token_str", i);
    } else if (text == NULL) {
        snprintf(filler, sizeof filler, "<SPECIAL_%zu>", i);
        text = filler;
    }
    return sp_gguf_token_list_add(tokens, text, strlen(text), 0,
                                  is_control ? SP_GGUF_TOKEN_CONTROL : SP_GGUF_TOKEN_USER, err);
}

static enum sp_status add_token(struct sp_gguf_token_list *tokens, const struct sp_json *vocab,
                                size_t i, struct sp_err *err)
{
    uint8_t bytes[MOST_BYTES];
    char text[2 * MOST_BYTES];
    const struct sp_json *token;
    const char *base64;
    size_t len = 0, n = 0;
    enum sp_status st;

    if ((st = find_ranked(&token, vocab, i, "vocab", err))) return st;
    base64 = sp_json_to_string(sp_json_get(token, "token_bytes"), &len);
    if (base64 == NULL || len > MOST_BYTES || !sp_base64_decode(bytes, &n, base64, len) || n == 0)
        return sp_fail(err, SP_E_INPUT, "vocab[%zu]: token_bytes is not base64 of a token", i);
    len = sp_byte_level_encode(text, (const char *)bytes, n);
    return sp_gguf_token_list_add(tokens, text, len, -(float)i, SP_GGUF_TOKEN_NORMAL, err);
}

/* The values of a GGUF file, by key, and tokenizer.json of them. */
static enum sp_status write_text(struct sp_text *text, const struct sp_gguf_token_list *tokens,
                                 const char *pattern, struct sp_err *err)
{
    static const uint8_t bos[4] = {1}, eos[4] = {2}, kind[] = "\4\0\0\0\0\0\0\0gpt2";
    const struct sp_gguf_pre pre = {.pattern = pattern,
                                    .flags = SP_GGUF_PRE_IGNORE_MERGES | SP_GGUF_PRE_BOS};
    const struct sp_gguf_value values[] = {
        {"tokenizer.ggml.bos_token_id", SP_GGUF_I32, false, 1, bos},
        {"tokenizer.ggml.eos_token_id", SP_GGUF_I32, false, 1, eos},
        {"tokenizer.ggml.model", SP_GGUF_STRING, false, 1, kind},
        {"tokenizer.ggml.scores", SP_GGUF_F32, true, tokens->n, (const uint8_t *)tokens->scores.at},
        {"tokenizer.ggml.token_type", SP_GGUF_I32, true, tokens->n,
         (const uint8_t *)tokens->types.at},
        {"tokenizer.ggml.tokens", SP_GGUF_STRING, true, tokens->n,
         (const uint8_t *)tokens->texts.at},
    };
    struct sp_gguf *file = NULL;
    enum sp_status st;

    if ((st = sp_gguf_of_values(&file, values, sizeof values / sizeof *values, err))) return st;
    st = sp_gguf_tokenizer_text(text, file, &(struct sp_gguf_token_rules){.ranked = &pre}, err);
    sp_gguf_close(file);
    return st;
}

static enum sp_status read_tokens(struct sp_gguf_token_list *tokens, const char **pattern,
                                  const struct sp_json *root, struct sp_err *err)
{
    const struct sp_json *config = sp_json_get(root, "config"), *vocab = sp_json_get(root, "vocab");
    const struct sp_json *special = sp_json_get(root, "special_tokens");
    int64_t n = 0, n_special = 0;
    enum sp_status st;

    *pattern = sp_json_get_text(config, "pattern");
    if (*pattern == NULL) return sp_fail(err, SP_E_INPUT, "config.pattern is missing");
    st = sp_json_get_i64(config, "default_vocab_size", 1, MOST_TOKENS, &n, err);
    if (!st && n) st = sp_json_get_i64(config, "default_num_special_tokens", 3, n, &n_special, err);
    if (st) return st;
    if (n_special == 0) {
        return sp_fail(err, SP_E_INPUT, "config.%s is missing",
                       n ? "default_num_special_tokens" : "default_vocab_size");
    }
    if ((size_t)(n - n_special) > sp_json_len(vocab)) {
        return sp_fail(err, SP_E_INPUT, "vocab has %zu tokens, config %lld and %lld special ones",
                       sp_json_len(vocab), (long long)(n - n_special), (long long)n_special);
    }
    if (sp_json_kind(special) != SP_JSON_NULL &&
        (sp_json_kind(special) != SP_JSON_ARRAY || sp_json_len(special) == 0))
        return sp_fail(err, SP_E_INPUT, "special_tokens is no list of tokens");
    for (int64_t i = 0; i < n_special && !st; i++)
        st = add_special(tokens, special, (size_t)i, err);
    for (int64_t i = 0; i < n - n_special && !st; i++)
        st = add_token(tokens, vocab, (size_t)i, err);
    return st;
}

enum sp_status sp_tekken_read(struct sp_text *text, const char *folder, struct sp_err *err)
{
    struct sp_gguf_token_list tokens = {0};
    struct sp_json *root = NULL;
    const char *pattern;
    struct sp_text file = {0};
    enum sp_status st;

    *text = file;
    st = sp_file_read_in(&file, folder, "tekken.json", MAX_SIZE, err);
    if (st || file.at == NULL) return st;
    st = sp_json_parse(&root, file.at, file.size, SP_JSON_LENIENT, err);
    if (!st) st = read_tokens(&tokens, &pattern, root, err);
    if (!st) st = write_text(text, &tokens, pattern, err);
    if (st) sp_context(err, "%s/tekken.json", folder);
    sp_gguf_token_list_release(&tokens);
    sp_json_free(root);
    free(file.at);
    return st;
}
