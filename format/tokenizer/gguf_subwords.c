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

bool sp_gguf_token_put_charsmap(struct sp_gguf_token_writer *w)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const struct sp_gguf_value *v = sp_gguf_find(w->file, key);

    if (v == NULL || v->n == 0) return false;
    if (!v->is_array || (v->type != SP_GGUF_U8 && v->type != SP_GGUF_I8)) {
        w->st = sp_fail(w->err, SP_E_INPUT, "%s is not a list of bytes", key);
        return false;
    }
    sp_json_out_raw(&w->out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
    put_base64(&w->out, v->at, (size_t)v->n);
    sp_json_out_raw(&w->out, "\"}");
    return true;
}

#define METASPACE(prefix)                                                                          \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"" prefix   \
    "\", \"split\": true}"

static void put_steps(struct sp_gguf_token_writer *w)
{
    bool prefix = sp_gguf_token_flag(w, "tokenizer.ggml.add_space_prefix", true);
    bool strip = sp_gguf_token_flag(w, "tokenizer.ggml.remove_extra_whitespaces", true);
    const char *metaspace = prefix ? METASPACE("always") : METASPACE("never");

    sp_json_out_raw(&w->out, "  \"normalizer\": ");
    sp_json_out_raw(&w->out, sp_gguf_token_put_charsmap(w) ? ",\n" : "null,\n");
    sp_json_out_print(&w->out,
                      "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s%s]},\n",
                      strip ? "{\"type\": \"WhitespaceSplit\"}, " : "", metaspace);
    sp_json_out_print(&w->out, "  \"decoder\": %s,\n", metaspace);
    sp_gguf_token_put_ends(w);
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

void sp_gguf_token_put_unigram(struct sp_gguf_token_writer *w)
{
    const char *bytes = "false";
    uint32_t unknown = 0;

    while (unknown < w->tokens.n && w->tokens.all[unknown].type != SP_GGUF_TOKEN_UNKNOWN)
        unknown++;
    if (unknown == w->tokens.n) {
        w->st = sp_fail(w->err, SP_E_INPUT,
                        "tokenizer.ggml.token_type has no unknown token (2), which Unigram needs");
        return;
    }
    for (uint32_t i = 0; i < w->tokens.n; i++) {
        if (w->tokens.all[i].type == SP_GGUF_TOKEN_BYTE) bytes = "true";
        if (isfinite(w->tokens.all[i].score)) continue;
        w->st = sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.scores[%u] is not a finite number", i);
        return;
    }
    if (w->rules.sentencepiece)
        sp_gguf_token_put_piece_steps(w);
    else
        put_steps(w);
    sp_json_out_print(&w->out,
                      "  \"model\": {\"type\": \"Unigram\", \"byte_fallback\": %s, "
                      "\"unk_id\": %u, \"vocab\": [",
                      bytes, (unsigned)unknown);
    put_scored(w);
    sp_json_out_raw(&w->out, "]}\n}\n");
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

static void put_bert_normalizer(struct sp_gguf_token_writer *w)
{
    bool lowercase =
        sp_gguf_token_flag(w, "tokenizer.ggml.normalizer.lowercase", !has_capitals(&w->tokens));
    bool strip = sp_gguf_token_flag(w, "tokenizer.ggml.normalizer.strip_accents", lowercase);

    sp_json_out_print(
        &w->out,
        "  \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
        "\"handle_chinese_chars\": true, \"strip_accents\": %s, \"lowercase\": %s},\n",
        strip ? "true" : "false", lowercase ? "true" : "false");
}

void sp_gguf_token_put_wordpiece(struct sp_gguf_token_writer *w)
{
    uint64_t id;
    const struct sp_gguf_token *unknown =
        sp_gguf_token_find(w, "tokenizer.ggml.unknown_token_id", &id);

    put_bert_normalizer(w);
    sp_json_out_raw(&w->out, "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n");
    sp_gguf_token_put_ends(w);
    sp_json_out_raw(&w->out, "  \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", "
                             "\"cleanup\": true},\n  \"model\": {\"type\": \"WordPiece\", "
                             "\"continuing_subword_prefix\": \"##\", "
                             "\"max_input_chars_per_word\": 100, \"unk_token\": ");
    sp_gguf_token_put_text(w, unknown, "\"[UNK]\"");
    sp_json_out_raw(&w->out, ", \"vocab\": {");
    sp_gguf_tokens_put_vocab(&w->out, &w->tokens, w->tokens.n);
    sp_json_out_raw(&w->out, "}}\n}\n");
}
