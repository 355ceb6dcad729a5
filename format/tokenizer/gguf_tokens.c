/* Vocabularies of GGUF files, and the merges of those that have only scores. */
#include "format/tokenizer/gguf_tokens.h"

#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"
#include "format/json/json_write.h"
#include "format/tokenizer/word_hash.h"

#include <math.h>

enum {
    MAX_TOKENS = 1 << 24,
    MAX_PIECE = 1024, /* bytes of a SentencePiece token: its divisions are tried one by one */
    UNDERLINE_SIZE = 3,
};

static const char underline[] = "\xe2\x96\x81"; /* U+2581, a space in SentencePiece */

/* ---- special tokens ---- */

/* Ids beyond any number of tokens are allowed where the file lists no tokens. */
static uint64_t count_tokens(const struct sp_gguf *file)
{
    const struct sp_gguf_value *list = sp_gguf_find(file, "tokenizer.ggml.tokens");

    return list ? list->n : (uint64_t)INT32_MAX + 1;
}

enum sp_status sp_gguf_token_id(uint64_t *id, const struct sp_gguf *file, const char *key,
                                struct sp_err *err)
{
    static const char *const defaults[] = {"tokenizer.ggml.bos_token_id",
                                           "tokenizer.ggml.eos_token_id"};
    double number = -1;
    const char *model = "";
    size_t len = 0;
    uint64_t n = count_tokens(file);
    enum sp_status st;

    if ((st = sp_gguf_get_float(file, key, &number, err))) return st;
    if ((st = sp_gguf_get_text(file, "tokenizer.ggml.model", &model, &len, err))) return st;
    for (unsigned i = 0; !(number >= 0 && number < (double)n) && i < 2; i++)
        if (sp_is_word(model, len, "llama") && strcmp(key, defaults[i]) == 0) number = 1 + i;
    if (number >= 0 && number < (double)n) *id = (uint64_t)number;
    return SP_OK;
}

/* Keys that are read, or that concern neither ids nor texts. */
static bool is_known(const char *name)
{
    static const char known[] =
        "model pre tokens token_type token_type_count scores merges add_bos_token add_eos_token "
        "add_sep_token add_space_prefix add_padding_token add_unknown_token add_mask_token "
        "normalizer.lowercase normalizer.strip_accents precompiled_charsmap "
        "remove_extra_whitespaces";

    return sp_is_among(name, known);
}

enum sp_status sp_gguf_note_tokens(const struct sp_gguf *file, char **warnings, struct sp_err *err)
{
    static const char begin[] = "tokenizer.ggml.";
    size_t n;
    const struct sp_gguf_value *values = sp_gguf_values(file, &n);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i++) {
        const char *key = values[i].key;
        double number = 0;
        if (!sp_begins_with(key, begin) || is_known(key + strlen(begin))) continue;
        if (!sp_ends_with(key, "_token_id")) {
            st = sp_warn(warnings, err, "%s: %.100s is ignored", sp_gguf_path(file), key);
            continue;
        }
        if ((st = sp_gguf_get_float(file, key, &number, err))) return st;
        if (number >= 0 && number < (double)count_tokens(file)) continue;
        st = sp_warn(warnings, err, "%s: %s is %.0f, but there are %llu tokens: it is ignored",
                     sp_gguf_path(file), key, number, (unsigned long long)count_tokens(file));
    }
    return st;
}

/* ---- writing ---- */

enum sp_status sp_gguf_token_list_add(struct sp_gguf_token_list *list, const char *text, size_t len,
                                      float score, uint32_t type, struct sp_err *err)
{
    uint8_t size[8], score_bytes[4], type_bytes[4];
    enum sp_status st;

    sp_put64(size, len);
    sp_put32(score_bytes, sp_bits_of_float(score));
    sp_put32(type_bytes, type);
    if ((st = sp_strbuf_append(&list->texts, (const char *)size, sizeof size, err))) return st;
    if ((st = sp_strbuf_append(&list->texts, text, len, err))) return st;
    st = sp_strbuf_append(&list->scores, (const char *)score_bytes, sizeof score_bytes, err);
    if (!st) st = sp_strbuf_append(&list->types, (const char *)type_bytes, sizeof type_bytes, err);
    list->n++;
    return st;
}

void sp_gguf_token_list_release(struct sp_gguf_token_list *list)
{
    sp_strbuf_release(&list->texts);
    sp_strbuf_release(&list->scores);
    sp_strbuf_release(&list->types);
}

/* ---- reading ---- */

static enum sp_status read_types(struct sp_gguf_tokens *t, const struct sp_gguf *file, bool scored,
                                 struct sp_err *err)
{
    const struct sp_gguf_value *types, *scores;
    enum sp_status st = sp_gguf_get_numbers(file, "tokenizer.ggml.token_type", true, &types, err);

    if (!st) st = sp_gguf_get_numbers(file, "tokenizer.ggml.scores", false, &scores, err);
    if (st) return st;
    if (types && types->n != t->n) {
        return sp_fail(err, SP_E_INPUT,
                       "tokenizer.ggml.token_type does not have one number for each of %u tokens",
                       (unsigned)t->n);
    }
    if (scored && (scores == NULL || scores->n != t->n)) {
        return sp_fail(
            err, SP_E_INPUT,
            "tokenizer.ggml.scores is missing or does not have one number for each of %u "
            "tokens",
            (unsigned)t->n);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t type = types ? sp_gguf_integer_at(types, i) : SP_GGUF_TOKEN_NORMAL;
        if (type < SP_GGUF_TOKEN_NORMAL || type > SP_GGUF_TOKEN_BYTE) {
            return sp_fail(err, SP_E_INPUT, "tokenizer.ggml.token_type[%u] is %lld, expected 1..6",
                           (unsigned)i, (long long)type);
        }
        t->all[i].type = (enum sp_gguf_token_type)type;
        if (!scored) continue;
        t->all[i].score = (float)sp_gguf_number_at(scores, i);
        if (isnan(t->all[i].score))
            return sp_fail(err, SP_E_INPUT, "tokenizer.ggml.scores[%u] is not a number",
                           (unsigned)i);
    }
    return SP_OK;
}

/* The converter writes U+2581 in pieces as it is, but in user-defined ones as spaces. */
static enum sp_status restore_underlines(struct sp_gguf_tokens *t, struct sp_err *err)
{
    size_t size = 0, used = 0;
    enum sp_status st;

    for (uint32_t i = 0; i < t->n; i++)
        if (memchr(t->all[i].text, ' ', t->all[i].len))
            size += (size_t)UNDERLINE_SIZE * t->all[i].len;
    if (size == 0) return SP_OK;
    if ((st = sp_new(&t->own, size, 1, err))) return st;
    for (uint32_t i = 0; i < t->n; i++) {
        const char *from = t->all[i].text;
        char *to = t->own + used;
        size_t len = 0;
        if (memchr(from, ' ', t->all[i].len) == NULL) continue;
        for (uint32_t k = 0; k < t->all[i].len; k++) {
            bool space = from[k] == ' ';
            memcpy(to + len, space ? underline : from + k, space ? UNDERLINE_SIZE : 1);
            len += space ? UNDERLINE_SIZE : 1;
        }
        t->all[i].text = to;
        t->all[i].len = (uint32_t)len;
        used += len;
    }
    return SP_OK;
}

static enum sp_status read_texts(struct sp_gguf_tokens *t, const struct sp_gguf_value *list,
                                 bool pieces, struct sp_err *err)
{
    const uint8_t *at = list->at;
    size_t most = pieces ? MAX_PIECE : UINT32_MAX / UNDERLINE_SIZE;

    for (uint32_t i = 0; i < t->n; i++) {
        size_t len;
        const char *text = sp_gguf_next_string(&at, &len);
        if (sp_utf8_valid(text, len) != len || memchr(text, 0, len)) {
            return sp_fail(err, SP_E_INPUT, "tokenizer.ggml.tokens[%u] is not UTF-8 text",
                           (unsigned)i);
        }
        if (len > most) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "tokenizer.ggml.tokens[%u] has %zu bytes, at most %zu are supported",
                           (unsigned)i, len, most);
        }
        t->all[i].text = text;
        t->all[i].len = (uint32_t)len;
    }
    return pieces ? restore_underlines(t, err) : SP_OK;
}

enum sp_status sp_gguf_tokens_read(struct sp_gguf_tokens *out, const struct sp_gguf *file,
                                   bool pieces, bool scored, struct sp_err *err)
{
    struct sp_gguf_tokens t = {0};
    const struct sp_gguf_value *list;
    enum sp_status st;

    *out = t;
    st = sp_gguf_get_array(file, "tokenizer.ggml.tokens", SP_GGUF_STRING, &list, err);
    if (st || list == NULL || list->n == 0) return st;
    if (list->n > MAX_TOKENS) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tokenizer.ggml.tokens has %llu tokens, at most %d are supported",
                       (unsigned long long)list->n, MAX_TOKENS);
    }
    if ((st = sp_new(&t.all, (size_t)list->n, sizeof *t.all, err))) return st;
    t.n = (uint32_t)list->n;
    if ((st = read_texts(&t, list, pieces, err)) || (st = read_types(&t, file, scored, err))) {
        sp_gguf_tokens_release(&t);
        return st;
    }
    *out = t;
    return SP_OK;
}

enum sp_status sp_gguf_tokens_restore_words(struct sp_gguf_tokens *t, struct sp_err *err)
{
    static const char sign[] = "##";
    const size_t n_sign = sizeof sign - 1;
    size_t size = 1;
    char *to;
    enum sp_status st;

    for (uint32_t i = 0; i < t->n; i++)
        size += t->all[i].len + n_sign;
    if ((st = sp_new(&t->own, size, 1, err))) return st;
    to = t->own;
    for (uint32_t i = 0; i < t->n; i++) {
        struct sp_gguf_token *token = &t->all[i];
        if (token->type == SP_GGUF_TOKEN_CONTROL || token->type == SP_GGUF_TOKEN_UNKNOWN) continue;
        if (token->len > UNDERLINE_SIZE && memcmp(token->text, underline, UNDERLINE_SIZE) == 0) {
            token->text += UNDERLINE_SIZE;
            token->len -= UNDERLINE_SIZE;
            continue;
        }
        memcpy(to, sign, n_sign);
        memcpy(to + n_sign, token->text, token->len);
        token->text = to;
        token->len += (uint32_t)n_sign;
        to += token->len;
    }
    return SP_OK;
}

void sp_gguf_tokens_release(struct sp_gguf_tokens *tokens)
{
    free(tokens->all);
    free(tokens->own);
    free(tokens->slots);
    *tokens = (struct sp_gguf_tokens){0};
}

void sp_gguf_tokens_put_vocab(struct sp_json_out *out, const struct sp_gguf_tokens *tokens,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sp_json_out_raw(out, i ? "," : "");
        sp_json_out_quoted(out, tokens->all[i].text, tokens->all[i].len);
        sp_json_out_print(out, ":%u", (unsigned)i);
    }
}

/* ---- merges ---- */

/* The slot of a text, or the free one that ends its chain; n_slots if the chain is too long. */
static size_t find_slot(const struct sp_gguf_tokens *t, const char *text, size_t len)
{
    size_t slot = sp_hash_slot(sp_word_hash(text, len), t->n_slots);

    for (unsigned probes = 0; probes < SP_MAX_PROBES; probes++) {
        const struct sp_gguf_token *token = t->slots[slot] ? &t->all[t->slots[slot] - 1] : NULL;
        if (token == NULL || (token->len == len && memcmp(token->text, text, len) == 0))
            return slot;
        if (++slot == t->n_slots) slot = 0;
    }
    return t->n_slots;
}

static enum sp_status index_tokens(struct sp_gguf_tokens *t, struct sp_err *err)
{
    enum sp_status st;

    t->n_slots = 2 * (size_t)t->n + 1;
    if ((st = sp_new(&t->slots, t->n_slots, sizeof *t->slots, err))) return st;
    for (uint32_t i = 0; i < t->n; i++) {
        size_t slot = find_slot(t, t->all[i].text, t->all[i].len);
        if (slot == t->n_slots)
            return sp_fail(err, SP_E_UNSUPPORTED, "tokenizer.ggml.tokens has too many collisions");
        if (t->unique && t->slots[slot] && t->all[t->slots[slot] - 1].type == t->all[i].type)
            return sp_fail(err, SP_E_INPUT, "tokens %u and %u are equal", t->slots[slot] - 1, i);
        t->slots[slot] = i + 1; /* of equal tokens the last one, as in llama.cpp */
    }
    return SP_OK;
}

struct merge {
    uint32_t token, left, right, at; /* `token` divided after byte `at` */
    float score;
};

/* Best score first; divisions of equal score by token, and of one token by their parts. */
static int compare_merges(const void *a, const void *b)
{
    const struct merge *x = a, *y = b;

    if (x->score > y->score) return -1;
    if (x->score < y->score) return 1;
    if (x->token != y->token) return x->token < y->token ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

static bool find_token(uint32_t *id, const struct sp_gguf_tokens *t, const char *text, size_t len)
{
    size_t slot = find_slot(t, text, len);

    if (slot == t->n_slots || t->slots[slot] == 0) return false;
    *id = t->slots[slot] - 1;
    return true;
}

struct merges {
    struct merge *all;
    size_t n, cap;
};

/* Merges do not produce control tokens: a text that looks like one does not become one. */
static enum sp_status divide(struct merges *out, const struct sp_gguf_tokens *t, uint32_t id,
                             struct sp_err *err)
{
    const struct sp_gguf_token *token = &t->all[id];
    bool user = token->type == SP_GGUF_TOKEN_USER;
    size_t at = 0;
    enum sp_status st;

    if (token->type == SP_GGUF_TOKEN_CONTROL || token->len == 0 ||
        t->slots[find_slot(t, token->text, token->len)] != id + 1)
        return SP_OK;
    for ((void)sp_utf8_next(token->text, token->len, &at); at < token->len;
         (void)sp_utf8_next(token->text, token->len, &at)) {
        struct merge m = {.token = id, .at = (uint32_t)at, .score = user ? 0 : token->score};
        if (!find_token(&m.left, t, token->text, at) ||
            !find_token(&m.right, t, token->text + at, token->len - at))
            continue;
        if ((st = sp_grow(&out->all, &out->cap, out->n + 1, sizeof *out->all, err))) return st;
        out->all[out->n++] = m;
    }
    return SP_OK;
}

static void put_pair(struct sp_json_out *out, const struct sp_gguf_tokens *t, const struct merge *m)
{
    const struct sp_gguf_token *token = &t->all[m->token];

    sp_json_out_raw(out, "[");
    sp_json_out_quoted(out, token->text, m->at);
    sp_json_out_raw(out, ",");
    sp_json_out_quoted(out, token->text + m->at, token->len - m->at);
    sp_json_out_raw(out, "]");
}

enum sp_status sp_gguf_tokens_put_merges(struct sp_json_out *out, struct sp_gguf_tokens *tokens,
                                         struct sp_err *err)
{
    struct merges merges = {0};
    enum sp_status st = index_tokens(tokens, err);

    for (uint32_t i = 0; i < tokens->n && !st; i++)
        st = divide(&merges, tokens, i, err);
    if (merges.n) qsort(merges.all, merges.n, sizeof *merges.all, compare_merges);
    for (size_t i = 0; i < merges.n && !st; i++) {
        sp_json_out_raw(out, i ? "," : "");
        put_pair(out, tokens, &merges.all[i]);
    }
    free(merges.all);
    return st;
}
