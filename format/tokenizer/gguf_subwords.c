/* The tokenizers of encoders: Unigram, as XLM-RoBERTa has it, and BERT's WordPiece. */
#include "format/tokenizer/gguf_token_writer.h"

#include <math.h>

enum { BASE64_BYTES = 3, BASE64_CHARS = 4 };

/* ---- Unigram ---- */

static void put_base64(struct sp_json_out *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += BASE64_BYTES) {
        size_t left = n - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        char text[BASE64_CHARS + 1] = "";
        for (unsigned k = 0; k < BASE64_CHARS; k++)
            text[k] = k > left ? '=' : digits[three >> (18 - 6 * k) & 63];
        sp_json_out_raw(out, text);
    }
}

enum sp_status sp_gguf_token_put_charsmap(bool *found, struct sp_gguf_token_writer *w)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const struct sp_gguf_value *v = sp_gguf_find(w->file, key);

    *found = v && v->n;
    if (!*found) return SP_OK;
    if (!v->is_array || (v->type != SP_GGUF_U8 && v->type != SP_GGUF_I8))
        return sp_fail(w->err, SP_E_INPUT, "%s is not a list of bytes", key);
    sp_json_out_raw(&w->out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
    put_base64(&w->out, v->at, (size_t)v->n);
    sp_json_out_raw(&w->out, "\"}");
    return SP_OK;
}

#define METASPACE(prefix)                                                                          \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"" prefix   \
    "\", \"split\": true}"

static enum sp_status put_steps(struct sp_gguf_token_writer *w)
{
    bool prefix = true, strip = true, found;
    const char *metaspace;
    enum sp_status st;

    sp_json_out_raw(&w->out, "  \"normalizer\": ");
    if ((st = sp_gguf_token_put_charsmap(&found, w))) return st;
    sp_json_out_raw(&w->out, found ? ",\n" : "null,\n");
    if ((st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_space_prefix", &prefix, w->err)))
        return st;
    if ((st = sp_gguf_get_bool(w->file, "tokenizer.ggml.remove_extra_whitespaces", &strip, w->err)))
        return st;
    metaspace = prefix ? METASPACE("always") : METASPACE("never");
    sp_json_out_print(&w->out,
                      "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s%s]},\n",
                      strip ? "{\"type\": \"WhitespaceSplit\"}, " : "", metaspace);
    sp_json_out_print(&w->out, "  \"decoder\": %s,\n", metaspace);
    return sp_gguf_token_put_ends(w);
}

/* The vocabulary without unused tokens at its end. Scores are printed so that a double of the same
 * value is read. */
static void put_scored(struct sp_gguf_token_writer *w)
{
    uint32_t n = w->tokens.n;

    while (n && w->tokens.all[n - 1].type == SP_GGUF_TOKEN_UNUSED)
        n--;
    for (uint32_t i = 0; i < n; i++) {
        const struct sp_gguf_token *t = &w->tokens.all[i];
        sp_json_out_raw(&w->out, i ? ",[" : "[");
        sp_json_out_quoted(&w->out, t->text, t->len);
        sp_json_out_print(&w->out, ",%.17g]", (double)t->score);
    }
}

enum sp_status sp_gguf_token_put_unigram(struct sp_gguf_token_writer *w)
{
    const char *bytes = "false";
    uint32_t unknown = 0;
    enum sp_status st;

    while (unknown < w->tokens.n && w->tokens.all[unknown].type != SP_GGUF_TOKEN_UNKNOWN)
        unknown++;
    if (unknown == w->tokens.n) {
        return sp_fail(w->err, SP_E_INPUT,
                       "tokenizer.ggml.token_type has no unknown token (2), which Unigram needs");
    }
    for (uint32_t i = 0; i < w->tokens.n; i++) {
        if (w->tokens.all[i].type == SP_GGUF_TOKEN_BYTE) bytes = "true";
        if (isfinite(w->tokens.all[i].score)) continue;
        return sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.scores[%u] is not a finite number", i);
    }
    if ((st = w->sentencepiece ? sp_gguf_token_put_piece_steps(w) : put_steps(w))) return st;
    sp_json_out_print(&w->out,
                      "  \"model\": {\"type\": \"Unigram\", \"byte_fallback\": %s, "
                      "\"unk_id\": %u, \"vocab\": [",
                      bytes, (unsigned)unknown);
    put_scored(w);
    sp_json_out_raw(&w->out, "]}\n}\n");
    return SP_OK;
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
    sp_json_out_print(
        &w->out,
        "  \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
        "\"handle_chinese_chars\": true, \"strip_accents\": %s, \"lowercase\": %s},\n",
        strip ? "true" : "false", lowercase ? "true" : "false");
    return SP_OK;
}

enum sp_status sp_gguf_token_put_wordpiece(struct sp_gguf_token_writer *w)
{
    const struct sp_gguf_token *unknown;
    uint64_t id;
    enum sp_status st;

    if ((st = sp_gguf_token_find(&unknown, &id, w, "tokenizer.ggml.unknown_token_id"))) return st;
    if ((st = put_bert_normalizer(w))) return st;
    sp_json_out_raw(&w->out, "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n");
    if ((st = sp_gguf_token_put_ends(w))) return st;
    sp_json_out_raw(&w->out, "  \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", "
                             "\"cleanup\": true},\n  \"model\": {\"type\": \"WordPiece\", "
                             "\"continuing_subword_prefix\": \"##\", "
                             "\"max_input_chars_per_word\": 100, \"unk_token\": ");
    sp_gguf_token_put_text(w, unknown, "\"[UNK]\"");
    sp_json_out_raw(&w->out, ", \"vocab\": {");
    sp_gguf_tokens_put_vocab(&w->out, &w->tokens, w->tokens.n);
    sp_json_out_raw(&w->out, "}}\n}\n");
    return SP_OK;
}
