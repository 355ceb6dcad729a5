#include "format/tokenizer/vocab_reading.h"

#include "format/tokenizer/tokmap.h"
#include "format/tokenizer/word_hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_TOKEN_LEN = 65535, /* longest seen: 256 */
    ID_SLACK = 1 << 20,    /* ids that need not be backed by entries */
};

/* ---- the model's vocabulary ---- */

/* The slot of a text, or the free one that ends its chain; n_words if the chain is too long. */
static size_t find_slot(const struct sp_vocab *vocab, const char *text, size_t len)
{
    size_t slot = sp_hash_slot(sp_word_hash(text, len), vocab->n_words);

    for (unsigned probes = 0; probes < SP_MAX_PROBES; probes++) {
        uint32_t word = vocab->words[slot];
        if (word == 0 || sp_token_is(&vocab->tokens[word - 1], text, len)) return slot;
        if (++slot == vocab->n_words) slot = 0;
    }
    return vocab->n_words;
}

uint32_t sp_vocab_find(const struct sp_vocab *vocab, const char *text, size_t len)
{
    size_t slot = find_slot(vocab, text, len);

    return slot < vocab->n_words && vocab->words[slot] ? vocab->words[slot] - 1 : SP_ID_NONE;
}

bool sp_vocab_make_room(struct sp_vocab_reading *r, uint64_t id)
{
    struct sp_vocab *vocab = r->vocab;
    size_t old = vocab->n_ids, n = (size_t)id + 1;

    if (id < old) return true;
    if (id >= r->n_entries * 8 + ID_SLACK) {
        SP_VOCAB_INVALID(r, "token ID %llu is far beyond the %zu entries of the vocabulary",
                         (unsigned long long)id, r->n_entries);
        return false;
    }
    if (sp_grow(&vocab->tokens, &r->cap_tokens, n, sizeof *vocab->tokens, r->err)) return false;
    memset(vocab->tokens + old, 0, (n - old) * sizeof *vocab->tokens);
    if (vocab->model == SP_VOCAB_UNIGRAM) {
        if (sp_grow(&vocab->scores, &r->cap_scores, n, sizeof *vocab->scores, r->err)) return false;
        memset(vocab->scores + old, 0, (n - old) * sizeof *vocab->scores);
    }
    vocab->n_ids = n;
    return true;
}

/* Of equal texts the last one is found, as by readers that make a table of the list. */
static void add_word(struct sp_vocab_reading *r, uint64_t id, const char *text, size_t len)
{
    struct sp_vocab *vocab = r->vocab;
    size_t max = vocab->model == SP_VOCAB_UNIGRAM ? SP_UNIGRAM_MAX : MAX_TOKEN_LEN;
    size_t slot = find_slot(vocab, text, len);

    if (slot == vocab->n_words)
        SP_VOCAB_INVALID(r, "model.vocab: too many entries collide with \"%s\"", text);
    if (len > max) {
        SP_VOCAB_REFUSED(r, "model.vocab: the token of id %llu has %zu bytes, expected at most %zu",
                         (unsigned long long)id, len, max);
    }
    if (!sp_vocab_make_room(r, id)) return;
    if (vocab->tokens[id].text != NULL) {
        SP_VOCAB_INVALID(r, "model.vocab: \"%s\" and \"%s\" have the same id %llu",
                         vocab->tokens[id].text, text, (unsigned long long)id);
    }
    if (sp_vocab_failed(r)) return;
    vocab->tokens[id] = (struct sp_vocab_token){text, (uint32_t)len, SP_TOKEN_MODEL};
    vocab->words[slot] = (uint32_t)id + 1;
    vocab->n_model++;
}

static void read_words(struct sp_vocab_reading *r, const struct sp_json *words)
{
    for (struct sp_json_iter it = {0}; !sp_vocab_failed(r) && sp_json_next(words, &it);) {
        uint64_t id;
        if (sp_json_to_u64(it.value, &id))
            add_word(r, id, it.key, strlen(it.key));
        else
            SP_VOCAB_INVALID(r, "model.vocab: the id of \"%s\" is not a number", it.key);
    }
}

/* Unigram: a list of [text, score], whose index is the id. */
static void read_scored_words(struct sp_vocab_reading *r, const struct sp_json *words)
{
    for (size_t id = 0; id < sp_json_len(words) && !sp_vocab_failed(r); id++) {
        const struct sp_json *entry = sp_json_at(words, id);
        size_t len;
        double score;
        const char *text = sp_json_to_string(sp_json_at(entry, 0), &len);
        if (text == NULL || !sp_json_to_double(sp_json_at(entry, 1), &score)) {
            SP_VOCAB_INVALID(r, "model.vocab[%zu]: expected a token and its score", id);
            return;
        }
        if (sp_vocab_find(r->vocab, text, len) != SP_ID_NONE)
            SP_VOCAB_REFUSED(r, "model.vocab[%zu]: \"%s\" is there twice", id, text);
        add_word(r, id, text, len);
        if (!sp_vocab_failed(r)) r->vocab->scores[id] = score;
    }
}

/* ---- merges ---- */

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

static void read_merge(struct sp_vocab_reading *r, const struct sp_json *v)
{
    struct sp_vocab *vocab = r->vocab;
    struct part part[2] = {{0}};
    struct sp_vocab_merge *merge = &vocab->merges[vocab->n_merges];
    char both[2 * MAX_TOKEN_LEN];

    if (!split_merge(part, v)) {
        SP_VOCAB_INVALID(r, "expected two tokens, \"a b\" or [\"a\", \"b\"]");
        return;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t id = sp_vocab_find(vocab, part[i].text, part[i].len);
        if (id == SP_ID_NONE) {
            SP_VOCAB_INVALID(r, "\"%.*s\" is not in the vocabulary",
                             part[i].len < 200 ? (int)part[i].len : 200, part[i].text);
            return;
        }
        *(i ? &merge->right : &merge->left) = id;
    }
    memcpy(both, part[0].text, part[0].len);
    memcpy(both + part[0].len, part[1].text, part[1].len);
    merge->merged = sp_vocab_find(vocab, both, part[0].len + part[1].len);
    if (merge->merged == SP_ID_NONE) {
        SP_VOCAB_INVALID(r, "\"%.*s\" + \"%.*s\" is not in the vocabulary",
                         part[0].len < 200 ? (int)part[0].len : 200, part[0].text,
                         part[1].len < 200 ? (int)part[1].len : 200, part[1].text);
    }
    vocab->n_merges++;
}

static void read_merges(struct sp_vocab_reading *r, const struct sp_json *merges)
{
    struct sp_vocab *vocab = r->vocab;
    size_t n = sp_json_len(merges);

    if (sp_json_kind(merges) != SP_JSON_ARRAY) {
        SP_VOCAB_INVALID(r, "model.merges: expected a list, found %s",
                         sp_json_kind_name(sp_json_kind(merges)));
        return;
    }
    if (sp_new(&vocab->merges, n, sizeof *vocab->merges, r->err)) return;
    for (size_t i = 0; i < n && !sp_vocab_failed(r); i++) {
        const struct sp_json *v = sp_json_at(merges, i);
        const char *line = sp_json_to_string(v, NULL);
        if (line != NULL && strncmp(line, "#version", 8) == 0) continue;
        read_merge(r, v);
        sp_context(r->err, "model.merges[%zu]", i);
    }
}

/* ---- the model ---- */

/* A member that changes what the model does and is supported with one text only. */
static void need_text(struct sp_vocab_reading *r, const struct sp_json *model, const char *key,
                      const char *supported)
{
    const char *text = supported;

    if (!sp_json_get_string(model, key, &text, r->err) && strcmp(text, supported) != 0)
        SP_VOCAB_REFUSED(r, "model.%s \"%s\" is not supported", key, text);
}

/* WordPiece is supported with the settings that BERT has. */
static void check_wordpiece(struct sp_vocab_reading *r, const struct sp_json *model)
{
    int64_t max = SP_WORDPIECE_MAX;

    need_text(r, model, "continuing_subword_prefix", SP_WORDPIECE_PREFIX);
    if (!sp_json_get_i64(model, "max_input_chars_per_word", 1, INT32_MAX, &max, r->err) &&
        max != SP_WORDPIECE_MAX)
        SP_VOCAB_REFUSED(r, "model.max_input_chars_per_word %lld is not supported", (long long)max);
}

static void check_bpe(struct sp_vocab_reading *r, const struct sp_json *model)
{
    double dropout = 0;

    if (!sp_json_get_double(model, "dropout", 0, 1, &dropout, r->err) && dropout > 0)
        SP_VOCAB_REFUSED(r, "model.dropout %g is not supported", dropout);
    need_text(r, model, "continuing_subword_prefix", "");
    need_text(r, model, "end_of_word_suffix", "");
}

static void read_model_settings(struct sp_vocab_reading *r, const struct sp_json *model)
{
    struct sp_vocab *vocab = r->vocab;
    const char *type = "BPE";

    if (sp_json_kind(model) != SP_JSON_OBJECT) {
        SP_VOCAB_INVALID(r, "model: expected an object, found %s",
                         sp_json_kind_name(sp_json_kind(model)));
    }
    (void)!sp_json_get_string(model, "type", &type, r->err);
    if (strcmp(type, "WordPiece") == 0) {
        vocab->model = SP_VOCAB_WORDPIECE;
        check_wordpiece(r, model);
        return;
    }
    (void)!sp_json_get_bool(model, "byte_fallback", &vocab->byte_fallback, r->err);
    if (strcmp(type, "Unigram") == 0) {
        vocab->model = SP_VOCAB_UNIGRAM;
        return;
    }
    if (strcmp(type, "BPE") != 0) {
        SP_VOCAB_REFUSED(r, "model type %s is not supported, only BPE, WordPiece and Unigram are",
                         type);
    }
    check_bpe(r, model);
    (void)!sp_json_get_bool(model, "fuse_unk", &vocab->fuse_unk, r->err);
    (void)!sp_json_get_bool(model, "ignore_merges", &vocab->ignore_merges, r->err);
}

/* BPE and WordPiece name the unknown token by its text, Unigram by its id. */
static void read_unknown(struct sp_vocab_reading *r, const struct sp_json *model)
{
    struct sp_vocab *vocab = r->vocab;
    uint64_t id;
    size_t len;
    const char *unk = sp_json_to_string(sp_json_get(model, "unk_token"), &len);

    vocab->unk = SP_ID_NONE;
    if (vocab->model == SP_VOCAB_UNIGRAM) {
        if (sp_json_to_u64(sp_json_get(model, "unk_id"), &id) && id < vocab->n_model)
            vocab->unk = (uint32_t)id;
        else
            SP_VOCAB_INVALID(r, "model.unk_id is not the id of a token, which Unigram needs");
        return;
    }
    if (unk) vocab->unk = sp_vocab_find(vocab, unk, len);
    if (unk && vocab->unk == SP_ID_NONE) vocab->missing_unk = unk;
    if (vocab->model == SP_VOCAB_WORDPIECE && unk == NULL)
        SP_VOCAB_INVALID(r, "model.unk_token is missing, which WordPiece needs");
}

static void read_model(struct sp_vocab_reading *r)
{
    struct sp_vocab *vocab = r->vocab;
    const struct sp_json *model = sp_json_get(vocab->json, "model");
    const struct sp_json *words = sp_json_get(model, "vocab");
    const struct sp_json *added = sp_json_get(vocab->json, "added_tokens");
    bool unigram;

    if (added != NULL && sp_json_kind(added) != SP_JSON_ARRAY) {
        SP_VOCAB_INVALID(r, "added_tokens: expected a list, found %s",
                         sp_json_kind_name(sp_json_kind(added)));
    }
    read_model_settings(r, model);
    unigram = vocab->model == SP_VOCAB_UNIGRAM;
    if (sp_json_kind(words) != (unigram ? SP_JSON_ARRAY : SP_JSON_OBJECT)) {
        SP_VOCAB_INVALID(r, "model.vocab: expected %s, found %s", unigram ? "a list" : "an object",
                         sp_json_kind_name(sp_json_kind(words)));
    }
    r->n_entries = sp_json_len(words) + sp_json_len(added);
    vocab->n_words = sp_json_len(words) * 2 + 1;
    if (sp_vocab_failed(r) || sp_new(&vocab->words, vocab->n_words, sizeof *vocab->words, r->err))
        return;
    if (unigram)
        read_scored_words(r, words);
    else
        read_words(r, words);
    sp_vocab_read_added(r);
    read_unknown(r, model);
    if (vocab->model == SP_VOCAB_BPE) read_merges(r, sp_json_get(model, "merges"));
}

/* ---- the whole file ---- */

/* GPT2Tokenizer obeys its config's add_prefix_space, whatever tokenizer.json says. */
static void set_prefix_space(struct sp_vocab_reading *r)
{
    static const struct sp_step space = {
        .kind = SP_STEP_PREFIX, .a = SP_PREFIX_UNLESS, .text = " ", .text_len = 1};
    const char *class = "";
    const struct sp_json *config = r->vocab->config;
    struct sp_steps *steps = &r->vocab->splitter;
    bool has = steps->n && steps->at[0].kind == SP_STEP_PREFIX, wanted = has;

    if (sp_json_get_string(config, "tokenizer_class", &class, r->err) ||
        strncmp(class, "GPT2Tokenizer", strlen("GPT2Tokenizer")) != 0 || steps->n == 0 ||
        steps->n == SP_MAX_STEPS || steps->at[steps->n - 1].kind != SP_STEP_BYTE_LEVEL ||
        sp_json_get_bool(config, "add_prefix_space", &wanted, r->err) || wanted == has)
        return;
    if (has) {
        memmove(steps->at, steps->at + 1, --steps->n * sizeof *steps->at);
        return;
    }
    memmove(steps->at + 1, steps->at, steps->n++ * sizeof *steps->at);
    steps->at[0] = space;
}

enum sp_status sp_vocab_open(struct sp_vocab **out, const struct sp_text *json,
                             const struct sp_text *config, struct sp_err *err)
{
    struct sp_err failure = {0};
    struct sp_vocab_reading r = {.err = &failure};

    if (!sp_new(&r.vocab, 1, sizeof *r.vocab, &failure) &&
        !sp_json_parse(&r.vocab->json, json->at, json->size, SP_JSON_LENIENT, &failure)) {
        if (config->at &&
            sp_json_parse(&r.vocab->config, config->at, config->size, SP_JSON_LENIENT, &failure))
            sp_context(&failure, "tokenizer_config.json");
        read_model(&r);
        sp_vocab_read_steps(&r);
        set_prefix_space(&r);
    }
    if (!sp_vocab_failed(&r)) {
        *out = r.vocab;
        return SP_OK;
    }
    sp_vocab_close(r.vocab);
    return sp_fail_as(err, &failure);
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
