/* tokenizer.json in the form that the tokenizers library writes. What a GGUF file does not hold,
 * the normalizer and the regular expressions, is that of the published files of the models that
 * have this `pre` (gguf_pre.c). */
#include "format/tokenizer/gguf_tokenizer.h"

#include "format/tokenizer/gguf_token_writer.h"
#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"

#include <stdio.h>

enum { N_SPECIALS = 4 };

/* Qwen's converter marks these as control tokens, which they are not. */
static const char *const plain_tokens[] = {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                           "<|fim_pad|>",    "<|repo_name|>",  "<|file_sep|>"};

/* Gemma 4's converter marks these as no control tokens, so that they are shown. */
static const char *const shown_tokens[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                           "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                           "<|\"|>"};

void sp_gguf_token_put_text(struct sp_gguf_token_writer *w, const struct sp_gguf_token *token,
                            const char *otherwise)
{
    if (token)
        sp_json_out_quoted(&w->out, token->text, token->len);
    else
        sp_json_out_raw(&w->out, otherwise);
}

/* ---- added tokens ---- */

static bool is_added(const struct sp_gguf_token *t)
{
    return t->type == SP_GGUF_TOKEN_CONTROL || t->type == SP_GGUF_TOKEN_USER ||
           t->type == SP_GGUF_TOKEN_UNKNOWN;
}

static bool is_special(const struct sp_gguf_token_writer *w, const struct sp_gguf_token *t)
{
    for (size_t i = 0; w->kind == SP_GGUF_MERGES && i < sizeof shown_tokens / sizeof *shown_tokens;
         i++)
        if (sp_is_word(t->text, t->len, shown_tokens[i])) return true;
    if (t->type == SP_GGUF_TOKEN_USER) return false;
    if (w->pre == NULL || !(w->pre->flags & SP_GGUF_PRE_NFC)) return true;
    for (size_t i = 0; i < sizeof plain_tokens / sizeof *plain_tokens; i++)
        if (sp_is_word(t->text, t->len, plain_tokens[i])) return false;
    return true;
}

static void put_added(struct sp_gguf_token_writer *w)
{
    const char *comma = "";

    sp_json_out_raw(&w->out, "  \"added_tokens\": [");
    for (uint32_t i = 0; i < w->tokens.n; i++) {
        const struct sp_gguf_token *t = &w->tokens.all[i];
        if (!is_added(t) || t->len == 0) continue;
        sp_json_out_print(&w->out, "%s\n    {\"id\": %u, \"content\": ", comma, (unsigned)i);
        comma = ",";
        sp_json_out_quoted(&w->out, t->text, t->len);
        sp_json_out_print(&w->out,
                          ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                          "\"normalized\": false, \"special\": %s}",
                          is_special(w, t) ? "true" : "false");
    }
    sp_json_out_raw(&w->out, "],\n");
}

/* ---- beginning and end ---- */

const struct sp_gguf_token *sp_gguf_token_find(struct sp_gguf_token_writer *w, const char *key,
                                               uint64_t *id)
{
    *id = UINT64_MAX;
    if (!w->st) w->st = sp_gguf_token_id(id, w->file, key, w->err);
    return *id < w->tokens.n ? &w->tokens.all[*id] : NULL;
}

bool sp_gguf_token_flag(struct sp_gguf_token_writer *w, const char *key, bool otherwise)
{
    if (!w->st) w->st = sp_gguf_get_bool(w->file, key, &otherwise, w->err);
    return otherwise;
}

static void put_template_part(struct sp_gguf_token_writer *w, const struct sp_gguf_token *t,
                              unsigned type)
{
    sp_json_out_raw(&w->out, "{\"SpecialToken\": {\"id\": ");
    sp_json_out_quoted(&w->out, t->text, t->len);
    sp_json_out_print(&w->out, ", \"type_id\": %u}}", type);
}

static void put_template_token(struct sp_gguf_token_writer *w, const struct sp_gguf_token *t,
                               uint64_t id, bool comma)
{
    sp_json_out_raw(&w->out, comma ? ", " : "");
    sp_json_out_quoted(&w->out, t->text, t->len);
    sp_json_out_raw(&w->out, ": {\"id\": ");
    sp_json_out_quoted(&w->out, t->text, t->len);
    sp_json_out_print(&w->out, ", \"ids\": [%llu], \"tokens\": [", (unsigned long long)id);
    sp_json_out_quoted(&w->out, t->text, t->len);
    sp_json_out_raw(&w->out, "]}");
}

/* True if a file without add_bos_token adds a beginning token. */
static bool adds_bos(const struct sp_gguf_token_writer *w)
{
    return w->pre == NULL || w->pre->flags & SP_GGUF_PRE_BOS;
}

static bool adds_eos(const struct sp_gguf_token_writer *w)
{
    return w->kind == SP_GGUF_UNIGRAM || w->kind == SP_GGUF_WORDPIECE ||
           (w->pre && w->pre->flags & SP_GGUF_PRE_EOS);
}

/* Two texts: of encoders as BERT has them, or with two separators between them as RoBERTa has. */
static void put_template_pair(struct sp_gguf_token_writer *w, const struct sp_gguf_token *bos,
                              const struct sp_gguf_token *eos)
{
    bool doubled = w->kind == SP_GGUF_UNIGRAM ||
                   (w->kind == SP_GGUF_BYTE_LEVEL && w->pre->flags & SP_GGUF_PRE_TWO_SEPARATORS);
    unsigned type = w->kind == SP_GGUF_WORDPIECE;

    if (bos == NULL || eos == NULL || !adds_eos(w)) {
        sp_json_out_raw(&w->out, "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
                                 "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}");
        return;
    }
    put_template_part(w, bos, 0);
    sp_json_out_raw(&w->out, ", {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, ");
    for (unsigned i = 0; i < 1u + doubled; i++) {
        put_template_part(w, eos, 0);
        sp_json_out_raw(&w->out, ", ");
    }
    sp_json_out_print(&w->out, "{\"Sequence\": {\"id\": \"B\", \"type_id\": %u}}, ", type);
    put_template_part(w, eos, type);
}

/* The token at an end of a text: of encoders, under two names, or BERT's one with this text. */
static const struct sp_gguf_token *find_end(struct sp_gguf_token_writer *w, uint64_t *id,
                                            const char *name, const char *other, const char *bert)
{
    char key[64];
    bool encoder = adds_eos(w);
    const struct sp_gguf_token *found;

    for (unsigned i = 0; i < 1u + encoder; i++) {
        bool first = i == (w->kind == SP_GGUF_WORDPIECE);
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", first ? name : other);
        if ((found = sp_gguf_token_find(w, key, id)) != NULL) return found;
    }
    for (uint32_t i = 0; w->kind == SP_GGUF_WORDPIECE && i < w->tokens.n; i++) {
        if (!sp_is_word(w->tokens.all[i].text, w->tokens.all[i].len, bert)) continue;
        *id = i;
        return &w->tokens.all[i];
    }
    return NULL;
}

/* Writes the tokens that are added in front of a text and behind it. */
void sp_gguf_token_put_ends(struct sp_gguf_token_writer *w)
{
    bool add_bos = sp_gguf_token_flag(w, "tokenizer.ggml.add_bos_token", adds_bos(w));
    bool add_eos = sp_gguf_token_flag(w, "tokenizer.ggml.add_eos_token", adds_eos(w));
    uint64_t bos_id = 0, eos_id = 0;
    const struct sp_gguf_token *bos = find_end(w, &bos_id, "bos", "cls", "[CLS]");
    const struct sp_gguf_token *eos = find_end(w, &eos_id, "eos", "seperator", "[SEP]");

    if (!add_bos) bos = NULL;
    if (!add_eos) eos = NULL;
    if (bos == NULL && eos == NULL) {
        sp_json_out_raw(&w->out, "  \"post_processor\": null,\n");
        return;
    }
    sp_json_out_raw(&w->out,
                    "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    if (bos) put_template_part(w, bos, 0);
    sp_json_out_print(&w->out, "%s{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}%s",
                      bos ? ", " : "", eos ? ", " : "");
    if (eos) put_template_part(w, eos, 0);
    sp_json_out_raw(&w->out, "], \"pair\": [");
    put_template_pair(w, bos, eos);
    sp_json_out_raw(&w->out, "], \"special_tokens\": {");
    if (bos) put_template_token(w, bos, bos_id, false);
    if (eos && eos != bos) put_template_token(w, eos, eos_id, bos != NULL);
    sp_json_out_raw(&w->out, "}},\n");
}

/* ---- byte-level BPE ---- */

#define BYTE_LEVEL(regex, space)                                                                   \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " space                                       \
    ", \"trim_offsets\": true, \"use_regex\": " regex "}"

static void put_split(struct sp_gguf_token_writer *w, const char *pattern)
{
    sp_json_out_raw(&w->out, "{\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    sp_json_out_quoted(&w->out, pattern, strlen(pattern));
    sp_json_out_raw(&w->out, "}, \"behavior\": \"Isolated\", \"invert\": false}, ");
}

static void put_splitter(struct sp_gguf_token_writer *w, bool prefix_space)
{
    sp_json_out_raw(&w->out, "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [");
    if (w->pre->flags & SP_GGUF_PRE_DIGITS)
        sp_json_out_raw(&w->out, "{\"type\": \"Digits\", \"individual_digits\": true}, ");
    for (const char *const *at = w->pre->first; at && *at; at++)
        put_split(w, *at);
    if (w->pre->pattern) put_split(w, w->pre->pattern);
    sp_json_out_raw(&w->out, w->pre->pattern ? BYTE_LEVEL("false", "false")
                             : prefix_space  ? BYTE_LEVEL("true", "true")
                                             : BYTE_LEVEL("true", "false"));
    sp_json_out_raw(&w->out, "]},\n");
}

/* Tokens behind the last normal one are added tokens and padding. */
static uint32_t count_normal(const struct sp_gguf_tokens *t)
{
    uint32_t n = t->n;

    while (n && t->all[n - 1].type != SP_GGUF_TOKEN_NORMAL)
        n--;
    return n;
}

static enum sp_status put_listed_merges(struct sp_gguf_token_writer *w)
{
    const struct sp_gguf_value *list;
    const uint8_t *at;
    enum sp_status st;

    st = sp_gguf_get_array(w->file, "tokenizer.ggml.merges", SP_GGUF_STRING, &list, w->err);
    if (st) return st;
    if (list == NULL) return sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.merges is missing");
    at = list->at;
    for (uint64_t i = 0; i < list->n; i++) {
        size_t len;
        const char *text = sp_gguf_next_string(&at, &len);
        if (sp_utf8_valid(text, len) != len || memchr(text, 0, len)) {
            return sp_fail(w->err, SP_E_INPUT, "tokenizer.ggml.merges[%llu] is not UTF-8 text",
                           (unsigned long long)i);
        }
        sp_json_out_raw(&w->out, i ? "," : "");
        sp_json_out_quoted(&w->out, text, len);
    }
    return SP_OK;
}

/* Writes the vocabulary and its merges, listed or made from ranks, and ends the model. */
static void put_merged(struct sp_gguf_token_writer *w, uint32_t n, bool listed)
{
    sp_json_out_raw(&w->out, "\"vocab\": {");
    sp_gguf_tokens_put_vocab(&w->out, &w->tokens, n);
    sp_json_out_raw(&w->out, "}, \"merges\": [");
    if (!w->st) {
        w->st =
            listed ? put_listed_merges(w) : sp_gguf_tokens_put_merges(&w->out, &w->tokens, w->err);
    }
    sp_json_out_raw(&w->out, "]}\n}\n");
}

static void put_byte_level(struct sp_gguf_token_writer *w)
{
    bool prefix_space = sp_gguf_token_flag(w, "tokenizer.ggml.add_space_prefix", false);

    sp_json_out_print(&w->out, "  \"normalizer\": %s,\n",
                      w->pre->flags & SP_GGUF_PRE_NFC ? "{\"type\": \"NFC\"}" : "null");
    put_splitter(w, prefix_space);
    sp_gguf_token_put_ends(w);
    sp_json_out_raw(&w->out, "  \"decoder\": " BYTE_LEVEL("true", "true") ",\n");
    sp_json_out_print(&w->out,
                      "  \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                      "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                      "\"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": %s, ",
                      w->pre->flags & SP_GGUF_PRE_IGNORE_MERGES ? "true" : "false");
    put_merged(w, count_normal(&w->tokens), !w->rules.ranked);
}

/* ---- SentencePiece ---- */

#define REPLACE(from, to)                                                                          \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define SPACE_SIGN "\xe2\x96\x81"

#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"" SPACE_SIGN "\"}, "
#define DROP(pattern, to)                                                                          \
    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"content\": \"" to "\"}," \
    " "

/* All that SentencePiece does to a text, of which GGUF's "llama" states the prefix only. */
static void put_whole_normalizer(struct sp_gguf_token_writer *w, bool prefix)
{
    bool strip = sp_gguf_token_flag(w, "tokenizer.ggml.remove_extra_whitespaces", true);

    sp_json_out_raw(&w->out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    if (sp_gguf_token_put_charsmap(w)) sp_json_out_raw(&w->out, ", ");
    if (strip)
        sp_json_out_raw(&w->out, DROP("\\\\A +|[ " SPACE_SIGN "]+\\\\z", "") DROP(" {2,}", " "));
    if (prefix && !w->rules.prefix) sp_json_out_raw(&w->out, PREPEND);
    sp_json_out_raw(&w->out, REPLACE(" ", SPACE_SIGN) "]},\n");
}

void sp_gguf_token_put_piece_steps(struct sp_gguf_token_writer *w)
{
    static const char with_space[] = "  \"normalizer\": {\"type\": \"Sequence\", "
                                     "\"normalizers\": [" PREPEND REPLACE(" ", SPACE_SIGN) "]},\n";
    static const char without_space[] = "  \"normalizer\": " REPLACE(" ", SPACE_SIGN) ",\n";
    bool prefix = sp_gguf_token_flag(w, "tokenizer.ggml.add_space_prefix", w->pre == NULL);

    if (w->rules.sentencepiece)
        put_whole_normalizer(w, prefix);
    else
        sp_json_out_raw(&w->out, prefix ? with_space : without_space);
    if (prefix && w->rules.prefix) {
        sp_json_out_print(&w->out,
                          "  \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": "
                          "\"" SPACE_SIGN "\", \"prepend_scheme\": \"%s\", \"split\": false},\n",
                          w->rules.prefix);
    } else {
        sp_json_out_raw(&w->out, "  \"pre_tokenizer\": null,\n");
    }
    sp_gguf_token_put_ends(w);
    sp_json_out_raw(&w->out,
                    "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [" REPLACE(
                        SPACE_SIGN, " ") ", {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}");
    if (prefix)
        sp_json_out_raw(&w->out,
                        ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    sp_json_out_raw(&w->out, "]},\n");
}

static void put_pieces(struct sp_gguf_token_writer *w)
{
    uint64_t id;
    const struct sp_gguf_token *unknown =
        sp_gguf_token_find(w, "tokenizer.ggml.unknown_token_id", &id);

    for (uint32_t i = 0; i < w->tokens.n && unknown == NULL; i++)
        if (w->tokens.all[i].type == SP_GGUF_TOKEN_UNKNOWN) unknown = &w->tokens.all[i];
    sp_gguf_token_put_piece_steps(w);
    sp_json_out_raw(&w->out,
                    "  \"model\": {\"type\": \"BPE\", \"dropout\": null, "
                    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                    "\"fuse_unk\": true, \"byte_fallback\": true, \"ignore_merges\": false, "
                    "\"unk_token\": ");
    sp_gguf_token_put_text(w, unknown, "null");
    sp_json_out_raw(&w->out, ", ");
    put_merged(w, w->tokens.n, w->kind == SP_GGUF_MERGES);
}

/* ---- which kind ---- */

static enum sp_status find_kind(struct sp_gguf_token_writer *w, const char *model, size_t len)
{
    static const struct {
        const char *name;
        enum sp_gguf_token_kind kind;
    } kinds[] = {{"gpt2", SP_GGUF_BYTE_LEVEL},
                 {"llama", SP_GGUF_PIECES},
                 {"gemma4", SP_GGUF_MERGES},
                 {"t5", SP_GGUF_UNIGRAM},
                 {"bert", SP_GGUF_WORDPIECE}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!sp_is_word(model, len, kinds[i].name)) continue;
        w->kind = kinds[i].kind;
        return SP_OK;
    }
    return sp_fail(w->err, SP_E_UNSUPPORTED,
                   "tokenizer.ggml.model \"%.*s\" is not supported, only gpt2, llama, gemma4, t5 "
                   "and bert are",
                   (int)(len < SP_GGUF_SHOWN ? len : SP_GGUF_SHOWN), model);
}

/* Reads the vocabulary; none (tokens.n is 0) if the file has no tokenizer. */
static enum sp_status read_vocabulary(struct sp_gguf_token_writer *w)
{
    const char *model = NULL;
    size_t len = 0;
    bool scored, pieces;
    enum sp_status st;

    if ((st = sp_gguf_get_text(w->file, "tokenizer.ggml.model", &model, &len, w->err))) return st;
    if (model == NULL || sp_is_word(model, len, "none") || sp_is_word(model, len, "no_vocab"))
        return SP_OK;
    if ((st = find_kind(w, model, len))) return st;
    if (w->kind == SP_GGUF_BYTE_LEVEL && !w->rules.ranked) {
        if ((st = sp_gguf_pre_find(&w->pre, w->file, w->err))) return st;
        if (w->pre->flags & SP_GGUF_PRE_PIECES) w->kind = SP_GGUF_MERGES;
    }
    scored = w->kind == SP_GGUF_PIECES || w->kind == SP_GGUF_UNIGRAM;
    pieces = scored || w->kind == SP_GGUF_MERGES;
    st = sp_gguf_tokens_read(&w->tokens, w->file, pieces, scored || w->rules.ranked, w->err);
    w->tokens.unique = w->rules.ranked != NULL;
    return st || w->kind != SP_GGUF_WORDPIECE ? st
                                              : sp_gguf_tokens_restore_words(&w->tokens, w->err);
}

static void write_tokenizer(struct sp_gguf_token_writer *w)
{
    static void (*const models[])(struct sp_gguf_token_writer *) = {
        [SP_GGUF_BYTE_LEVEL] = put_byte_level,
        [SP_GGUF_PIECES] = put_pieces,
        [SP_GGUF_MERGES] = put_pieces,
        [SP_GGUF_UNIGRAM] = sp_gguf_token_put_unigram,
        [SP_GGUF_WORDPIECE] = sp_gguf_token_put_wordpiece,
    };

    sp_json_out_raw(&w->out,
                    "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(w);
    models[w->kind](w);
}

static void write_tokenizer_config(struct sp_gguf_token_writer *w)
{
    static const struct {
        const char *key, *published;
    } tokens[N_SPECIALS] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},
        {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.padding_token_id", "pad_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},
    };
    bool add_bos = sp_gguf_token_flag(w, "tokenizer.ggml.add_bos_token", adds_bos(w));

    sp_json_out_print(&w->out, "{\n  \"add_bos_token\": %s", add_bos ? "true" : "false");
    for (size_t i = 0; i < N_SPECIALS; i++) {
        uint64_t id;
        const struct sp_gguf_token *t = sp_gguf_token_find(w, tokens[i].key, &id);
        if (t == NULL) continue;
        sp_json_out_print(&w->out, ",\n  \"%s\": ", tokens[i].published);
        sp_json_out_quoted(&w->out, t->text, t->len);
    }
    sp_json_out_raw(&w->out, ",\n  \"clean_up_tokenization_spaces\": false,\n  "
                             "\"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
}

static enum sp_status make_text(struct sp_text *text, struct sp_gguf_token_writer w,
                                void (*write)(struct sp_gguf_token_writer *))
{
    *text = (struct sp_text){0};
    w.st = read_vocabulary(&w);
    if (!w.st && w.tokens.n) write(&w);
    if (!w.st && w.tokens.n) w.st = sp_json_out_take(text, &w.out, w.err);
    sp_strbuf_release(&w.out.text);
    sp_gguf_tokens_release(&w.tokens);
    return w.st;
}

enum sp_status sp_gguf_tokenizer_text(struct sp_text *text, const struct sp_gguf *file,
                                      const struct sp_gguf_token_rules *rules, struct sp_err *err)
{
    struct sp_gguf_token_writer w = {.file = file, .err = err};

    if (rules) w.rules = *rules;
    w.pre = w.rules.ranked;
    return make_text(text, w, write_tokenizer);
}

enum sp_status sp_gguf_tokenizer_config_text(struct sp_text *text, const struct sp_gguf *file,
                                             struct sp_err *err)
{
    return make_text(text, (struct sp_gguf_token_writer){.file = file, .err = err},
                     write_tokenizer_config);
}

enum sp_status sp_gguf_template_text(struct sp_text *text, const struct sp_gguf *file,
                                     char **warnings, struct sp_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    const char *found = NULL;
    size_t n;
    const struct sp_gguf_value *values = sp_gguf_values(file, &n);
    enum sp_status st;

    *text = (struct sp_text){0};
    for (size_t i = 0; i < n; i++) {
        if (strncmp(values[i].key, key, sizeof key - 1) != 0 ||
            values[i].key[sizeof key - 1] != '.')
            continue;
        st = sp_warn(warnings, err, "%s: %.*s is ignored, only %s is used", sp_gguf_path(file),
                     SP_GGUF_SHOWN, values[i].key, key);
        if (st) return st;
    }
    if ((st = sp_gguf_get_text(file, key, &found, &text->size, err)) || found == NULL) return st;
    if (sp_utf8_valid(found, text->size) != text->size || memchr(found, 0, text->size))
        return sp_fail(err, SP_E_INPUT, "%s is not UTF-8 text", key);
    return sp_copy_text(&text->at, found, text->size, err);
}
