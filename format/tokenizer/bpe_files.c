/* Byte-level BPE alone: its two files hold everything but the rule that splits texts, which the
 * class of the tokenizer implies. */
#include "format/tokenizer/bpe_files.h"

#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/json/json_write.h"
#include "format/tokenizer/older_files.h"
#include "format/tokenizer/tekken.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 64 << 20 };

#define BYTE_LEVEL(regex)                                                                          \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "              \
    "\"use_regex\": " regex "}"

/* The members in front of the model, by tokenizer_class without "Fast". */
static const struct {
    const char *class, *members;
} classes[] = {
    {"GPT2Tokenizer", "\"normalizer\": null, \"pre_tokenizer\": " BYTE_LEVEL("true")},
    {"Qwen2Tokenizer",
     "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
     "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
     "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}"
     "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
     "\"behavior\": \"Isolated\", \"invert\": false}, " BYTE_LEVEL("false") "]}"},
};

static const char *members_of(const struct sp_json *config)
{
    size_t len = 0;
    const char *class = sp_json_to_string(sp_json_get(config, "tokenizer_class"), &len);

    if (class && sp_ends_with(class, "Fast")) len -= strlen("Fast");
    for (size_t i = 0; class && i < sizeof classes / sizeof *classes; i++)
        if (sp_is_word(class, len, classes[i].class)) return classes[i].members;
    return NULL;
}

/* The lines of merges.txt; the first may state a version. */
static void put_merges(struct sp_json_out *out, const char *merges)
{
    for (const char *at = merges; *at;) {
        size_t len = strcspn(at, "\r\n");
        if (len && !(at == merges && sp_begins_with(at, "#version")))
            sp_json_out_string(out, NULL, at, len);
        at += len + (at[len] != 0);
    }
}

/* The beginning of texts that add_bos_token asks for. */
static enum sp_status put_beginning(struct sp_json_out *out, const struct sp_json *config,
                                    const struct sp_json *vocab, struct sp_err *err)
{
    const struct sp_json *token = sp_json_get(config, "bos_token");
    bool adds = false;
    uint64_t id;
    size_t len;
    const char *text;
    enum sp_status st;

    if (sp_json_kind(token) == SP_JSON_OBJECT) token = sp_json_get(token, "content");
    text = sp_json_to_string(token, &len);
    if ((st = sp_json_get_bool(config, "add_bos_token", &adds, err))) return st;
    if (!adds) return SP_OK;
    if (text == NULL || !sp_json_to_u64(sp_json_get(vocab, text), &id))
        return sp_fail(err, SP_E_UNSUPPORTED, "add_bos_token, but bos_token is not in vocab.json");
    sp_json_out_raw(out, ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                         "[{\"SpecialToken\": {\"id\": \"bos\", \"type_id\": 0}}, "
                         "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]");
    sp_json_out_print(out, ", \"special_tokens\": {\"bos\": {\"id\": \"bos\", \"ids\": [%llu], ",
                      (unsigned long long)id);
    sp_json_out_raw(out, "\"tokens\": [");
    sp_json_out_quoted(out, text, len);
    sp_json_out_raw(out, "]}}}");
    return SP_OK;
}

enum sp_status sp_bpe_files_read(struct sp_text *text, const char *folder,
                                 const struct sp_text *config, struct sp_err *err)
{
    struct sp_json *root = NULL, *words = NULL;
    struct sp_json_out out = {0};
    struct sp_text vocab = {0}, merges = {0};
    const char *members;
    enum sp_status st;

    *text = (struct sp_text){0};
    if ((st = sp_tokenizer_config_parse(&root, config, folder, err))) goto done;
    if ((members = members_of(root)) == NULL) goto done;
    if ((st = sp_file_read_in(&vocab, folder, "vocab.json", MAX_TEXT, err))) goto done;
    if ((st = sp_file_read_in(&merges, folder, "merges.txt", MAX_TEXT, err))) goto done;
    if (vocab.at == NULL || merges.at == NULL) goto done;
    if ((st = sp_json_parse(&words, vocab.at, vocab.size, SP_JSON_LENIENT, err))) {
        sp_context(err, "%s/vocab.json", folder);
        goto done;
    }
    sp_json_out_raw(&out, "{");
    sp_json_out_raw(&out, members);
    if ((st = put_beginning(&out, root, words, err))) goto done;
    sp_json_out_raw(&out, ", \"decoder\": " BYTE_LEVEL("true") ", \"model\": {\"type\": \"BPE\", ");
    sp_json_out_written(&out, "vocab", vocab.at, vocab.size);
    sp_json_out_begin(&out, "merges", '[');
    put_merges(&out, merges.at);
    sp_json_out_end(&out, ']');
    sp_json_out_raw(&out, "}}");
    st = sp_json_out_take(text, &out, err);
done:
    sp_json_free(root);
    sp_json_free(words);
    sp_strbuf_release(&out.text);
    free(vocab.at);
    free(merges.at);
    if (st || text->at) return st;
    st = sp_sentencepiece_read(text, folder, config, err);
    return st || text->at ? st : sp_tekken_read(text, folder, err);
}

enum sp_status sp_tokenizer_files_fail(const char *folder, struct sp_err *err)
{
    static const char *const others[] = {"tokenizer.model", "merges.txt", "vocab.txt",
                                         "spiece.model", "tiktoken.model"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!sp_file_exists_in(folder, others[i])) continue;
        return sp_fail(err, SP_E_INPUT,
                       "%s: no tokenizer.json, and its %s is not read; "
                       "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of "
                       "transformers makes tokenizer.json of it",
                       folder, others[i]);
    }
    return sp_fail(err, SP_E_INPUT, "%s: no tokenizer.json", folder);
}
