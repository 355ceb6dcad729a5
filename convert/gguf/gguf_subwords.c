/* The tokenizers of encoders: Unigram, as XLM-RoBERTa has it, and BERT's WordPiece. */
#include "convert/gguf/gguf_token_writer.h"

#include "format/base/json_write.h"

#include <string.h>

enum { BASE64_BYTES = 3, BASE64_CHARS = 4 };

/* ---- Unigram ---- */

static enum sp_status put_base64(struct sp_strbuf *out, const uint8_t *bytes, size_t n,
                                 struct sp_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i += BASE64_BYTES) {
        size_t left = n - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        char text[BASE64_CHARS];
        for (unsigned k = 0; k < BASE64_CHARS; k++)
            text[k] = k > left ? '=' : digits[three >> (18 - 6 * k) & 63];
        st = sp_strbuf_append(out, text, sizeof text, err);
    }
    return st;
}

/* The normalizer's map of characters, an array of bytes. */
static enum sp_status put_charsmap(struct sp_gguf_token_writer *w)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const struct sp_gguf_value *v = sp_gguf_find(w->file, key);
    enum sp_status st;

    if (v == NULL) return sp_gguf_token_put(w, "  \"normalizer\": null,\n");
    if (!v->is_array || (v->type != SP_GGUF_U8 && v->type != SP_GGUF_I8))
        return sp_fail(w->err, SP_E_INPUT, "%s is not a list of bytes", key);
    st = sp_gguf_token_put(
        w, "  \"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
    if (!st) st = put_base64(&w->out, v->at, (size_t)v->n, w->err);
    return st ? st : sp_gguf_token_put(w, "\"},\n");
}

#define METASPACE(prefix)                                                                          \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"" prefix   \
    "\", \"split\": true}"

static enum sp_status put_spaces(struct sp_gguf_token_writer *w)
{
    bool prefix = true, strip = true;
    enum sp_status st;

    if ((st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_space_prefix", &prefix, w->err)) ||
        (st = sp_gguf_get_bool(w->file, "tokenizer.ggml.remove_extra_whitespaces", &strip,
                               w->err)) ||
        (st = sp_gguf_token_put(w, "  \"pre_tokenizer\": {\"type\": \"Sequence\", "
                                   "\"pretokenizers\": [")) ||
        (strip && (st = sp_gguf_token_put(w, "{\"type\": \"WhitespaceSplit\"}, "))) ||
        (st = sp_gguf_token_put(w, prefix ? METASPACE("always") : METASPACE("never"))) ||
        (st = sp_gguf_token_put(w, "]},\n  \"decoder\": ")))
        return st;
    st = sp_gguf_token_put(w, prefix ? METASPACE("always") : METASPACE("never"));
    return st ? st : sp_gguf_token_put(w, ",\n");
}

/* The vocabulary without unused tokens at its end. Scores are printed so that a double of the same
 * value is read. */
static enum sp_status put_scored(struct sp_gguf_token_writer *w)
{
    uint32_t n = w->tokens.n;
    enum sp_status st = SP_OK;

    while (n && w->tokens.all[n - 1].type == SP_GGUF_TOKEN_UNUSED)
        n--;
    for (uint32_t i = 0; i < n && !st; i++) {
        const struct sp_gguf_token *t = &w->tokens.all[i];
        if ((st = sp_gguf_token_put(w, i ? ",[" : "[")) ||
            (st = sp_json_put_string(&w->out, t->text, t->len, w->err)))
            break;
        st = sp_json_put(&w->out, w->err, ",%.17g]", (double)t->score);
    }
    return st;
}

enum sp_status sp_gguf_token_put_unigram(struct sp_gguf_token_writer *w)
{
    uint32_t unknown = 0;
    enum sp_status st;

    while (unknown < w->tokens.n && w->tokens.all[unknown].type != SP_GGUF_TOKEN_UNKNOWN)
        unknown++;
    if (unknown == w->tokens.n) {
        return sp_fail(w->err, SP_E_INPUT,
                       "tokenizer.ggml.token_type has no unknown token (2), which Unigram needs");
    }
    if ((st = put_charsmap(w)) || (st = put_spaces(w)) || (st = sp_gguf_token_put_ends(w)))
        return st;
    st = sp_json_put(
        &w->out, w->err,
        "  \"model\": {\"type\": \"Unigram\", \"byte_fallback\": false, \"unk_id\": %u, "
        "\"vocab\": [",
        (unsigned)unknown);
    if (!st) st = put_scored(w);
    return st ? st : sp_gguf_token_put(w, "]}\n}\n");
}

/* ---- WordPiece ---- */

/* Whether the vocabulary distinguishes capitals, which few files say. */
static bool has_capitals(const struct sp_gguf_tokens *tokens)
{
    for (uint32_t i = 0; i < tokens->n; i++) {
        const struct sp_gguf_token *t = &tokens->all[i];
        if (t->type != SP_GGUF_TOKEN_NORMAL || (t->len && t->text[0] == '[')) continue;
        for (uint32_t k = 0; k < t->len; k++)
            if (t->text[k] >= 'A' && t->text[k] <= 'Z') return true;
    }
    return false;
}

static enum sp_status put_bert_normalizer(struct sp_gguf_token_writer *w)
{
    bool lowercase = !has_capitals(&w->tokens), strip;
    enum sp_status st;

    st = sp_gguf_get_bool(w->file, "tokenizer.ggml.normalizer.lowercase", &lowercase, w->err);
    strip = lowercase;
    if (!st)
        st = sp_gguf_get_bool(w->file, "tokenizer.ggml.normalizer.strip_accents", &strip, w->err);
    if (st) return st;
    return sp_json_put(
        &w->out, w->err,
        "  \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
        "\"handle_chinese_chars\": true, \"strip_accents\": %s, \"lowercase\": %s},\n",
        strip ? "true" : "false", lowercase ? "true" : "false");
}

enum sp_status sp_gguf_token_put_wordpiece(struct sp_gguf_token_writer *w)
{
    const struct sp_gguf_token *unknown;
    uint64_t id;
    enum sp_status st;

    if ((st = sp_gguf_token_find(&unknown, &id, w, "tokenizer.ggml.unknown_token_id"))) return st;
    if ((st = put_bert_normalizer(w)) ||
        (st = sp_gguf_token_put(w, "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n")) ||
        (st = sp_gguf_token_put_ends(w)) ||
        (st = sp_gguf_token_put(w, "  \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", "
                                   "\"cleanup\": true},\n  \"model\": {\"type\": \"WordPiece\", "
                                   "\"continuing_subword_prefix\": \"##\", "
                                   "\"max_input_chars_per_word\": 100, \"unk_token\": ")))
        return st;
    st = unknown ? sp_json_put_string(&w->out, unknown->text, unknown->len, w->err)
                 : sp_gguf_token_put(w, "\"[UNK]\"");
    if (!st) st = sp_gguf_token_put(w, ", \"vocab\": {");
    if (!st) st = sp_gguf_tokens_put_vocab(&w->out, &w->tokens, w->tokens.n, w->err);
    return st ? st : sp_gguf_token_put(w, "}}\n}\n");
}
