/* tokenizer.json in the form that the tokenizers library writes. What a GGUF file does not hold,
 * the normalizer and the regular expressions, is that of the published files of the models that
 * have this `pre` (gguf_pre.h). */
#include "convert/gguf/gguf_tokenizer.h"

#include "convert/gguf/gguf_pre.h"
#include "convert/gguf/gguf_tokens.h"
#include "format/base/json_write.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"

#include <stdio.h>

enum { SHOWN = 200, N_SPECIALS = 4 };

/* Qwen's converter marks these as control tokens, which they are not. */
static const char *const plain_tokens[] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                           "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};

/* Gemma 4's converter marks these as no control tokens, so that they are shown. */
static const char *const shown_tokens[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                           "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                           "<|\"|>"};

struct writer {
    const struct sp_gguf *file;
    struct sp_gguf_tokens tokens;
    const struct sp_gguf_pre *pre; /* NULL: SentencePiece */
    bool listed;                   /* SentencePiece with a list of merges */
    struct sp_strbuf out;
    struct sp_err *err;
};

static bool equal(const char *text, size_t len, const char *other)
{
    return strlen(other) == len && memcmp(text, other, len) == 0;
}

static enum sp_status put(struct writer *w, const char *text)
{
    return sp_strbuf_append(&w->out, text, strlen(text), w->err);
}

static enum sp_status put_quoted(struct writer *w, const char *text)
{
    return sp_json_put_string(&w->out, text, strlen(text), w->err);
}

/* ---- added tokens ---- */

static bool is_added(const struct sp_gguf_token *t)
{
    return t->type == SP_GGUF_TOKEN_CONTROL || t->type == SP_GGUF_TOKEN_USER ||
           t->type == SP_GGUF_TOKEN_UNKNOWN;
}

static bool is_special(const struct writer *w, const struct sp_gguf_token *t)
{
    for (size_t i = 0; w->listed && i < sizeof shown_tokens / sizeof *shown_tokens; i++) {
        if (equal(t->text, t->len, shown_tokens[i])) return true;
    }
    if (t->type == SP_GGUF_TOKEN_USER) return false;
    if (w->pre == NULL || !(w->pre->flags & SP_GGUF_PRE_NFC)) return true;
    for (size_t i = 0; i < sizeof plain_tokens / sizeof *plain_tokens; i++) {
        if (equal(t->text, t->len, plain_tokens[i])) return false;
    }
    return true;
}

static enum sp_status put_added(struct writer *w)
{
    enum sp_status st = put(w, "  \"added_tokens\": [");
    bool any = false;

    for (uint32_t i = 0; i < w->tokens.n && !st; i++) {
        const struct sp_gguf_token *t = &w->tokens.all[i];
        if (!is_added(t) || t->len == 0) continue;
        st = sp_json_put(&w->out, w->err, "%s\n    {\"id\": %u, \"content\": ", any ? "," : "",
                         (unsigned)i);
        any = true;
        if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
        if (!st) {
            st = sp_json_put(&w->out, w->err,
                             ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                             "\"normalized\": false, \"special\": %s}",
                             is_special(w, t) ? "true" : "false");
        }
    }
    return st ? st : put(w, "],\n");
}

/* ---- beginning and end ---- */

/* The token of a key such as "bos_token_id"; *found is NULL if there is none. */
static enum sp_status find_special(const struct sp_gguf_token **found, uint64_t *id,
                                   const struct writer *w, const char *key)
{
    enum sp_status st;

    *found = NULL;
    if (sp_gguf_find(w->file, key) == NULL) return SP_OK;
    if ((st = sp_gguf_get_u64(w->file, key, INT32_MAX, id, w->err))) return st;
    if (*id >= w->tokens.n) {
        return sp_fail(w->err, SP_E_INPUT, "%s is %llu, but there are %u tokens", key,
                       (unsigned long long)*id, (unsigned)w->tokens.n);
    }
    *found = &w->tokens.all[*id];
    return SP_OK;
}

static enum sp_status put_template_part(struct writer *w, const struct sp_gguf_token *t)
{
    enum sp_status st = put(w, "{\"SpecialToken\": {\"id\": ");

    if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
    return st ? st : put(w, ", \"type_id\": 0}}");
}

static enum sp_status put_template_token(struct writer *w, const struct sp_gguf_token *t,
                                         uint64_t id, bool comma)
{
    enum sp_status st = put(w, comma ? ", " : "");

    if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
    if (!st) st = put(w, ": {\"id\": ");
    if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
    if (!st) {
        st = sp_json_put(&w->out, w->err, ", \"ids\": [%llu], \"tokens\": [",
                         (unsigned long long)id);
    }
    if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
    return st ? st : put(w, "]}");
}

/* What is added in front of a text and behind it. */
static enum sp_status put_post_processor(struct writer *w)
{
    const struct sp_gguf_token *bos, *eos;
    uint64_t bos_id = 0, eos_id = 0;
    bool add_bos = w->pre == NULL || w->pre->flags & SP_GGUF_PRE_BOS, add_eos = false;
    enum sp_status st;

    if ((st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_bos_token", &add_bos, w->err)) ||
        (st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_eos_token", &add_eos, w->err)) ||
        (st = find_special(&bos, &bos_id, w, "tokenizer.ggml.bos_token_id")) ||
        (st = find_special(&eos, &eos_id, w, "tokenizer.ggml.eos_token_id"))) {
        return st;
    }
    if (!add_bos) bos = NULL;
    if (!add_eos) eos = NULL;
    if (bos == NULL && eos == NULL) return put(w, "  \"post_processor\": null,\n");
    st = put(w, "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    if (!st && bos) st = put_template_part(w, bos);
    if (!st) {
        st = sp_json_put(&w->out, w->err, "%s{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}%s",
                         bos ? ", " : "", eos ? ", " : "");
    }
    if (!st && eos) st = put_template_part(w, eos);
    if (!st) {
        st = put(w, "], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                    "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {");
    }
    if (!st && bos) st = put_template_token(w, bos, bos_id, false);
    if (!st && eos && eos != bos) st = put_template_token(w, eos, eos_id, bos != NULL);
    return st ? st : put(w, "}},\n");
}

/* ---- byte-level BPE ---- */

#define BYTE_LEVEL(regex, space)                                                                   \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " space                                       \
    ", \"trim_offsets\": true, \"use_regex\": " regex "}"

static enum sp_status put_split(struct writer *w, const char *pattern)
{
    enum sp_status st = put(w, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");

    if (!st) st = put_quoted(w, pattern);
    return st ? st : put(w, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
}

static enum sp_status put_splitter(struct writer *w, bool prefix_space)
{
    enum sp_status st;

    if ((st = put(w, "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [")))
        return st;
    if (w->pre->flags & SP_GGUF_PRE_DIGITS)
        st = put(w, "{\"type\": \"Digits\", \"individual_digits\": true}, ");
    if (!st && w->pre->flags & SP_GGUF_PRE_DEEPSEEK) st = put_split(w, sp_gguf_three_digits);
    if (!st && w->pre->flags & SP_GGUF_PRE_DEEPSEEK) st = put_split(w, sp_gguf_han_kana);
    if (!st && w->pre->pattern) st = put_split(w, w->pre->pattern);
    if (st) return st;
    if (w->pre->pattern) return put(w, BYTE_LEVEL("false", "false") "]},\n");
    return put(w, prefix_space ? BYTE_LEVEL("true", "true") "]},\n"
                               : BYTE_LEVEL("true", "false") "]},\n");
}

/* Tokens behind the last normal one are added tokens and padding. */
static uint32_t count_normal(const struct sp_gguf_tokens *t)
{
    uint32_t n = t->n;

    while (n && t->all[n - 1].type != SP_GGUF_TOKEN_NORMAL)
        n--;
    return n;
}

static enum sp_status put_listed_merges(struct writer *w)
{
    const struct sp_gguf_value *list;
    const uint8_t *at;
    enum sp_status st;

    st = sp_gguf_get_array(w->file, "tokenizer.ggml.merges", SP_GGUF_STRING, &list, w->err);
    if (st) return st;
    if (list == NULL) return sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.merges is missing");
    at = list->at;
    for (uint64_t i = 0; i < list->n && !st; i++) {
        size_t len;
        const char *text = sp_gguf_next_string(&at, &len);
        if (sp_utf8_valid(text, len) != len || memchr(text, 0, len)) {
            return sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.merges[%llu] is not UTF-8 text",
                           (unsigned long long)i);
        }
        if (i) st = put(w, ",");
        if (!st) st = sp_json_put_string(&w->out, text, len, w->err);
    }
    return st;
}

static enum sp_status put_byte_level(struct writer *w)
{
    bool prefix_space = false;
    enum sp_status st;

    st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_space_prefix", &prefix_space, w->err);
    if (!st)
        st = put(w, w->pre->flags & SP_GGUF_PRE_NFC ? "  \"normalizer\": {\"type\": \"NFC\"},\n"
                                                    : "  \"normalizer\": null,\n");
    if (!st) st = put_splitter(w, prefix_space);
    if (!st) st = put_post_processor(w);
    if (!st) st = put(w, "  \"decoder\": " BYTE_LEVEL("true", "true") ",\n");
    if (!st) {
        st = sp_json_put(&w->out, w->err,
                         "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                         "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                         "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": %s, ",
                         w->pre->flags & SP_GGUF_PRE_IGNORE_MERGES ? "true" : "false");
    }
    if (!st) st = put(w, "\"vocab\": {");
    if (!st) {
        st = sp_gguf_tokens_put_vocab(&w->out, &w->tokens, count_normal(&w->tokens), w->err);
    }
    if (!st) st = put(w, "}, \"merges\": [");
    if (!st) st = put_listed_merges(w);
    return st ? st : put(w, "]}\n}\n");
}

/* ---- SentencePiece ---- */

#define REPLACE(from, to)                                                                          \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define SPACE_SIGN "\xe2\x96\x81"

static enum sp_status put_pieces(struct writer *w)
{
    static const char with_space[] =
        "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
        "\"prepend\": \"" SPACE_SIGN "\"}, " REPLACE(" ", SPACE_SIGN) "]},\n";
    static const char without_space[] = "  \"normalizer\": " REPLACE(" ", SPACE_SIGN) ",\n";
    const struct sp_gguf_token *unknown;
    uint64_t id = 0;
    bool prefix = true;
    enum sp_status st;

    if ((st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_space_prefix", &prefix, w->err)) ||
        (st = find_special(&unknown, &id, w, "tokenizer.ggml.unknown_token_id"))) {
        return st;
    }
    for (uint32_t i = 0; i < w->tokens.n && unknown == NULL; i++) {
        if (w->tokens.all[i].type == SP_GGUF_TOKEN_UNKNOWN) unknown = &w->tokens.all[i];
    }
    st = put(w, prefix ? with_space : without_space);
    if (!st) st = put(w, "  \"pre_tokenizer\": null,\n");
    if (!st) st = put_post_processor(w);
    if (!st) {
        st = put(w, "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [" REPLACE(
                        SPACE_SIGN, " ") ", {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}");
    }
    if (!st && prefix) {
        st = put(w, ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    }
    if (!st) {
        st = put(w, "]},\n  \"model\": {\"type\": \"BPE\", \"dropout\": null, "
                    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                    "\"fuse_unk\": true, \"byte_fallback\": true, \"ignore_merges\": false, "
                    "\"unk_token\": ");
    }
    if (!st && unknown == NULL) st = put(w, "null");
    if (!st && unknown) st = sp_json_put_string(&w->out, unknown->text, unknown->len, w->err);
    if (!st) st = put(w, ", \"vocab\": {");
    if (!st) st = sp_gguf_tokens_put_vocab(&w->out, &w->tokens, w->tokens.n, w->err);
    if (!st) st = put(w, "}, \"merges\": [");
    if (!st) {
        st = w->listed ? put_listed_merges(w)
                       : sp_gguf_tokens_put_merges(&w->out, &w->tokens, w->err);
    }
    return st ? st : put(w, "]}\n}\n");
}

/* ---- which kind ---- */

static enum sp_status find_pre(struct writer *w)
{
    const char *name = NULL;
    size_t len = 0;
    enum sp_status st;

    if ((st = sp_gguf_get_text(w->file, "tokenizer.ggml.pre", &name, &len, w->err))) return st;
    if (name == NULL)
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "tokenizer.ggml.pre is missing, so the pre-tokenizer is unknown; newer GGUF "
                       "files of the model have it");
    w->pre = sp_gguf_pre_find(name, len);
    if (w->pre) return SP_OK;
    return sp_fail(w->err, SP_E_UNSUPPORTED, "tokenizer.ggml.pre \"%.*s\" is unknown",
                   (int)(len < SHOWN ? len : SHOWN), name);
}

/* Reads the vocabulary; none (tokens.n is 0) if the file has no tokenizer. */
static enum sp_status read_vocabulary(struct writer *w)
{
    const char *model = NULL;
    size_t len = 0;
    bool pieces;
    enum sp_status st;

    if ((st = sp_gguf_get_text(w->file, "tokenizer.ggml.model", &model, &len, w->err))) return st;
    if (model == NULL || equal(model, len, "none") || equal(model, len, "no_vocab")) return SP_OK;
    w->listed = equal(model, len, "gemma4");
    pieces = w->listed || equal(model, len, "llama");
    if (!pieces && !equal(model, len, "gpt2")) {
        return sp_fail(
            w->err, SP_E_UNSUPPORTED,
            "tokenizer.ggml.model \"%.*s\" is not supported, only gpt2, llama and gemma4 "
            "are",
            (int)(len < SHOWN ? len : SHOWN), model);
    }
    if (!pieces && (st = find_pre(w))) return st;
    return sp_gguf_tokens_read(&w->tokens, w->file, pieces, w->err);
}

static enum sp_status write_tokenizer(struct writer *w)
{
    enum sp_status st =
        put(w, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");

    if (!st) st = put_added(w);
    if (st) return st;
    return w->pre ? put_byte_level(w) : put_pieces(w);
}

static enum sp_status write_tokenizer_config(struct writer *w)
{
    static const struct {
        const char *key, *published;
    } tokens[N_SPECIALS] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},
        {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.padding_token_id", "pad_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},
    };
    bool add_bos = w->pre == NULL || w->pre->flags & SP_GGUF_PRE_BOS;
    enum sp_status st;

    st = sp_gguf_get_bool(w->file, "tokenizer.ggml.add_bos_token", &add_bos, w->err);
    if (!st) {
        st = sp_json_put(&w->out, w->err, "{\n  \"add_bos_token\": %s", add_bos ? "true" : "false");
    }
    for (size_t i = 0; i < N_SPECIALS && !st; i++) {
        const struct sp_gguf_token *t;
        uint64_t id;
        if ((st = find_special(&t, &id, w, tokens[i].key)) || t == NULL) continue;
        st = sp_json_put(&w->out, w->err, ",\n  \"%s\": ", tokens[i].published);
        if (!st) st = sp_json_put_string(&w->out, t->text, t->len, w->err);
    }
    return st ? st
              : put(w, ",\n  \"clean_up_tokenization_spaces\": false,\n  \"tokenizer_class\": "
                       "\"PreTrainedTokenizerFast\"\n}\n");
}

static enum sp_status make_text(char **text, size_t *size, const struct sp_gguf *file,
                                enum sp_status (*write)(struct writer *), struct sp_err *err)
{
    struct writer w = {.file = file, .err = err};
    enum sp_status st = read_vocabulary(&w);

    *text = NULL;
    *size = 0;
    if (st || w.tokens.n == 0) goto done;
    if ((st = write(&w)) || (st = sp_strbuf_append(&w.out, "", 1, err))) goto done;
    *text = w.out.at;
    *size = w.out.len - 1;
    w.out.at = NULL;
done:
    sp_strbuf_release(&w.out);
    sp_gguf_tokens_release(&w.tokens);
    return st;
}

enum sp_status sp_gguf_tokenizer_text(char **text, size_t *size, const struct sp_gguf *file,
                                      struct sp_err *err)
{
    return make_text(text, size, file, write_tokenizer, err);
}

enum sp_status sp_gguf_tokenizer_config_text(char **text, size_t *size, const struct sp_gguf *file,
                                             struct sp_err *err)
{
    return make_text(text, size, file, write_tokenizer_config, err);
}

enum sp_status sp_gguf_template_text(char **text, size_t *size, const struct sp_gguf *file,
                                     char **warnings, struct sp_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    const char *found = NULL;
    size_t n;
    const struct sp_gguf_value *values = sp_gguf_values(file, &n);
    enum sp_status st;

    *text = NULL;
    *size = 0;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(values[i].key, key, sizeof key - 1) != 0 ||
            values[i].key[sizeof key - 1] != '.') {
            continue;
        }
        st = sp_warn(warnings, err, "%s: %.*s is ignored, only %s is used", sp_gguf_path(file),
                     SHOWN, values[i].key, key);
        if (st) return st;
    }
    if ((st = sp_gguf_get_text(file, key, &found, size, err)) || found == NULL) return st;
    if (sp_utf8_valid(found, *size) != *size || memchr(found, 0, *size))
        return sp_fail(err, SP_E_INPUT, "%s is not UTF-8 text", key);
    return sp_copy_text(text, found, *size, err);
}
