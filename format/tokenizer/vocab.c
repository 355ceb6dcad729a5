#include "format/tokenizer/vocab.h"

#include "format/base/mem.h"
#include "format/tokenizer/tokmap.h"
#include "format/tokenizer/vocab_steps.h"
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

static enum sp_status insert_word(struct sp_vocab *vocab, uint32_t id, struct sp_err *err)
{
    const struct sp_vocab_token *token = &vocab->tokens[id];
    size_t slot = sp_hash_slot(sp_word_hash(token->text, token->len), vocab->n_words);

    for (size_t probes = 0; vocab->words[slot]; slot = slot + 1 == vocab->n_words ? 0 : slot + 1) {
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
        const struct sp_vocab_token *token = &vocab->tokens[id];
        if (token->len == len && memcmp(token->text, text, len) == 0) return id;
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

    if ((st = sp_json_get_string(model, "continuing_subword_prefix", &prefix, err)) ||
        (st = sp_json_get_i64(model, "max_input_chars_per_word", 1, INT32_MAX, &max, err)))
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

    for (size_t i = 0; id == SP_ID_NONE && i < vocab->n_ids; i++) {
        const struct sp_vocab_token *token = &vocab->tokens[i];
        if (token->text != NULL && token->len == len && memcmp(token->text, text, len) == 0)
            id = (uint32_t)i;
    }
    return id;
}

/* A string, or an object with "content". */
static uint32_t config_token(const struct sp_vocab *vocab, const char *key)
{
    const struct sp_json *v = sp_json_get(vocab->config, key);
    size_t len;
    const char *text;

    if (sp_json_kind(v) == SP_JSON_OBJECT) v = sp_json_get(v, "content");
    text = sp_json_to_string(v, &len);
    return text ? find_any(vocab, text, len) : SP_ID_NONE;
}

static enum sp_status read_config(struct sp_vocab *vocab, const char *config, size_t size,
                                  struct sp_err *err)
{
    enum sp_status st;

    if (config != NULL) {
        if ((st = sp_json_parse(&vocab->config, config, size, SP_JSON_LENIENT, err))) {
            sp_context(err, "tokenizer_config.json");
            return st;
        }
    }
    vocab->bos = config_token(vocab, "bos_token");
    vocab->eos = config_token(vocab, "eos_token");
    return SP_OK;
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

static enum sp_status read_chains(struct sp_vocab *vocab, struct sp_err *err)
{
    const struct sp_json *root = vocab->json;
    enum sp_status st;

    st = sp_steps_read_normalizer(&vocab->normalizer, sp_json_get(root, "normalizer"), err);
    if (st) return st;
    st = sp_steps_add_han(&vocab->splitter, sp_json_get(root, "normalizer"), err);
    if (st) return st;
    st = sp_steps_read_splitter(&vocab->splitter, sp_json_get(root, "pre_tokenizer"), err);
    if (st) return st;
    if ((st = sp_steps_read_decoder(&vocab->decoder, sp_json_get(root, "decoder"), err))) return st;
    if ((st = sp_vocab_read_template(vocab, sp_json_get(root, "post_processor"), err))) return st;
    if ((st = check_template(vocab->prefix, vocab->n_prefix, vocab, err))) return st;
    return check_template(vocab->suffix, vocab->n_suffix, vocab, err);
}

enum sp_status sp_vocab_open(struct sp_vocab **out, const char *json, size_t size,
                             const char *config, size_t config_size, struct sp_err *err)
{
    struct sp_vocab *vocab = NULL;
    const struct sp_json *added;
    enum sp_status st;

    if ((st = sp_new(&vocab, 1, sizeof *vocab, err))) return st;
    if ((st = sp_json_parse(&vocab->json, json, size, SP_JSON_LENIENT, err))) goto done;
    added = sp_json_get(vocab->json, "added_tokens");
    if (added != NULL && sp_json_kind(added) != SP_JSON_ARRAY) {
        st = sp_fail(err, SP_E_INPUT, "added_tokens: expected a list, found %s",
                     sp_json_kind_name(sp_json_kind(added)));
        goto done;
    }
    if ((st = read_model(vocab, sp_json_get(vocab->json, "model"), added, err))) goto done;
    if ((st = read_chains(vocab, err))) goto done;
    if ((st = read_config(vocab, config, config_size, err))) goto done;
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
