/* Added tokens: those of tokenizer.json, and those of tokenizer_config.json as AutoTokenizer of
 * transformers 5 reads them. */
#include "format/tokenizer/vocab_reading.h"

#include "format/base/warnings.h"

#include <stdlib.h>

enum { MAX_ADDED_LEN = 512 }; /* of an added token's text: it bounds the search at each position */

/* The text of an added token. NULL: it has none, or an empty one, which the reference leaves out,
 * as it could match anywhere. */
static const char *read_content(struct sp_vocab_reading *r, const struct sp_json *v, size_t *len)
{
    const char *text = sp_json_to_string(v, len);

    if (text && *len > MAX_ADDED_LEN) {
        SP_VOCAB_REFUSED(r, "content has %zu bytes, at most %d are supported", *len, MAX_ADDED_LEN);
        return NULL;
    }
    return text && *len ? text : NULL;
}

/* The flags of an object; of a text there are none. */
static uint8_t read_flags(struct sp_vocab_reading *r, const struct sp_json *v)
{
    static const struct {
        const char *key;
        uint8_t flag;
    } table[] = {
        {"special", SP_TOKEN_SPECIAL},         {"normalized", SP_TOKEN_NORMALIZED},
        {"lstrip", SP_TOKEN_LSTRIP},           {"rstrip", SP_TOKEN_RSTRIP},
        {"single_word", SP_TOKEN_SINGLE_WORD},
    };
    uint8_t flags = SP_TOKEN_ADDED;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool on = false;
        if (!sp_json_get_bool(v, table[i].key, &on, r->err) && on) flags |= table[i].flag;
    }
    return flags;
}

/* An added token keeps its place among them, an entry of the model's vocabulary stays one. */
static void put_token(struct sp_vocab_reading *r, size_t id, const char *text, size_t len,
                      uint8_t flags)
{
    struct sp_vocab *vocab = r->vocab;
    struct sp_vocab_token *token = &vocab->tokens[id];

    if (!(token->flags & SP_TOKEN_ADDED)) {
        if (sp_grow(&vocab->added, &r->cap_added, vocab->n_added + 1, sizeof *vocab->added, r->err))
            return;
        vocab->added[vocab->n_added++] = (uint32_t)id;
    }
    flags |= token->flags & SP_TOKEN_MODEL;
    *token = (struct sp_vocab_token){text, (uint32_t)len, flags};
}

/* ---- tokenizer.json ---- */

/* The reference ignores the id in the file where the vocabulary has the text. */
static void read_token(struct sp_vocab_reading *r, const struct sp_json *v)
{
    struct sp_vocab *vocab = r->vocab;
    const struct sp_json *content = sp_json_get(v, "content");
    const char *text;
    uint64_t id;
    uint32_t known;
    size_t len;

    if (!sp_json_to_u64(sp_json_get(v, "id"), &id)) {
        SP_VOCAB_INVALID(r, "id is missing or not a number");
        return;
    }
    if (sp_json_kind(content) != SP_JSON_STRING) SP_VOCAB_INVALID(r, "content: expected a string");
    text = read_content(r, content, &len);
    if (!sp_vocab_make_room(r, id) || text == NULL) return;
    known = sp_vocab_find(vocab, text, len);
    if (known != SP_ID_NONE && known != id) {
        if (vocab->warning == NULL &&
            sp_warn(&vocab->warning, r->err,
                    "added token \"%.100s\" has id %llu, but %u in the vocabulary, which is used",
                    text, (unsigned long long)id, known))
            return;
        id = known;
    }
    if (vocab->tokens[id].text != NULL && !sp_token_is(&vocab->tokens[id], text, len)) {
        SP_VOCAB_INVALID(r, "id %llu of \"%s\" is also the id of \"%s\"", (unsigned long long)id,
                         text, vocab->tokens[id].text);
        return;
    }
    put_token(r, id, text, len, read_flags(r, v));
}

static void read_file_tokens(struct sp_vocab_reading *r)
{
    const struct sp_json *added = sp_json_get(r->vocab->json, "added_tokens");

    for (size_t i = 0; i < sp_json_len(added) && !sp_vocab_failed(r); i++) {
        read_token(r, sp_json_at(added, i));
        sp_context(r->err, "added_tokens[%zu]", i);
    }
}

/* ---- tokenizer_config.json ---- */

static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
enum { N_NAMES = sizeof names / sizeof *names, N_LISTS = sizeof lists / sizeof *lists };

/* The text of a token, which is a string or an object with "content" and flags. */
static const struct sp_json *content_of(const struct sp_json *token)
{
    return sp_json_kind(token) == SP_JSON_OBJECT ? sp_json_get(token, "content") : token;
}

static bool has_content(const struct sp_json *token, const char *text, size_t len)
{
    size_t other_len;
    const char *other = sp_json_to_string(content_of(token), &other_len);

    return other && other_len == len && memcmp(other, text, len) == 0;
}

/* Whether one of the names stands for this text. */
static bool is_named(const struct sp_json *config, const char *text, size_t len)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (has_content(sp_json_get(config, names[i]), text, len)) return true;
    for (size_t i = 0; i < N_LISTS; i++)
        for (struct sp_json_iter it = {0}; sp_json_next(sp_json_get(config, lists[i]), &it);)
            if (has_content(it.value, text, len)) return true;
    return false;
}

/* The id of an added token of this text, or SP_ID_NONE. */
static uint32_t find_added(const struct sp_vocab *vocab, uint64_t likely, const char *text,
                           size_t len)
{
    if (likely < vocab->n_ids && sp_token_is(&vocab->tokens[likely], text, len) &&
        vocab->tokens[likely].flags & SP_TOKEN_ADDED)
        return (uint32_t)likely;
    for (size_t i = 0; i < vocab->n_added; i++)
        if (sp_token_is(&vocab->tokens[vocab->added[i]], text, len)) return vocab->added[i];
    return SP_ID_NONE;
}

/* Adds a token with the ID that the file states, or SP_ID_NONE. An entry with an ID has the last
 * word on the flags of its token; others only add what is not there, and leave a token of the
 * model's vocabulary one. A special token is sought before normalization unless the entry states
 * otherwise. A token without an ID gets the next free one, and so does, as in transformers, one
 * whose ID tokenizer.json has for another. */
static void add_token(struct sp_vocab_reading *r, const struct sp_json *v, uint32_t stated,
                      bool named)
{
    struct sp_vocab *vocab = r->vocab;
    size_t len, id;
    const char *text = read_content(r, content_of(v), &len);
    uint32_t known;
    uint8_t flags;

    if (text == NULL) return;
    known = find_added(vocab, stated, text, len);
    if (known == SP_ID_NONE) known = sp_vocab_find(vocab, text, len);
    if (known != SP_ID_NONE && stated == SP_ID_NONE) return;
    if (stated != SP_ID_NONE)
        named = is_named(vocab->config, text, len);
    else if (sp_json_kind(v) == SP_JSON_STRING)
        named = true;
    flags = read_flags(r, v);
    if (named) flags |= SP_TOKEN_SPECIAL;
    if (!(flags & SP_TOKEN_SPECIAL) && !sp_json_has(v, "normalized")) flags |= SP_TOKEN_NORMALIZED;
    id = known != SP_ID_NONE ? known : stated != SP_ID_NONE ? stated : vocab->n_ids;
    if (!sp_vocab_make_room(r, id)) return;
    if (vocab->tokens[id].text && !sp_token_is(&vocab->tokens[id], text, len)) {
        if (vocab->warning == NULL &&
            sp_warn(&vocab->warning, r->err,
                    "tokenizer_config.json gives \"%.100s\" id %zu, which is that of \"%.100s\" in "
                    "tokenizer.json; it gets the next free one, %zu",
                    text, id, vocab->tokens[id].text, vocab->n_ids))
            return;
        id = vocab->n_ids;
        if (!sp_vocab_make_room(r, id)) return;
    }
    put_token(r, id, text, len, flags | (vocab->tokens[id].flags & SP_TOKEN_SPECIAL));
}

/* In the order in which transformers adds them: those with IDs, those with names, the others. */
static void read_config_tokens(struct sp_vocab_reading *r)
{
    const struct sp_json *config = r->vocab->config;
    const struct sp_json *decoder = sp_json_get(config, "added_tokens_decoder");

    for (struct sp_json_iter it = {0}; !sp_vocab_failed(r) && sp_json_next(decoder, &it);) {
        char *end;
        unsigned long long id = strtoull(it.key, &end, 10);
        if (*end || end == it.key || id >= SP_ID_NONE)
            SP_VOCAB_INVALID(r, "added_tokens_decoder: \"%s\" is not a token ID", it.key);
        else
            add_token(r, it.value, (uint32_t)id, false);
    }
    for (size_t i = 0; i < N_NAMES; i++)
        add_token(r, sp_json_get(config, names[i]), SP_ID_NONE, true);
    for (size_t i = 0; i < N_LISTS; i++) {
        const struct sp_json *list = sp_json_get(config, lists[i]);
        for (struct sp_json_iter it = {0}; sp_json_next(list, &it);)
            add_token(r, it.value, SP_ID_NONE, true);
        for (size_t k = 0; k < sp_json_len(list); k++)
            add_token(r, sp_json_at(list, k), SP_ID_NONE, false);
    }
}

/* The token that a member names; model entries first, as for added tokens. */
static uint32_t find_named(const struct sp_vocab *vocab, const char *key)
{
    size_t len;
    const char *text = sp_json_to_string(content_of(sp_json_get(vocab->config, key)), &len);
    uint32_t id = text ? sp_vocab_find(vocab, text, len) : SP_ID_NONE;

    for (size_t i = 0; text && id == SP_ID_NONE && i < vocab->n_ids; i++)
        if (sp_token_is(&vocab->tokens[i], text, len)) id = (uint32_t)i;
    return id;
}

void sp_vocab_read_added(struct sp_vocab_reading *r)
{
    struct sp_vocab *vocab = r->vocab;
    bool splits = false;

    read_file_tokens(r);
    if (sp_vocab_failed(r)) return;
    if (!sp_json_get_bool(vocab->config, "split_special_tokens", &splits, r->err) && splits) {
        SP_VOCAB_REFUSED(r, "split_special_tokens is true: no special token would be recognized in "
                            "a prompt");
    }
    read_config_tokens(r);
    sp_context(r->err, "tokenizer_config.json: added tokens");
    vocab->bos = find_named(vocab, "bos_token");
    vocab->eos = find_named(vocab, "eos_token");
}
