#include "format/tokenizer/vocab.h"

#include "format/base/mem.h"
#include "format/tokenizer/tokmap.h"
#include "format/tokenizer/word_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_ADDED_LEN = 512,   /* of an added token's text: it bounds the search at each position */
    MAX_TOKEN_LEN = 65535, /* longest seen: 256 */
    ID_SLACK = 1 << 20,    /* ids that need not be backed by entries */
};

/* ---- the model's vocabulary -------------------------------------------------------------------
 */

static bool is_text(const struct sp_vocab_token *t, const char *text, size_t len)
{
    return t->text && t->len == len && memcmp(t->text, text, len) == 0;
}

/* Of equal texts the last one is found, as by readers that make a table of the list. */
static enum sp_status insert_word(struct sp_vocab *vocab, uint32_t id, struct sp_err *err)
{
    const struct sp_vocab_token *token = &vocab->tokens[id];
    size_t slot = sp_hash_slot(sp_word_hash(token->text, token->len), vocab->n_words);

    for (size_t probes = 0; vocab->words[slot] && !is_text(&vocab->tokens[vocab->words[slot] - 1],
                                                           token->text, token->len);
         slot = slot + 1 == vocab->n_words ? 0 : slot + 1) {
        if (++probes == SP_MAX_PROBES) {
            return sp_fail(err, SP_E_INPUT, "model.vocab: too many entries collide with \"%s\"",
                           token->text);
        }
    }
    vocab->words[slot] = id + 1;
    return SP_OK;
}

uint32_t sp_vocab_find(const struct sp_vocab *vocab, const char *text, size_t len)
{
    size_t slot = sp_hash_slot(sp_word_hash(text, len), vocab->n_words);

    for (; vocab->words[slot]; slot = slot + 1 == vocab->n_words ? 0 : slot + 1) {
        uint32_t id = vocab->words[slot] - 1;
        if (is_text(&vocab->tokens[id], text, len)) return id;
    }
    return SP_ID_NONE;
}

/* Allocates every id that is named anywhere; ids far beyond the number of entries are refused. The
 * entries of a Unigram model are a list, whose index is the id. */
static enum sp_status size_tokens(struct sp_vocab *vocab, const struct sp_json *words,
                                  const struct sp_json *added, struct sp_err *err)
{
    bool listed = vocab->model == SP_VOCAB_UNIGRAM;
    uint64_t n_entries = sp_json_len(words) + sp_json_len(added), id;
    uint64_t max = listed && sp_json_len(words) ? sp_json_len(words) - 1 : 0;
    struct sp_json_iter it = {0};
    enum sp_status st;

    while (!listed && sp_json_next(words, &it)) {
        if (!sp_json_to_u64(it.value, &id)) {
            return sp_fail(err, SP_E_INPUT, "model.vocab: the id of \"%s\" is not a number",
                           it.key);
        }
        if (id > max) max = id;
    }
    for (size_t i = 0; i < sp_json_len(added); i++) {
        if (!sp_json_to_u64(sp_json_get(sp_json_at(added, i), "id"), &id))
            return sp_fail(err, SP_E_INPUT, "added_tokens[%zu]: id is missing or not a number", i);
        if (id > max) max = id;
    }
    if (max >= n_entries * 8 + ID_SLACK) {
        return sp_fail(err, SP_E_INPUT,
                       "token ID %llu is far beyond the %llu entries of the vocabulary",
                       (unsigned long long)max, (unsigned long long)n_entries);
    }
    vocab->n_ids = n_entries ? (size_t)max + 1 : 0;
    vocab->n_words = sp_json_len(words) * 2 + 1;
    if ((st = sp_new(&vocab->tokens, vocab->n_ids, sizeof *vocab->tokens, err))) return st;
    return sp_new(&vocab->words, vocab->n_words, sizeof *vocab->words, err);
}

static enum sp_status read_words(struct sp_vocab *vocab, const struct sp_json *words,
                                 struct sp_err *err)
{
    struct sp_json_iter it = {0};
    uint64_t id = 0;
    enum sp_status st;

    while (sp_json_next(words, &it)) {
        size_t len = strlen(it.key);
        if (!sp_json_to_u64(it.value, &id)) return SP_E_BUG;
        struct sp_vocab_token *token = &vocab->tokens[id];
        if (len > MAX_TOKEN_LEN) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "model.vocab: the token of id %llu has %zu bytes, expected at most %d",
                           (unsigned long long)id, len, MAX_TOKEN_LEN);
        }
        if (token->text != NULL) {
            return sp_fail(err, SP_E_INPUT, "model.vocab: \"%s\" and \"%s\" have the same id %llu",
                           token->text, it.key, (unsigned long long)id);
        }
        *token = (struct sp_vocab_token){it.key, (uint32_t)len, SP_TOKEN_MODEL};
        if ((st = insert_word(vocab, (uint32_t)id, err))) return st;
        vocab->n_model++;
    }
    return SP_OK;
}

/* Unigram: a list of [text, score]. */
static enum sp_status read_scored_words(struct sp_vocab *vocab, const struct sp_json *words,
                                        struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&vocab->scores, vocab->n_ids, sizeof *vocab->scores, err))) return st;
    for (size_t id = 0; id < sp_json_len(words); id++) {
        const struct sp_json *entry = sp_json_at(words, id);
        size_t len;
        const char *text = sp_json_to_string(sp_json_at(entry, 0), &len);
        if (text == NULL || !sp_json_to_double(sp_json_at(entry, 1), &vocab->scores[id]))
            return sp_fail(err, SP_E_INPUT, "model.vocab[%zu]: expected a token and its score", id);
        if (len > SP_UNIGRAM_MAX) {
            return sp_fail(err, SP_E_UNSUPPORTED, "model.vocab[%zu] has %zu bytes, at most %d", id,
                           len, SP_UNIGRAM_MAX);
        }
        if (sp_vocab_find(vocab, text, len) != SP_ID_NONE) {
            return sp_fail(err, SP_E_UNSUPPORTED, "model.vocab[%zu]: \"%s\" is there twice", id,
                           text);
        }
        vocab->tokens[id] = (struct sp_vocab_token){text, (uint32_t)len, SP_TOKEN_MODEL};
        if ((st = insert_word(vocab, (uint32_t)id, err))) return st;
        vocab->n_model++;
    }
    return SP_OK;
}

/* ---- added tokens -----------------------------------------------------------------------------
 */

static enum sp_status read_added_flags(uint8_t *flags, const struct sp_json *v, struct sp_err *err)
{
    static const struct {
        const char *key;
        uint8_t flag;
    } table[] = {
        {"special", SP_TOKEN_SPECIAL},         {"normalized", SP_TOKEN_NORMALIZED},
        {"lstrip", SP_TOKEN_LSTRIP},           {"rstrip", SP_TOKEN_RSTRIP},
        {"single_word", SP_TOKEN_SINGLE_WORD},
    };
    enum sp_status st;

    *flags = SP_TOKEN_ADDED;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool on = false;
        if ((st = sp_json_get_bool(v, table[i].key, &on, err))) return st;
        if (on) *flags |= table[i].flag;
    }
    return SP_OK;
}

/* The reference ignores the id in the file where the vocabulary has the text. */
static enum sp_status warn_of_id(struct sp_vocab *vocab, const char *text, uint64_t id,
                                 uint32_t real, struct sp_err *err)
{
    char line[256];

    if (vocab->warning != NULL || id == real) return SP_OK;
    snprintf(line, sizeof line,
             "added token \"%.100s\" has id %llu, but %u in the vocabulary, which is used", text,
             (unsigned long long)id, real);
    return sp_copy_text(&vocab->warning, line, strlen(line), err);
}

static enum sp_status read_added_token(struct sp_vocab *vocab, const struct sp_json *v,
                                       struct sp_err *err)
{
    uint64_t id = 0;
    uint32_t known;
    size_t len;
    uint8_t flags = 0;
    const char *text = sp_json_to_string(sp_json_get(v, "content"), &len);
    enum sp_status st;

    if (!sp_json_to_u64(sp_json_get(v, "id"), &id)) return SP_E_BUG;
    if (text == NULL) return sp_fail(err, SP_E_INPUT, "content: expected a string");
    if (len == 0) return SP_OK; /* as the reference: it could match anywhere */
    if (len > MAX_ADDED_LEN) {
        return sp_fail(err, SP_E_UNSUPPORTED, "content has %zu bytes, at most %d are supported",
                       len, MAX_ADDED_LEN);
    }
    if ((st = read_added_flags(&flags, v, err))) return st;
    known = sp_vocab_find(vocab, text, len);
    if ((st = known != SP_ID_NONE ? warn_of_id(vocab, text, id, known, err) : SP_OK)) return st;
    if (known != SP_ID_NONE) id = known;
    struct sp_vocab_token *token = &vocab->tokens[id];
    if (token->text != NULL && (token->len != len || memcmp(token->text, text, len) != 0)) {
        return sp_fail(err, SP_E_INPUT, "id %llu of \"%s\" is also the id of \"%s\"",
                       (unsigned long long)id, text, token->text);
    }
    if (!(token->flags & SP_TOKEN_ADDED)) vocab->added[vocab->n_added++] = (uint32_t)id;
    flags |= token->flags & SP_TOKEN_MODEL;
    *token = (struct sp_vocab_token){text, (uint32_t)len, flags};
    return SP_OK;
}

static enum sp_status read_added(struct sp_vocab *vocab, const struct sp_json *added,
                                 struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&vocab->added, sp_json_len(added), sizeof *vocab->added, err))) return st;
    for (size_t i = 0; i < sp_json_len(added); i++) {
        if ((st = read_added_token(vocab, sp_json_at(added, i), err))) {
            sp_context(err, "added_tokens[%zu]", i);
            return st;
        }
    }
    return SP_OK;
}

/* ---- added tokens of tokenizer_config.json ----------------------------------------------------
 */

/* A token of tokenizer_config.json. */
struct config_token {
    const struct sp_json *value; /* a text, or an object with "content" and flags */
    uint64_t id;                 /* of the file; SP_ID_NONE: it states none */
    bool named;                  /* by bos_token, eos_token, ... */
};

struct config_tokens {
    struct config_token *all;
    size_t n, cap;
    size_t max_ids; /* of the vocabulary with all of them */
};

static enum sp_status list_token(struct config_tokens *list, const struct sp_json *value,
                                 uint64_t id, bool named, struct sp_err *err)
{
    enum sp_status st;

    if (sp_json_kind(value) != SP_JSON_STRING && sp_json_kind(value) != SP_JSON_OBJECT)
        return SP_OK;
    if ((st = sp_grow(&list->all, &list->cap, list->n + 1, sizeof *list->all, err))) return st;
    list->all[list->n++] = (struct config_token){value, id, named};
    return SP_OK;
}

/* In the order in which transformers adds them: those with ids, those with names, and the others.
 */
static enum sp_status list_tokens(struct config_tokens *list, const struct sp_json *config,
                                  struct sp_err *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    const struct sp_json *decoder = sp_json_get(config, "added_tokens_decoder");
    bool splits = false;
    enum sp_status st = sp_json_get_bool(config, "split_special_tokens", &splits, err);

    if (!st && splits) {
        return sp_fail(
            err, SP_E_UNSUPPORTED,
            "tokenizer_config.json: split_special_tokens is true: no special token would "
            "be recognized in a prompt");
    }
    for (struct sp_json_iter it = {0}; !st && sp_json_next(decoder, &it);) {
        char *end;
        unsigned long long id = strtoull(it.key, &end, 10);
        if (*end || end == it.key || id >= SP_ID_NONE) {
            return sp_fail(err, SP_E_INPUT,
                           "tokenizer_config.json: added_tokens_decoder: \"%s\" is not a token ID",
                           it.key);
        }
        st = list_token(list, it.value, id, false, err);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !st; i++)
        st = list_token(list, sp_json_get(config, names[i]), SP_ID_NONE, true, err);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !st; i++) {
        const struct sp_json *value = sp_json_get(config, lists[i]);
        for (struct sp_json_iter it = {0}; !st && sp_json_next(value, &it);)
            st = list_token(list, it.value, SP_ID_NONE, true, err);
        for (size_t k = 0; sp_json_kind(value) == SP_JSON_ARRAY && k < sp_json_len(value) && !st;
             k++)
            st = list_token(list, sp_json_at(value, k), SP_ID_NONE, false, err);
    }
    return st;
}

static const char *text_of(const struct sp_json *token, size_t *len)
{
    if (sp_json_kind(token) == SP_JSON_OBJECT) token = sp_json_get(token, "content");
    return sp_json_to_string(token, len);
}

/* Whether one of the names stands for this text. */
static bool is_named(const struct config_tokens *list, const char *text, size_t len)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t other_len;
        const char *other = list->all[i].named ? text_of(list->all[i].value, &other_len) : NULL;
        if (other && other_len == len && memcmp(other, text, len) == 0) return true;
    }
    return false;
}

/* Room for ids up to n_ids - 1. */
static enum sp_status grow_ids(struct sp_vocab *vocab, size_t n_ids, struct sp_err *err)
{
    struct sp_vocab_token *tokens = NULL;
    double *scores = NULL;
    enum sp_status st;

    if (n_ids <= vocab->n_ids) return SP_OK;
    if ((st = sp_new(&tokens, n_ids, sizeof *tokens, err))) return st;
    if (vocab->scores && (st = sp_new(&scores, n_ids, sizeof *scores, err))) {
        free(tokens);
        return st;
    }
    if (vocab->n_ids) memcpy(tokens, vocab->tokens, vocab->n_ids * sizeof *tokens);
    if (scores) memcpy(scores, vocab->scores, vocab->n_ids * sizeof *scores);
    free(vocab->tokens);
    free(vocab->scores);
    vocab->tokens = tokens;
    vocab->scores = scores;
    vocab->n_ids = n_ids;
    return SP_OK;
}

/* The id of an added token of this text, or SP_ID_NONE. */
static uint32_t find_added(const struct sp_vocab *vocab, uint64_t likely, const char *text,
                           size_t len)
{
    if (likely < vocab->n_ids && is_text(&vocab->tokens[likely], text, len) &&
        vocab->tokens[likely].flags & SP_TOKEN_ADDED)
        return (uint32_t)likely;
    for (size_t i = 0; i < vocab->n_added; i++)
        if (is_text(&vocab->tokens[vocab->added[i]], text, len)) return vocab->added[i];
    return SP_ID_NONE;
}

/* The flags of an entry; a special token is sought before normalization unless the entry states
 * otherwise. */
static enum sp_status config_flags(uint8_t *flags, const struct config_token *token, bool special,
                                   struct sp_err *err)
{
    enum sp_status st;

    *flags = SP_TOKEN_ADDED;
    if (sp_json_kind(token->value) == SP_JSON_OBJECT &&
        (st = read_added_flags(flags, token->value, err)))
        return st;
    if (special) *flags |= SP_TOKEN_SPECIAL;
    if (!(*flags & SP_TOKEN_SPECIAL) && !sp_json_has(token->value, "normalized"))
        *flags |= SP_TOKEN_NORMALIZED;
    return SP_OK;
}

/* transformers gives a token whose id tokenizer.json has for another one the next free id. */
static enum sp_status warn_of_taken(struct sp_vocab *vocab, const char *text, uint32_t id,
                                    struct sp_err *err)
{
    char line[320];

    if (vocab->warning != NULL) return SP_OK;
    snprintf(line, sizeof line,
             "tokenizer_config.json gives \"%.100s\" id %u, which is that of \"%.100s\" in "
             "tokenizer.json; it gets the next free one, %zu",
             text, (unsigned)id, vocab->tokens[id].text, vocab->n_ids);
    return sp_copy_text(&vocab->warning, line, strlen(line), err);
}

/* An entry with an id has the last word on the flags of its token; others only add what is not
 * there, and leave a token of the model's vocabulary one. */
static enum sp_status add_config_token(struct sp_vocab *vocab, const struct config_tokens *list,
                                       const struct config_token *token, size_t *cap,
                                       struct sp_err *err)
{
    bool stated = token->id != SP_ID_NONE;
    size_t len;
    const char *text = text_of(token->value, &len);
    uint32_t added, id;
    uint8_t flags = 0;
    enum sp_status st;

    if (text == NULL || len == 0) return SP_OK;
    if (len > MAX_ADDED_LEN) {
        return sp_fail(err, SP_E_UNSUPPORTED, "content has %zu bytes, at most %d are supported",
                       len, MAX_ADDED_LEN);
    }
    added = find_added(vocab, token->id, text, len);
    id = added != SP_ID_NONE ? added : sp_vocab_find(vocab, text, len);
    if (id != SP_ID_NONE && !stated) return SP_OK;
    st = config_flags(&flags, token,
                      stated ? is_named(list, text, len)
                             : token->named || sp_json_kind(token->value) == SP_JSON_STRING,
                      err);
    if (st) return st;
    if (id == SP_ID_NONE) id = stated ? (uint32_t)token->id : (uint32_t)vocab->n_ids;
    if (id >= list->max_ids) {
        return sp_fail(err, SP_E_INPUT, "token ID %u is far beyond the %zu of the vocabulary",
                       (unsigned)id, vocab->n_ids);
    }
    if ((st = grow_ids(vocab, (size_t)id + 1, err))) return st;
    if (vocab->tokens[id].text && !is_text(&vocab->tokens[id], text, len)) {
        if ((st = warn_of_taken(vocab, text, id, err))) return st;
        id = (uint32_t)vocab->n_ids;
        if ((st = grow_ids(vocab, (size_t)id + 1, err))) return st;
    }
    if (added == SP_ID_NONE) {
        if ((st = sp_grow(&vocab->added, cap, vocab->n_added + 1, sizeof *vocab->added, err)))
            return st;
        vocab->added[vocab->n_added++] = id;
    }
    flags |= vocab->tokens[id].flags & (SP_TOKEN_MODEL | SP_TOKEN_SPECIAL);
    vocab->tokens[id] = (struct sp_vocab_token){text, (uint32_t)len, flags};
    return SP_OK;
}

/* Tokens that only tokenizer_config.json has, and its flags, as AutoTokenizer of transformers 5
 * reads them. Tokens without an id get the next free ones. */
static enum sp_status read_config_tokens(struct sp_vocab *vocab, struct sp_err *err)
{
    struct config_tokens list = {.max_ids = vocab->n_ids + ID_SLACK};
    size_t cap = vocab->n_added;
    enum sp_status st = list_tokens(&list, vocab->config, err);

    for (size_t i = 0; i < list.n && !st; i++) {
        st = add_config_token(vocab, &list, &list.all[i], &cap, err);
        if (st) sp_context(err, "tokenizer_config.json: added tokens");
    }
    free(list.all);
    return st;
}

/* ---- merges -----------------------------------------------------------------------------------
 */

struct part {
    const char *text;
    size_t len;
};

/* "a b", split at its single space, or ["a", "b"]. */
static bool split_merge(struct part part[2], const struct sp_json *v)
{
    size_t len;
    const char *text = sp_json_to_string(v, &len);

    if (text == NULL) {
        if (sp_json_kind(v) != SP_JSON_ARRAY || sp_json_len(v) != 2) return false;
        part[0].text = sp_json_to_string(sp_json_at(v, 0), &part[0].len);
        part[1].text = sp_json_to_string(sp_json_at(v, 1), &part[1].len);
        return part[0].text != NULL && part[1].text != NULL;
    }
    const char *space = memchr(text, ' ', len);
    if (space == NULL) return false;
    part[0] = (struct part){text, (size_t)(space - text)};
    part[1] = (struct part){space + 1, len - part[0].len - 1};
    return memchr(part[1].text, ' ', part[1].len) == NULL;
}

static enum sp_status read_merge(struct sp_vocab *vocab, const struct sp_json *v,
                                 struct sp_err *err)
{
    struct part part[2] = {{0}};
    struct sp_vocab_merge *merge = &vocab->merges[vocab->n_merges];
    char both[2 * MAX_TOKEN_LEN];

    if (!split_merge(part, v))
        return sp_fail(err, SP_E_INPUT, "expected two tokens, \"a b\" or [\"a\", \"b\"]");
    for (int i = 0; i < 2; i++) {
        uint32_t id = sp_vocab_find(vocab, part[i].text, part[i].len);
        if (id == SP_ID_NONE) {
            return sp_fail(err, SP_E_INPUT, "\"%.*s\" is not in the vocabulary",
                           part[i].len < 200 ? (int)part[i].len : 200, part[i].text);
        }
        *(i ? &merge->right : &merge->left) = id;
    }
    memcpy(both, part[0].text, part[0].len);
    memcpy(both + part[0].len, part[1].text, part[1].len);
    merge->merged = sp_vocab_find(vocab, both, part[0].len + part[1].len);
    if (merge->merged == SP_ID_NONE) {
        return sp_fail(err, SP_E_INPUT, "\"%.*s\" + \"%.*s\" is not in the vocabulary",
                       part[0].len < 200 ? (int)part[0].len : 200, part[0].text,
                       part[1].len < 200 ? (int)part[1].len : 200, part[1].text);
    }
    vocab->n_merges++;
    return SP_OK;
}

static enum sp_status read_merges(struct sp_vocab *vocab, const struct sp_json *merges,
                                  struct sp_err *err)
{
    size_t n = sp_json_len(merges);
    enum sp_status st;

    if (sp_json_kind(merges) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "model.merges: expected a list, found %s",
                       sp_json_kind_name(sp_json_kind(merges)));
    }
    if ((st = sp_new(&vocab->merges, n, sizeof *vocab->merges, err))) return st;
    for (size_t i = 0; i < n; i++) {
        const struct sp_json *v = sp_json_at(merges, i);
        size_t len;
        const char *line = sp_json_to_string(v, &len);
        if (line != NULL && strncmp(line, "#version", 8) == 0) continue;
        if ((st = read_merge(vocab, v, err))) {
            sp_context(err, "model.merges[%zu]", i);
            return st;
        }
    }
    return SP_OK;
}

/* ---- the model --------------------------------------------------------------------------------
 */

static enum sp_status refuse_affix(const struct sp_json *model, const char *key, struct sp_err *err)
{
    const char *affix = "";
    enum sp_status st;

    if ((st = sp_json_get_string(model, key, &affix, err))) return st;
    if (affix[0] == '\0') return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "model.%s \"%s\" is not supported", key, affix);
}

/* WordPiece is supported with the settings that BERT has. */
static enum sp_status check_wordpiece(const struct sp_json *model, struct sp_err *err)
{
    const char *prefix = SP_WORDPIECE_PREFIX;
    int64_t max = SP_WORDPIECE_MAX;
    enum sp_status st;

    if ((st = sp_json_get_string(model, "continuing_subword_prefix", &prefix, err))) return st;
    if ((st = sp_json_get_i64(model, "max_input_chars_per_word", 1, INT32_MAX, &max, err)))
        return st;
    if (strcmp(prefix, SP_WORDPIECE_PREFIX) != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "model.continuing_subword_prefix \"%s\" is not supported", prefix);
    }
    if (max != SP_WORDPIECE_MAX) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "model.max_input_chars_per_word %lld is not supported", (long long)max);
    }
    return SP_OK;
}

static enum sp_status read_model_settings(struct sp_vocab *vocab, const struct sp_json *model,
                                          struct sp_err *err)
{
    const char *type = "BPE";
    double dropout = 0;
    enum sp_status st;

    if (sp_json_kind(model) != SP_JSON_OBJECT) {
        return sp_fail(err, SP_E_INPUT, "model: expected an object, found %s",
                       sp_json_kind_name(sp_json_kind(model)));
    }
    if ((st = sp_json_get_string(model, "type", &type, err))) return st;
    if (strcmp(type, "Unigram") == 0) {
        vocab->model = SP_VOCAB_UNIGRAM;
        return sp_json_get_bool(model, "byte_fallback", &vocab->byte_fallback, err);
    }
    if (strcmp(type, "WordPiece") == 0) {
        vocab->model = SP_VOCAB_WORDPIECE;
        return check_wordpiece(model, err);
    }
    if (strcmp(type, "BPE") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "model type %s is not supported, only BPE, WordPiece and Unigram are", type);
    }
    if ((st = sp_json_get_double(model, "dropout", 0, 1, &dropout, err))) return st;
    if (dropout > 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "model.dropout %g is not supported", dropout);
    if ((st = refuse_affix(model, "continuing_subword_prefix", err))) return st;
    if ((st = refuse_affix(model, "end_of_word_suffix", err))) return st;
    if ((st = sp_json_get_bool(model, "byte_fallback", &vocab->byte_fallback, err))) return st;
    if ((st = sp_json_get_bool(model, "fuse_unk", &vocab->fuse_unk, err))) return st;
    return sp_json_get_bool(model, "ignore_merges", &vocab->ignore_merges, err);
}

/* BPE and WordPiece name the unknown token by its text, Unigram by its id. */
static enum sp_status read_unknown(struct sp_vocab *vocab, const struct sp_json *model,
                                   struct sp_err *err)
{
    uint64_t id;
    size_t len;
    const char *unk = sp_json_to_string(sp_json_get(model, "unk_token"), &len);

    vocab->unk = SP_ID_NONE;
    if (vocab->model == SP_VOCAB_UNIGRAM) {
        if (!sp_json_to_u64(sp_json_get(model, "unk_id"), &id) || id >= vocab->n_model) {
            return sp_fail(err, SP_E_INPUT,
                           "model.unk_id is not the id of a token, which Unigram needs");
        }
        vocab->unk = (uint32_t)id;
        return SP_OK;
    }
    if (unk) vocab->unk = sp_vocab_find(vocab, unk, len);
    if (unk && vocab->unk == SP_ID_NONE) vocab->missing_unk = unk;
    if (vocab->model == SP_VOCAB_WORDPIECE && unk == NULL)
        return sp_fail(err, SP_E_INPUT, "model.unk_token is missing, which WordPiece needs");
    return SP_OK;
}

static enum sp_status read_model(struct sp_vocab *vocab, const struct sp_json *model,
                                 const struct sp_json *added, struct sp_err *err)
{
    const struct sp_json *words = sp_json_get(model, "vocab");
    bool unigram;
    enum sp_status st;

    if ((st = read_model_settings(vocab, model, err))) return st;
    unigram = vocab->model == SP_VOCAB_UNIGRAM;
    if (sp_json_kind(words) != (unigram ? SP_JSON_ARRAY : SP_JSON_OBJECT)) {
        return sp_fail(err, SP_E_INPUT, "model.vocab: expected %s, found %s",
                       unigram ? "a list" : "an object", sp_json_kind_name(sp_json_kind(words)));
    }
    if ((st = size_tokens(vocab, words, added, err))) return st;
    st = unigram ? read_scored_words(vocab, words, err) : read_words(vocab, words, err);
    if (st) return st;
    if ((st = read_added(vocab, added, err))) return st;
    if ((st = read_config_tokens(vocab, err))) return st;
    if ((st = read_unknown(vocab, model, err))) return st;
    if (vocab->model != SP_VOCAB_BPE) return SP_OK;
    return read_merges(vocab, sp_json_get(model, "merges"), err);
}

/* ---- tokenizer_config.json --------------------------------------------------------------------
 */

/* Model entries first, as for added tokens. */
static uint32_t find_any(const struct sp_vocab *vocab, const char *text, size_t len)
{
    uint32_t id = sp_vocab_find(vocab, text, len);

    for (size_t i = 0; id == SP_ID_NONE && i < vocab->n_ids; i++)
        if (is_text(&vocab->tokens[i], text, len)) id = (uint32_t)i;
    return id;
}

/* A string, or an object with "content". */
static uint32_t config_id(const struct sp_vocab *vocab, const char *key)
{
    size_t len;
    const char *text = text_of(sp_json_get(vocab->config, key), &len);

    return text ? find_any(vocab, text, len) : SP_ID_NONE;
}

/* ---- the whole file ---------------------------------------------------------------------------
 */

static enum sp_status check_template(const uint32_t *ids, size_t n, const struct sp_vocab *vocab,
                                     struct sp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < vocab->n_ids && vocab->tokens[ids[i]].text != NULL) continue;
        return sp_fail(err, SP_E_INPUT, "post_processor: id %u names no token", ids[i]);
    }
    return SP_OK;
}

/* GPT2Tokenizer obeys its config's add_prefix_space, whatever tokenizer.json says. */
static enum sp_status set_prefix_space(struct sp_vocab *vocab, struct sp_err *err)
{
    static const struct sp_step space = {
        .kind = SP_STEP_PREFIX, .a = SP_PREFIX_UNLESS, .text = " ", .text_len = 1};
    const char *class = "";
    struct sp_steps *steps = &vocab->splitter;
    bool has = steps->n && steps->at[0].kind == SP_STEP_PREFIX, wanted = has;
    enum sp_status st;

    if ((st = sp_json_get_string(vocab->config, "tokenizer_class", &class, err)) ||
        strncmp(class, "GPT2Tokenizer", strlen("GPT2Tokenizer")) != 0 || steps->n == 0 ||
        steps->n == SP_MAX_STEPS || steps->at[steps->n - 1].kind != SP_STEP_BYTE_LEVEL ||
        (st = sp_json_get_bool(vocab->config, "add_prefix_space", &wanted, err)) || wanted == has)
        return st;
    if (has) {
        memmove(steps->at, steps->at + 1, --steps->n * sizeof *steps->at);
        return SP_OK;
    }
    memmove(steps->at + 1, steps->at, steps->n++ * sizeof *steps->at);
    steps->at[0] = space;
    return SP_OK;
}

static enum sp_status read_chains(struct sp_vocab *vocab, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_vocab_read_steps(vocab, err))) return st;
    if ((st = set_prefix_space(vocab, err))) return st;
    if ((st = check_template(vocab->prefix, vocab->n_prefix, vocab, err))) return st;
    return check_template(vocab->suffix, vocab->n_suffix, vocab, err);
}

enum sp_status sp_vocab_open(struct sp_vocab **out, const struct sp_text *json,
                             const struct sp_text *config, struct sp_err *err)
{
    struct sp_vocab *vocab = NULL;
    const struct sp_json *added;
    enum sp_status st;

    if ((st = sp_new(&vocab, 1, sizeof *vocab, err))) return st;
    if ((st = sp_json_parse(&vocab->json, json->at, json->size, SP_JSON_LENIENT, err))) goto done;
    added = sp_json_get(vocab->json, "added_tokens");
    if (added != NULL && sp_json_kind(added) != SP_JSON_ARRAY) {
        st = sp_fail(err, SP_E_INPUT, "added_tokens: expected a list, found %s",
                     sp_json_kind_name(sp_json_kind(added)));
        goto done;
    }
    if (config->at &&
        (st = sp_json_parse(&vocab->config, config->at, config->size, SP_JSON_LENIENT, err))) {
        sp_context(err, "tokenizer_config.json");
        goto done;
    }
    if ((st = read_model(vocab, sp_json_get(vocab->json, "model"), added, err))) goto done;
    if ((st = read_chains(vocab, err))) goto done;
    vocab->bos = config_id(vocab, "bos_token");
    vocab->eos = config_id(vocab, "eos_token");
    *out = vocab;
    vocab = NULL;
done:
    sp_vocab_close(vocab);
    return st;
}

void sp_vocab_close(struct sp_vocab *vocab)
{
    if (vocab == NULL) return;
    sp_json_free(vocab->json);
    sp_json_free(vocab->config);
    free(vocab->tokens);
    free(vocab->added);
    free(vocab->words);
    free(vocab->merges);
    free(vocab->scores);
    free(vocab->prefix);
    free(vocab->suffix);
    free(vocab->warning);
    free(vocab);
}
