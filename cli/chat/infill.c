#include "cli/chat/loaded_model.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The names of a family's tokens; NULL: it has none. */
struct names {
    const char *prefix, *suffix, *middle;
    const char *repository[2], *file[2];
};

static const struct names families[] = {
    /* Qwen2.5-Coder (arXiv 2409.12186), Granite 4 */
    {"<|fim_prefix|>",
     "<|fim_suffix|>",
     "<|fim_middle|>",
     {"<|repo_name|>", "<|fim_repo|>"},
     {"<|file_sep|>", NULL}},
    /* StarCoder, StarCoder 2 (arXiv 2402.19173), Granite Code */
    {"<fim_prefix>",
     "<fim_suffix>",
     "<fim_middle>",
     {"<repo_name>", "<reponame>"},
     {"<file_sep>", "<filename>"}},
    /* SantaCoder */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", {NULL, NULL}, {NULL, NULL}},
    /* DeepSeek-Coder: <|fim_begin|>, <|fim_hole|>, <|fim_end|> with U+FF5C and U+2581 */
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "hole\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>",
     {NULL, NULL},
     {NULL, NULL}},
    /* CodeLlama (arXiv 2308.12950), in either spelling of its space, U+2581 */
    {"\xE2\x96\x81<PRE>", "\xE2\x96\x81<SUF>", "\xE2\x96\x81<MID>", {NULL, NULL}, {NULL, NULL}},
    {"<PRE>", "<SUF>", "<MID>", {NULL, NULL}, {NULL, NULL}},
    /* GLM-4.5 */
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", {NULL, NULL}, {NULL, NULL}},
    /* Codestral: the text to generate follows the prefix */
    {"[PREFIX]", "[SUFFIX]", NULL, {NULL, NULL}, {NULL, NULL}},
};

/* Tokens that end a text beside those of the family and the model's EOS. */
static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>",   "<|fim_pad|>", "<fim_pad>",
                                   "<fim-pad>",     "\xE2\x96\x81<EOT>", "<EOT>"};

/* Encodes a text without a special token. */
static enum sp_status encode(struct sp_ids *ids, const struct sp_tokenizer *tok,
                             struct sp_infill_text text, struct sp_err *err)
{
    return sp_tokenizer_encode(tok, text.size ? text.at : "", text.size, 0, &ids->at, &ids->n, err);
}

/* *id = the added token of a name; SP_INFILL_NONE: there is none. */
static enum sp_status find_token(uint32_t *id, const struct sp_tokenizer *tok, const char *name,
                                 struct sp_err *err)
{
    struct sp_token_info info = {0};
    uint32_t *ids = NULL;
    size_t n = 0;
    enum sp_status st;

    *id = SP_INFILL_NONE;
    if (name == NULL) return SP_OK;
    st = sp_tokenizer_encode(tok, name, strlen(name), SP_ENCODE_PARSE_SPECIAL, &ids, &n, err);
    if (!st && n == 1 && sp_tokenizer_token(tok, *ids, &info) && info.added &&
        info.len == strlen(name) && memcmp(info.bytes, name, info.len) == 0)
        *id = *ids;
    free(ids);
    return st;
}

/* *id = the first token of two names. */
static enum sp_status find_either(uint32_t *id, const struct sp_tokenizer *tok,
                                  const char *const names[2], struct sp_err *err)
{
    enum sp_status st = find_token(id, tok, names[0], err);

    return st || *id != SP_INFILL_NONE ? st : find_token(id, tok, names[1], err);
}

static void add_end(struct sp_infill_tokens *t, uint32_t id)
{
    if (id != SP_INFILL_NONE && t->n_ends < SP_INFILL_MAX_ENDS) t->ends[t->n_ends++] = id;
}

static enum sp_status find_family(struct sp_infill_tokens *t, const struct sp_tokenizer *tok,
                                  const struct names *names, struct sp_err *err)
{
    enum sp_status st;

    if ((st = find_token(&t->prefix, tok, names->prefix, err))) return st;
    if ((st = find_token(&t->suffix, tok, names->suffix, err))) return st;
    if ((st = find_token(&t->middle, tok, names->middle, err))) return st;
    if ((st = find_either(&t->repository, tok, names->repository, err))) return st;
    t->suffix_first = names->middle == NULL;
    t->found = t->prefix != SP_INFILL_NONE && t->suffix != SP_INFILL_NONE &&
               (t->suffix_first || t->middle != SP_INFILL_NONE);
    return find_either(&t->file, tok, names->file, err);
}

enum sp_status sp_infill_find(struct sp_infill_tokens *out, const struct sp_tokenizer *tok,
                              struct sp_err *err)
{
    struct sp_infill_tokens t = {.found = false};
    enum sp_status st;
    uint32_t id;

    *out = t;
    for (size_t i = 0; i < sizeof families / sizeof *families && !t.found; i++)
        if ((st = find_family(&t, tok, &families[i], err))) return st;
    if (!t.found) return SP_OK;
    add_end(&t, t.repository);
    add_end(&t, t.file);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if ((st = find_token(&id, tok, ends[i], err))) return st;
        add_end(&t, id);
    }
    *out = t;
    return SP_OK;
}

/* ---- prompts ---- */

static enum sp_status append_token(struct sp_ids *to, uint32_t id, struct sp_err *err)
{
    return id == SP_INFILL_NONE ? SP_OK : sp_ids_append(to, &id, 1, err);
}

/* Encodes a text without the space that some tokenizers put before a text: the ids that follow
 * those of a character that no merge crosses, as in the reference code of CodeLlama and Mistral. */
static enum sp_status encode_inner(struct sp_ids *ids, const struct sp_tokenizer *tok,
                                   struct sp_infill_text inner, struct sp_err *err)
{
    static const char smile[] = "\xE2\x98\xBA";
    const size_t size = sizeof smile - 1;
    struct sp_ids alone = {0}, first = {0};
    struct sp_token_info info = {0};
    char *text = NULL;
    enum sp_status st;

    if ((st = encode(&first, tok, (struct sp_infill_text){"a", 1}, err))) goto done;
    if (first.n == 0 || !sp_tokenizer_token(tok, *first.at, &info) || info.len == 0 ||
        *info.bytes == 'a') {
        st = encode(ids, tok, inner, err);
        goto done;
    }
    if ((st = sp_new(&text, size + inner.size, 1, err))) goto done;
    memcpy(text, smile, size);
    if (inner.size) memcpy(text + size, inner.at, inner.size);
    if ((st = encode(&alone, tok, (struct sp_infill_text){smile, size}, err))) goto done;
    if ((st = encode(ids, tok, (struct sp_infill_text){text, size + inner.size}, err))) goto done;
    if (ids->n >= alone.n && memcmp(ids->at, alone.at, alone.n * sizeof *alone.at) == 0) {
        ids->n -= alone.n;
        memmove(ids->at, ids->at + alone.n, ids->n * sizeof *ids->at);
    } else {
        sp_ids_release(ids);
        st = encode(ids, tok, inner, err);
    }
done:
    sp_ids_release(&alone);
    sp_ids_release(&first);
    free(text);
    return st;
}

static enum sp_status append_text(struct sp_ids *to, const struct sp_tokenizer *tok,
                                  struct sp_infill_text text, struct sp_err *err)
{
    struct sp_ids ids = {0};
    enum sp_status st = encode_inner(&ids, tok, text, err);

    if (!st) st = sp_ids_append(to, ids.at, ids.n, err);
    sp_ids_release(&ids);
    return st;
}

/* The ids of an extra: its name after the file token, or after a line that separates snippets. */
static enum sp_status encode_extra(struct sp_ids *ids, const struct sp_infill_tokens *t,
                                   const struct sp_tokenizer *tok,
                                   const struct sp_infill_extra *extra, struct sp_err *err)
{
    static const struct sp_infill_text separator = {"\n\n--- snippet ---\n\n", 19},
                                       line_end = {"\n", 1};
    enum sp_status st;

    if (t->file == SP_INFILL_NONE) {
        if ((st = append_text(ids, tok, separator, err))) return st;
    } else if ((st = append_token(ids, t->file, err)) ||
               (st = append_text(ids, tok, extra->name, err)) ||
               (st = append_text(ids, tok, line_end, err))) {
        return st;
    }
    return append_text(ids, tok, extra->text, err);
}

/* Puts as many extras as fit into n_free tokens before the gap, the last ones of the list. */
static enum sp_status append_extras(struct sp_ids *to, const struct sp_infill_tokens *t,
                                    const struct sp_tokenizer *tok, const struct sp_infill_gap *gap,
                                    size_t n_free, struct sp_err *err)
{
    static const struct sp_infill_text repository = {"repository\n", 11};
    static const struct sp_infill_extra here = {{"file", 4}, {NULL, 0}};
    struct sp_ids head = {0}, own = {0}, extras = {0}, one = {0};
    enum sp_status st;

    if (gap->n_extra == 0) return SP_OK;
    if (t->repository != SP_INFILL_NONE && ((st = append_token(&head, t->repository, err)) ||
                                            (st = append_text(&head, tok, repository, err))))
        goto done;
    if (t->file != SP_INFILL_NONE && (st = encode_extra(&own, t, tok, &here, err))) goto done;
    st = SP_OK;
    for (size_t i = gap->n_extra; i-- > 0 && head.n + own.n <= n_free;) {
        if ((st = encode_extra(&one, t, tok, &gap->extra[i], err))) goto done;
        if (head.n + one.n + extras.n + own.n > n_free) break;
        if ((st = sp_ids_append(&one, extras.at, extras.n, err))) goto done;
        sp_ids_release(&extras);
        extras = one;
        one = (struct sp_ids){0};
    }
    if (extras.n > 0 && ((st = sp_ids_append(to, head.at, head.n, err)) ||
                         (st = sp_ids_append(to, extras.at, extras.n, err)) ||
                         (st = sp_ids_append(to, own.at, own.n, err))))
        goto done;
done:
    sp_ids_release(&head);
    sp_ids_release(&own);
    sp_ids_release(&extras);
    sp_ids_release(&one);
    return st;
}

/* Shortens prefix and suffix to n tokens together. */
static void cut(struct sp_ids *prefix, struct sp_ids *suffix, size_t n)
{
    size_t after = n / 4, off;

    if (prefix->n + suffix->n <= n) return;
    if (prefix->n < n - after) after = n - prefix->n;
    if (suffix->n > after) suffix->n = after;
    if (prefix->n <= n - suffix->n) return;
    off = prefix->n - (n - suffix->n);
    prefix->n -= off;
    memmove(prefix->at, prefix->at + off, prefix->n * sizeof *prefix->at);
}

static enum sp_status join(struct sp_ids *to, const struct sp_infill_tokens *t,
                           const struct sp_ids *prefix, const struct sp_ids *suffix,
                           struct sp_err *err)
{
    const struct sp_ids *parts[2] = {prefix, suffix};
    const uint32_t tokens[2] = {t->prefix, t->suffix};
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < 2 && !st; i++) {
        size_t k = t->suffix_first ? 1 - i : i;
        st = append_token(to, tokens[k], err);
        if (!st) st = sp_ids_append(to, parts[k]->at, parts[k]->n, err);
    }
    return st ? st : append_token(to, t->middle, err);
}

enum sp_status sp_infill_prompt(struct sp_ids *ids, const struct sp_infill_tokens *t,
                                const struct sp_tokenizer *tok, const struct sp_infill_gap *gap,
                                struct sp_err *err)
{
    enum { N_TOKENS = 3 };
    struct sp_ids prompt = {0}, prefix = {0}, suffix = {0};
    size_t used;
    enum sp_status st;

    if ((st = sp_tokenizer_encode(tok, "", 0, SP_ENCODE_ADD_SPECIAL, &prompt.at, &prompt.n, err)))
        goto done;
    if ((st = encode(&prefix, tok, gap->prefix, err))) goto done;
    if (gap->begun.size && (st = append_text(&prefix, tok, gap->begun, err))) goto done;
    if ((st = encode_inner(&suffix, tok, gap->suffix, err))) goto done;
    used = prompt.n + N_TOKENS;
    if (gap->n_most > used) cut(&prefix, &suffix, gap->n_most - used);
    used += prefix.n + suffix.n;
    if ((st = append_extras(&prompt, t, tok, gap,
                            gap->n_most == 0     ? SIZE_MAX
                            : used < gap->n_most ? gap->n_most - used
                                                 : 0,
                            err)))
        goto done;
    if ((st = join(&prompt, t, &prefix, &suffix, err))) goto done;
    *ids = prompt;
    prompt = (struct sp_ids){0};
done:
    sp_ids_release(&prompt);
    sp_ids_release(&prefix);
    sp_ids_release(&suffix);
    return st;
}
