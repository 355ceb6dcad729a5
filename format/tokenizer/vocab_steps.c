/* Each component type of tokenizer.json is one function that appends the steps it amounts to; a
 * table per kind of component maps type names to functions. Sequences are flattened. What the
 * components mean was read off the behavior of the `tokenizers` library. */
#include "format/tokenizer/vocab.h"

#include "format/base/mem.h"

#include <string.h>

enum { MAX_NESTING = 8 };

typedef enum sp_status read_fn(void *into, const struct sp_json *v, struct sp_err *err);

/* Without `read`, the component is one step that depends on no member, or none (kind 0). */
struct component {
    const char *type;
    read_fn *read;
    struct sp_step step;
};

/* One kind of component: what it is called, the member a Sequence keeps its parts in, its types. */
struct kind {
    const char *name, *parts;
    const struct component *types;
    size_t n_types;
};

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* The word characters of Rust's regex crate, which the Whitespace pre-tokenizer uses. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"
static const char word_pattern[] = "[" WORD "]+|[^\\s" WORD "]+";
static const char space_pattern[] = "\\s";
static const char punctuation_pattern[] = "[\\p{P}$+<=>\\^`|~]";

static enum sp_status add(struct sp_steps *out, struct sp_step step, struct sp_err *err)
{
    if (out->n == SP_MAX_STEPS)
        return sp_fail(err, SP_E_UNSUPPORTED, "more than %d steps in one chain", SP_MAX_STEPS);
    if (step.text_len > SP_MAX_STEP_TEXT) {
        return sp_fail(err, SP_E_UNSUPPORTED, "a text of %zu bytes, at most %d are supported",
                       step.text_len, SP_MAX_STEP_TEXT);
    }
    out->at[out->n++] = step;
    return SP_OK;
}

static enum sp_status read_component(const struct component *component, void *into,
                                     const struct sp_json *v, struct sp_err *err)
{
    if (component->read) return component->read(into, v, err);
    return component->step.kind ? add(into, component->step, err) : SP_OK;
}

static enum sp_status read_one(const struct kind *kind, void *into, const struct sp_json *v,
                               struct sp_err *err)
{
    const char *type = sp_json_get_text(v, "type");
    enum sp_status st;

    if (type == NULL)
        return sp_fail(err, SP_E_INPUT, "%s: expected an object with a \"type\"", kind->name);
    for (size_t i = 0; i < kind->n_types; i++) {
        if (strcmp(kind->types[i].type, type) != 0) continue;
        st = read_component(&kind->types[i], into, v, err);
        if (st) sp_context(err, "%s %s", kind->name, type);
        return st;
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "%s type %s is not supported", kind->name, type);
}

static bool is_type(const struct sp_json *v, const char *wanted)
{
    const char *type = sp_json_get_text(v, "type");

    return type != NULL && strcmp(type, wanted) == 0;
}

/* Visits the components in order, Sequences within Sequences included. */
static enum sp_status read_all(const struct kind *kind, void *into, const struct sp_json *root,
                               struct sp_err *err)
{
    struct level {
        const struct sp_json *parts;
        size_t i;
    } stack[MAX_NESTING];
    size_t depth = 0;
    const struct sp_json *v = root;
    enum sp_status st;

    if (root == NULL) return SP_OK;
    for (;;) {
        if (is_type(v, "Sequence")) {
            const struct sp_json *parts = sp_json_get(v, kind->parts);
            if (sp_json_kind(parts) != SP_JSON_ARRAY) {
                return sp_fail(err, SP_E_INPUT, "%s Sequence: %s: expected a list", kind->name,
                               kind->parts);
            }
            if (depth == MAX_NESTING) {
                return sp_fail(err, SP_E_UNSUPPORTED, "%s: more than %d nested Sequences",
                               kind->name, MAX_NESTING);
            }
            stack[depth++] = (struct level){parts, 0};
        } else if ((st = read_one(kind, into, v, err))) {
            return st;
        }
        while (depth && stack[depth - 1].i == sp_json_len(stack[depth - 1].parts))
            depth--;
        if (depth == 0) return SP_OK;
        v = sp_json_at(stack[depth - 1].parts, stack[depth - 1].i++);
    }
}

/* ---- members of components --------------------------------------------------------------------
 */

static enum sp_status get_text(const struct sp_json *v, const char *key, const char **text,
                               size_t *len, struct sp_err *err)
{
    *text = sp_json_to_string(sp_json_get(v, key), len);
    return *text ? SP_OK : sp_fail(err, SP_E_INPUT, "%s: expected a string", key);
}

/* A member that must be exactly one character. */
static enum sp_status get_char(const struct sp_json *v, const char *key, const char **text,
                               size_t *len, struct sp_err *err)
{
    size_t n_chars = 0;
    enum sp_status st;

    if ((st = get_text(v, key, text, len, err))) return st;
    for (size_t i = 0; i < *len; i++)
        n_chars += ((uint8_t)(*text)[i] & 0xC0) != 0x80;
    if (n_chars == 1) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s is \"%s\", expected one character", key, *text);
}

static enum sp_status get_count(const struct sp_json *v, const char *key, uint32_t *out,
                                struct sp_err *err)
{
    int64_t n = 0;
    enum sp_status st;

    if ((st = sp_json_get_i64(v, key, 0, INT32_MAX, &n, err))) return st;
    *out = (uint32_t)n;
    return SP_OK;
}

static enum sp_status get_pattern(const struct sp_json *v, struct sp_step *step, struct sp_err *err)
{
    const struct sp_json *pattern = sp_json_get(v, "pattern");
    bool regex = sp_json_has(pattern, "Regex");
    const char *key = regex ? "Regex" : "String";
    enum sp_status st;

    if ((st = get_text(pattern, key, &step->pattern, &step->pattern_len, err))) {
        sp_context(err, "pattern");
        return st;
    }
    if (regex) step->flags |= SP_STEP_REGEX;
    if (step->pattern_len) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "an empty pattern is not supported");
}

static enum sp_status get_behavior(const struct sp_json *v, const char *fallback, uint32_t *out,
                                   struct sp_err *err)
{
    static const char *const names[SP_N_SPLITS] = {
        [SP_SPLIT_ISOLATED] = "Isolated",
        [SP_SPLIT_REMOVED] = "Removed",
        [SP_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SP_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SP_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = fallback;
    enum sp_status st;

    if ((st = sp_json_get_string(v, "behavior", &name, err))) return st;
    if (name == NULL) return sp_fail(err, SP_E_INPUT, "behavior is missing");
    for (uint32_t i = 0; i < SP_N_SPLITS; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = i;
            return SP_OK;
        }
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "behavior %s is not supported", name);
}

static enum sp_status add_split(struct sp_steps *out, const char *pattern, enum sp_split behavior,
                                unsigned flags, struct sp_err *err)
{
    return add(out,
               (struct sp_step){.kind = SP_STEP_SPLIT,
                                .flags = SP_STEP_REGEX | flags,
                                .a = behavior,
                                .pattern = pattern,
                                .pattern_len = strlen(pattern)},
               err);
}

/* ---- normalizers ------------------------------------------------------------------------------
 */

static enum sp_status read_prepend(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_PREFIX};
    enum sp_status st;

    if ((st = get_text(v, "prepend", &step.text, &step.text_len, err))) return st;
    return add(into, step, err);
}

static enum sp_status add_replace(struct sp_steps *out, const char *pattern, bool is_regex,
                                  const char *text, struct sp_err *err)
{
    return add(out,
               (struct sp_step){.kind = SP_STEP_REPLACE,
                                .flags = is_regex ? SP_STEP_REGEX : 0,
                                .pattern = pattern,
                                .pattern_len = strlen(pattern),
                                .text = text,
                                .text_len = strlen(text)},
               err);
}

/* The characters that BertNormalizer removes, and those that it makes spaces. */
static const char bert_removed[] =
    "[\\x{0}-\\x{8}\\x{B}\\x{C}\\x{E}-\\x{1F}\\x{7F}-\\x{9F}\\x{FFFD}\\p{Cf}\\p{Co}]";
static const char bert_spaces[] = "\\s";
/* Chinese characters as the tokenizers library lists them. */
#define HAN                                                                                        \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"            \
    "\\x{2B740}-\\x{2B81F}\\x{2B920}-\\x{2CEAF}\\x{F900}-\\x{FAFF}\\x{2F800}-\\x{2FA1F}]"

/* Accents are stripped where the letters become small, unless the file states otherwise. */
static enum sp_status read_bert_normalizer(void *into, const struct sp_json *v, struct sp_err *err)
{
    bool clean = true, lowercase = true, accents;
    enum sp_status st;

    if ((st = sp_json_get_bool(v, "clean_text", &clean, err))) return st;
    if ((st = sp_json_get_bool(v, "lowercase", &lowercase, err))) return st;
    accents = lowercase;
    if ((st = sp_json_get_bool(v, "strip_accents", &accents, err))) return st;
    if (clean && ((st = add_replace(into, bert_removed, true, "", err)) ||
                  (st = add_replace(into, bert_spaces, true, " ", err))))
        return st;
    if (accents && ((st = add(into, (struct sp_step){.kind = SP_STEP_NFD}, err)) ||
                    (st = add_replace(into, "\\p{Mn}", true, "", err))))
        return st;
    return lowercase ? add(into, (struct sp_step){.kind = SP_STEP_LOWERCASE}, err) : SP_OK;
}

static enum sp_status read_precompiled(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_CHARSMAP};
    enum sp_status st;

    if ((st = get_text(v, "precompiled_charsmap", &step.pattern, &step.pattern_len, err)))
        return st;
    return add(into, step, err);
}

/* White space at the ends of the text. */
static enum sp_status read_strip_normalizer(void *into, const struct sp_json *v, struct sp_err *err)
{
    bool left = true, right = true;
    enum sp_status st;

    if ((st = sp_json_get_bool(v, "strip_left", &left, err))) return st;
    if ((st = sp_json_get_bool(v, "strip_right", &right, err))) return st;
    if (left && (st = add_replace(into, "\\A\\s+", true, "", err))) return st;
    return right ? add_replace(into, "\\s+\\z", true, "", err) : SP_OK;
}

/* Reads the steps of a normalizer or a decoder. */
static enum sp_status read_replace(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_REPLACE};
    enum sp_status st;

    if ((st = get_pattern(v, &step, err))) return st;
    if ((st = get_text(v, "content", &step.text, &step.text_len, err))) return st;
    return add(into, step, err);
}

/* ---- pre-tokenizers ---------------------------------------------------------------------------
 */

static enum sp_status read_split(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT};
    bool invert = false;
    enum sp_status st;

    if ((st = get_pattern(v, &step, err))) return st;
    if ((st = get_behavior(v, NULL, &step.a, err))) return st;
    if ((st = sp_json_get_bool(v, "invert", &invert, err))) return st;
    if (invert) step.flags |= SP_STEP_INVERT;
    return add(into, step, err);
}

static enum sp_status read_digits(void *into, const struct sp_json *v, struct sp_err *err)
{
    bool individual = false;
    enum sp_status st;

    if ((st = sp_json_get_bool(v, "individual_digits", &individual, err))) return st;
    return add_split(into, "\\p{N}", individual ? SP_SPLIT_ISOLATED : SP_SPLIT_CONTIGUOUS, 0, err);
}

static enum sp_status read_byte_level(void *into, const struct sp_json *v, struct sp_err *err)
{
    bool add_prefix = true, use_regex = true;
    enum sp_status st;

    if ((st = sp_json_get_bool(v, "add_prefix_space", &add_prefix, err))) return st;
    if ((st = sp_json_get_bool(v, "use_regex", &use_regex, err))) return st;
    if (add_prefix) {
        st = add(into,
                 (struct sp_step){
                     .kind = SP_STEP_PREFIX, .a = SP_PREFIX_UNLESS, .text = " ", .text_len = 1},
                 err);
        if (st) return st;
    }
    if (use_regex && (st = add_split(into, gpt2_pattern, SP_SPLIT_ISOLATED, 0, err))) return st;
    return add(into, (struct sp_step){.kind = SP_STEP_BYTE_LEVEL}, err);
}

/* Older files say add_prefix_space instead of prepend_scheme. */
static enum sp_status get_scheme(const struct sp_json *v, bool *prepend, uint32_t *when,
                                 struct sp_err *err)
{
    const char *scheme = NULL;
    bool add_prefix = true;
    enum sp_status st;

    if ((st = sp_json_get_bool(v, "add_prefix_space", &add_prefix, err))) return st;
    if ((st = sp_json_get_string(v, "prepend_scheme", &scheme, err))) return st;
    if (scheme == NULL) scheme = add_prefix ? "always" : "never";
    *prepend = strcmp(scheme, "never") != 0;
    *when = strcmp(scheme, "first") == 0 ? SP_PREFIX_AT_START : SP_PREFIX_UNLESS;
    if (*prepend && *when == SP_PREFIX_UNLESS && strcmp(scheme, "always") != 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "prepend_scheme %s is not supported", scheme);
    return SP_OK;
}

static enum sp_status read_metaspace(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step replace = {.kind = SP_STEP_REPLACE, .pattern = " ", .pattern_len = 1};
    struct sp_step prefix = {.kind = SP_STEP_PREFIX};
    struct sp_step split = {.kind = SP_STEP_SPLIT, .a = SP_SPLIT_MERGED_WITH_NEXT};
    bool prepend, cut = true;
    enum sp_status st;

    if ((st = get_char(v, "replacement", &replace.text, &replace.text_len, err))) return st;
    if ((st = get_scheme(v, &prepend, &prefix.a, err))) return st;
    if ((st = sp_json_get_bool(v, "split", &cut, err))) return st;
    prefix.text = split.pattern = replace.text;
    prefix.text_len = split.pattern_len = replace.text_len;
    if ((st = add(into, replace, err))) return st;
    if (prepend && (st = add(into, prefix, err))) return st;
    return cut ? add(into, split, err) : SP_OK;
}

static enum sp_status read_punctuation(void *into, const struct sp_json *v, struct sp_err *err)
{
    uint32_t behavior = SP_SPLIT_ISOLATED;
    enum sp_status st;

    if ((st = get_behavior(v, "Isolated", &behavior, err))) return st;
    return add_split(into, punctuation_pattern, (enum sp_split)behavior, 0, err);
}

static enum sp_status read_bert(void *into, const struct sp_json *v, struct sp_err *err)
{
    enum sp_status st;

    (void)v;
    if ((st = add_split(into, space_pattern, SP_SPLIT_REMOVED, 0, err))) return st;
    return add_split(into, punctuation_pattern, SP_SPLIT_ISOLATED, 0, err);
}

static enum sp_status read_char_delimiter(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT, .a = SP_SPLIT_REMOVED};
    enum sp_status st;

    if ((st = get_char(v, "delimiter", &step.pattern, &step.pattern_len, err))) return st;
    return add(into, step, err);
}

static enum sp_status read_fixed_length(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_FIXED_LENGTH, .a = 5};
    enum sp_status st;

    if ((st = get_count(v, "length", &step.a, err))) return st;
    if (step.a == 0) return sp_fail(err, SP_E_INPUT, "length is 0, expected at least 1");
    return add(into, step, err);
}

/* ---- decoders ---------------------------------------------------------------------------------
 */

static enum sp_status read_strip(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_STRIP};
    enum sp_status st;

    if ((st = get_char(v, "content", &step.text, &step.text_len, err))) return st;
    if ((st = get_count(v, "start", &step.a, err))) return st;
    if ((st = get_count(v, "stop", &step.b, err))) return st;
    return add(into, step, err);
}

static enum sp_status read_metaspace_decoder(void *into, const struct sp_json *v,
                                             struct sp_err *err)
{
    struct sp_step step = {.kind = SP_STEP_METASPACE};
    uint32_t when;
    bool prepend;
    enum sp_status st;

    if ((st = get_char(v, "replacement", &step.text, &step.text_len, err))) return st;
    if ((st = get_scheme(v, &prepend, &when, err))) return st;
    step.a = prepend;
    return add(into, step, err);
}

/* Tokens inside a word follow without a space; with `cleanup` so do some punctuation and the
 * endings that English contracts. */
static enum sp_status read_wordpiece_decoder(void *into, const struct sp_json *v,
                                             struct sp_err *err)
{
    static const char *const endings[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},
                                             {" ,", ","},   {" n't", "n't"}, {" 'm", "'m"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    const char *prefix = "##";
    bool cleanup = true;
    enum sp_status st;

    if ((st = sp_json_get_string(v, "prefix", &prefix, err))) return st;
    if ((st = sp_json_get_bool(v, "cleanup", &cleanup, err))) return st;
    if (strcmp(prefix, "##") != 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "prefix \"%s\" is not supported", prefix);
    st = add(into, (struct sp_step){.kind = SP_STEP_JOIN, .text = " ", .text_len = 1}, err);
    if (!st) st = add(into, (struct sp_step){.kind = SP_STEP_FUSE}, err);
    if (!st) st = add_replace(into, " ##", false, "", err);
    for (size_t i = 0; cleanup && i < sizeof endings / sizeof *endings && !st; i++)
        st = add_replace(into, endings[i][0], false, endings[i][1], err);
    return st;
}

/* ---- post-processors --------------------------------------------------------------------------
 */

static enum sp_status append_ids(uint32_t **ids, size_t *n, const struct sp_json *list,
                                 const char *name, struct sp_err *err)
{
    size_t len = sp_json_len(list), cap = *n;
    enum sp_status st;

    if (sp_json_kind(list) != SP_JSON_ARRAY || len == 0)
        return sp_fail(err, SP_E_INPUT, "special_tokens: %s has no list of ids", name);
    if ((st = sp_grow(ids, &cap, *n + len, sizeof **ids, err))) return st;
    for (size_t i = 0; i < len; i++) {
        uint64_t id;
        if (!sp_json_to_u64(sp_json_at(list, i), &id) || id >= SP_ID_NONE) {
            return sp_fail(err, SP_E_INPUT, "special_tokens: %s: ids[%zu] is not a token ID", name,
                           i);
        }
        (*ids)[(*n)++] = (uint32_t)id;
    }
    return SP_OK;
}

static enum sp_status read_piece(struct sp_vocab *vocab, bool *seen_text,
                                 const struct sp_json *piece, const struct sp_json *table,
                                 struct sp_err *err)
{
    const struct sp_json *special = sp_json_get(piece, "SpecialToken");
    const struct sp_json *sequence = sp_json_get(piece, "Sequence");
    const char *name = NULL;
    enum sp_status st;

    if ((st = sp_json_get_string(special ? special : sequence, "id", &name, err))) return st;
    if (name == NULL) return sp_fail(err, SP_E_INPUT, "single: expected SpecialToken or Sequence");
    if (special) {
        const struct sp_json *ids = sp_json_get(sp_json_get(table, name), "ids");
        return *seen_text ? append_ids(&vocab->suffix, &vocab->n_suffix, ids, name, err)
                          : append_ids(&vocab->prefix, &vocab->n_prefix, ids, name, err);
    }
    if (strcmp(name, "A") != 0 || *seen_text) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "single: only one Sequence, \"A\", is supported, found \"%s\"", name);
    }
    *seen_text = true;
    return SP_OK;
}

static enum sp_status read_template(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_vocab *vocab = into;
    const struct sp_json *single = sp_json_get(v, "single");
    bool seen_text = false;
    enum sp_status st;

    if (sp_json_kind(single) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "single: expected a list");
    if (vocab->has_template)
        return sp_fail(err, SP_E_UNSUPPORTED, "a second template is not supported");
    vocab->has_template = true;
    for (size_t i = 0; i < sp_json_len(single); i++) {
        st = read_piece(vocab, &seen_text, sp_json_at(single, i), sp_json_get(v, "special_tokens"),
                        err);
        if (st) return st;
    }
    if (seen_text) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "single: a template without the text is not supported");
}

/* "cls" before the text and "sep" after it, each a pair of a token and its id. */
static enum sp_status read_bert_processing(void *into, const struct sp_json *v, struct sp_err *err)
{
    struct sp_vocab *vocab = into;
    uint64_t cls, sep;
    enum sp_status st;

    if (!sp_json_to_u64(sp_json_at(sp_json_get(v, "cls"), 1), &cls) || cls >= SP_ID_NONE ||
        !sp_json_to_u64(sp_json_at(sp_json_get(v, "sep"), 1), &sep) || sep >= SP_ID_NONE)
        return sp_fail(err, SP_E_INPUT, "cls and sep: expected a token and its id");
    if (vocab->has_template)
        return sp_fail(err, SP_E_UNSUPPORTED, "a second template is not supported");
    vocab->has_template = true;
    if ((st = sp_new(&vocab->prefix, 1, sizeof *vocab->prefix, err))) return st;
    if ((st = sp_new(&vocab->suffix, 1, sizeof *vocab->suffix, err))) return st;
    vocab->prefix[vocab->n_prefix++] = (uint32_t)cls;
    vocab->suffix[vocab->n_suffix++] = (uint32_t)sep;
    return SP_OK;
}

/* ---- tables -----------------------------------------------------------------------------------
 */

#define SPLIT(text, behavior, how)                                                                 \
    {                                                                                              \
        .kind = SP_STEP_SPLIT, .flags = SP_STEP_REGEX | (how), .a = behavior, .pattern = text,     \
        .pattern_len = sizeof text - 1                                                             \
    }

static const struct component normalizers[] = {
    {.type = "NFC", .step = {.kind = SP_STEP_NFC}},
    {.type = "NFD", .step = {.kind = SP_STEP_NFD}},
    {.type = "NFKC", .step = {.kind = SP_STEP_NFKC}},
    {.type = "NFKD", .step = {.kind = SP_STEP_NFKD}},
    {.type = "Lowercase", .step = {.kind = SP_STEP_LOWERCASE}},
    {.type = "StripAccents", .step = {.kind = SP_STEP_STRIP_ACCENTS}},
    {.type = "Prepend", .read = read_prepend},
    {.type = "Replace", .read = read_replace},
    {.type = "ByteLevel", .step = {.kind = SP_STEP_BYTE_LEVEL}},
    {.type = "BertNormalizer", .read = read_bert_normalizer},
    {.type = "Precompiled", .read = read_precompiled},
    {.type = "Strip", .read = read_strip_normalizer},
};

static const struct component splitters[] = {
    {.type = "Split", .read = read_split},
    {.type = "Digits", .read = read_digits},
    {.type = "ByteLevel", .read = read_byte_level},
    {.type = "Metaspace", .read = read_metaspace},
    {.type = "Whitespace", .step = SPLIT(word_pattern, SP_SPLIT_REMOVED, SP_STEP_INVERT)},
    {.type = "WhitespaceSplit", .step = SPLIT(space_pattern, SP_SPLIT_REMOVED, 0)},
    {.type = "Punctuation", .read = read_punctuation},
    {.type = "BertPreTokenizer", .read = read_bert},
    {.type = "CharDelimiterSplit", .read = read_char_delimiter},
    {.type = "FixedLength", .read = read_fixed_length},
};

static const struct component decoders[] = {
    {.type = "ByteLevel", .step = {.kind = SP_STEP_BYTE_LEVEL}},
    {.type = "Replace", .read = read_replace},
    {.type = "ByteFallback", .step = {.kind = SP_STEP_BYTE_FALLBACK}},
    {.type = "Fuse", .step = {.kind = SP_STEP_FUSE}},
    {.type = "Strip", .read = read_strip},
    {.type = "Metaspace", .read = read_metaspace_decoder},
    {.type = "WordPiece", .read = read_wordpiece_decoder},
};

static const struct component processors[] = {
    {.type = "TemplateProcessing", .read = read_template},
    {.type = "BertProcessing", .read = read_bert_processing},
    {.type = "RobertaProcessing", .read = read_bert_processing},
    {.type = "ByteLevel"}, /* moves offsets only */
};

#define TABLE(types) types, sizeof types / sizeof *types

static const struct kind kinds[] = {
    {"normalizer", "normalizers", TABLE(normalizers)},
    {"pre_tokenizer", "pretokenizers", TABLE(splitters)},
    {"decoder", "decoders", TABLE(decoders)},
    {"post_processor", "processors", TABLE(processors)},
};

/* The BertNormalizer of a normalizer; NULL: it has none. */
static const struct sp_json *find_bert(const struct sp_json *normalizer)
{
    const struct sp_json *parts = sp_json_get(normalizer, "normalizers");

    if (is_type(normalizer, "BertNormalizer")) return normalizer;
    for (size_t i = 0; i < sp_json_len(parts); i++)
        if (is_type(sp_json_at(parts, i), "BertNormalizer")) return sp_json_at(parts, i);
    return NULL;
}

/* BertNormalizer puts spaces around Chinese characters, unless it says otherwise. Where
 * BertPreTokenizer splits at spaces afterwards, a step of the splitter that isolates these
 * characters gives the same pieces. The normalizer is read, the splitter is not. */
static enum sp_status add_han(struct sp_steps *normalizer, struct sp_steps *splitter,
                              const struct sp_json *root, struct sp_err *err)
{
    const struct sp_json *bert = find_bert(sp_json_get(root, "normalizer"));
    struct sp_step spaces[2];
    bool han = true;
    size_t at = 0;
    enum sp_status st;

    if ((st = sp_json_get_bool(bert, "handle_chinese_chars", &han, err))) return st;
    if (bert == NULL || !han) return SP_OK;
    if (is_type(sp_json_get(root, "pre_tokenizer"), "BertPreTokenizer"))
        return add_split(splitter, HAN, SP_SPLIT_ISOLATED, 0, err);
    while (at < normalizer->n && normalizer->at[at].kind == SP_STEP_REPLACE)
        at++; /* behind what cleans the text, before accents and capitals */
    if ((st = add_replace(normalizer, "(?=" HAN ")", true, " ", err))) return st;
    if ((st = add_replace(normalizer, "(?<=" HAN ")", true, " ", err))) return st;
    memcpy(spaces, normalizer->at + normalizer->n - 2, sizeof spaces);
    memmove(normalizer->at + at + 2, normalizer->at + at,
            (normalizer->n - 2 - at) * sizeof *normalizer->at);
    memcpy(normalizer->at + at, spaces, sizeof spaces);
    return SP_OK;
}

enum sp_status sp_vocab_read_steps(struct sp_vocab *vocab, struct sp_err *err)
{
    static const struct sp_step join = {.kind = SP_STEP_JOIN, .text = " ", .text_len = 1};
    const struct sp_json *root = vocab->json;
    void *const into[] = {&vocab->normalizer, &vocab->splitter, &vocab->decoder, vocab};
    enum sp_status st;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if ((st = read_all(&kinds[i], into[i], sp_json_get(root, kinds[i].name), err))) return st;
        if (i == 0 && (st = add_han(&vocab->normalizer, &vocab->splitter, root, err))) return st;
    }
    return sp_json_get(root, "decoder") ? SP_OK : add(&vocab->decoder, join, err);
}
