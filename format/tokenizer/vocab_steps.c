/* Each component type of tokenizer.json is one function that appends the steps it amounts to; a
 * table per kind of component maps type names to functions. Sequences are flattened. What the
 * components mean was read off the behavior of the `tokenizers` library. */
#include "format/tokenizer/vocab.h"

#include "format/base/mem.h"
#include "format/tokenizer/patterns.h"

#include <string.h>

enum { MAX_NESTING = 8 };

/* The reading of a component. The first failure is kept: from then on nothing is read or added, and
 * all functions return its status. */
struct reading {
    struct sp_vocab *vocab;
    struct sp_steps *out; /* the chain that gets the steps */
    const struct sp_json *v;
    struct sp_err *err;
    enum sp_status st;
};

/* Without `read`, the component is one step that depends on no member, or none (kind 0). */
struct component {
    const char *type;
    enum sp_status (*read)(struct reading *r);
    struct sp_step step;
};

/* One kind of component: what it is called, the member a Sequence keeps its parts in, its types. */
struct kind {
    const char *name, *parts;
    const struct component *types;
    size_t n_types;
};

/* The word characters of Rust's regex crate, which the Whitespace pre-tokenizer uses. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}"
static const char word_pattern[] = "[" WORD "]+|[^\\s" WORD "]+";
static const char space_pattern[] = "\\s";
static const char punctuation_pattern[] = "[\\p{P}$+<=>\\^`|~]";

static enum sp_status add(struct reading *r, struct sp_step step)
{
    if (r->st) return r->st;
    if (r->out->n == SP_MAX_STEPS) {
        return r->st = sp_fail(r->err, SP_E_UNSUPPORTED, "more than %d steps in one chain",
                               SP_MAX_STEPS);
    }
    if (step.text_len > SP_MAX_STEP_TEXT) {
        return r->st = sp_fail(r->err, SP_E_UNSUPPORTED,
                               "a text of %zu bytes, at most %d are supported", step.text_len,
                               SP_MAX_STEP_TEXT);
    }
    r->out->at[r->out->n++] = step;
    return SP_OK;
}

static enum sp_status read_one(const struct kind *kind, struct reading *r)
{
    const char *type = sp_json_get_text(r->v, "type");

    if (type == NULL)
        return sp_fail(r->err, SP_E_INPUT, "%s: expected an object with a \"type\"", kind->name);
    for (const struct component *c = kind->types; c < kind->types + kind->n_types; c++) {
        if (strcmp(c->type, type) != 0) continue;
        if (c->read ? c->read(r) : c->step.kind ? add(r, c->step) : SP_OK)
            sp_context(r->err, "%s %s", kind->name, type);
        return r->st;
    }
    return sp_fail(r->err, SP_E_UNSUPPORTED, "%s type %s is not supported", kind->name, type);
}

static bool is_type(const struct sp_json *v, const char *wanted)
{
    const char *type = sp_json_get_text(v, "type");

    return type != NULL && strcmp(type, wanted) == 0;
}

/* Visits the components in order, Sequences within Sequences included. */
static enum sp_status read_all(const struct kind *kind, struct reading *r,
                               const struct sp_json *root)
{
    struct level {
        const struct sp_json *parts;
        size_t i;
    } stack[MAX_NESTING];
    size_t depth = 0;
    enum sp_status st;

    if ((r->v = root) == NULL) return SP_OK;
    for (;;) {
        if (is_type(r->v, "Sequence")) {
            const struct sp_json *parts = sp_json_get(r->v, kind->parts);
            if (sp_json_kind(parts) != SP_JSON_ARRAY) {
                return sp_fail(r->err, SP_E_INPUT, "%s Sequence: %s: expected a list", kind->name,
                               kind->parts);
            }
            if (depth == MAX_NESTING) {
                return sp_fail(r->err, SP_E_UNSUPPORTED, "%s: more than %d nested Sequences",
                               kind->name, MAX_NESTING);
            }
            stack[depth++] = (struct level){parts, 0};
        } else if ((st = read_one(kind, r))) {
            return st;
        }
        while (depth && stack[depth - 1].i == sp_json_len(stack[depth - 1].parts))
            depth--;
        if (depth == 0) return SP_OK;
        r->v = sp_json_at(stack[depth - 1].parts, stack[depth - 1].i++);
    }
}

/* ---- members of components --------------------------------------------------------------------
 */

static void get_bool(struct reading *r, const char *key, bool *out)
{
    if (!r->st) r->st = sp_json_get_bool(r->v, key, out, r->err);
}

/* The text of a member of `v`. */
static void get_text_of(struct reading *r, const struct sp_json *v, const char *key,
                        const char **text, size_t *len)
{
    *text = sp_json_to_string(sp_json_get(v, key), len);
    if (*text == NULL && !r->st) r->st = sp_fail(r->err, SP_E_INPUT, "%s: expected a string", key);
}

static void get_text(struct reading *r, const char *key, const char **text, size_t *len)
{
    get_text_of(r, r->v, key, text, len);
}

/* A member that must be exactly one character. */
static void get_char(struct reading *r, const char *key, const char **text, size_t *len)
{
    size_t n_chars = 0;

    get_text(r, key, text, len);
    for (size_t i = 0; !r->st && i < *len; i++)
        n_chars += ((uint8_t)(*text)[i] & 0xC0) != 0x80;
    if (!r->st && n_chars != 1)
        r->st = sp_fail(r->err, SP_E_INPUT, "%s is \"%s\", expected one character", key, *text);
}

static void get_count(struct reading *r, const char *key, uint32_t *out)
{
    int64_t n = *out;

    if (!r->st) r->st = sp_json_get_i64(r->v, key, 0, INT32_MAX, &n, r->err);
    *out = (uint32_t)n;
}

static void get_pattern(struct reading *r, struct sp_step *step)
{
    const struct sp_json *pattern = sp_json_get(r->v, "pattern");
    bool regex = sp_json_has(pattern, "Regex");

    get_text_of(r, pattern, regex ? "Regex" : "String", &step->pattern, &step->pattern_len);
    if (r->st) sp_context(r->err, "pattern");
    if (regex) step->flags |= SP_STEP_REGEX;
    if (!r->st && step->pattern_len == 0)
        r->st = sp_fail(r->err, SP_E_UNSUPPORTED, "an empty pattern is not supported");
}

static void get_behavior(struct reading *r, const char *fallback, uint32_t *out)
{
    static const char *const names[SP_N_SPLITS] = {
        [SP_SPLIT_ISOLATED] = "Isolated",
        [SP_SPLIT_REMOVED] = "Removed",
        [SP_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SP_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SP_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = fallback;

    if (r->st || (r->st = sp_json_get_string(r->v, "behavior", &name, r->err))) return;
    for (uint32_t i = 0; name && i < SP_N_SPLITS; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = i;
        return;
    }
    r->st = name ? sp_fail(r->err, SP_E_UNSUPPORTED, "behavior %s is not supported", name)
                 : sp_fail(r->err, SP_E_INPUT, "behavior is missing");
}

static enum sp_status add_split(struct reading *r, const char *pattern, uint32_t behavior)
{
    return add(r, (struct sp_step){.kind = SP_STEP_SPLIT,
                                   .flags = SP_STEP_REGEX,
                                   .a = behavior,
                                   .pattern = pattern,
                                   .pattern_len = strlen(pattern)});
}

/* ---- normalizers ------------------------------------------------------------------------------
 */

static enum sp_status read_prepend(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_PREFIX};

    get_text(r, "prepend", &step.text, &step.text_len);
    return add(r, step);
}

static enum sp_status add_replace(struct reading *r, const char *pattern, bool is_regex,
                                  const char *text)
{
    return add(r, (struct sp_step){.kind = SP_STEP_REPLACE,
                                   .flags = is_regex ? SP_STEP_REGEX : 0,
                                   .pattern = pattern,
                                   .pattern_len = strlen(pattern),
                                   .text = text,
                                   .text_len = strlen(text)});
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
static enum sp_status read_bert_normalizer(struct reading *r)
{
    bool clean = true, lowercase = true, accents;

    get_bool(r, "clean_text", &clean);
    get_bool(r, "lowercase", &lowercase);
    accents = lowercase;
    get_bool(r, "strip_accents", &accents);
    if (clean) add_replace(r, bert_removed, true, "");
    if (clean) add_replace(r, bert_spaces, true, " ");
    if (accents) add(r, (struct sp_step){.kind = SP_STEP_NFD});
    if (accents) add_replace(r, "\\p{Mn}", true, "");
    return lowercase ? add(r, (struct sp_step){.kind = SP_STEP_LOWERCASE}) : r->st;
}

static enum sp_status read_precompiled(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_CHARSMAP};

    get_text(r, "precompiled_charsmap", &step.pattern, &step.pattern_len);
    return add(r, step);
}

/* White space at the ends of the text. */
static enum sp_status read_strip_normalizer(struct reading *r)
{
    bool left = true, right = true;

    get_bool(r, "strip_left", &left);
    get_bool(r, "strip_right", &right);
    if (left) add_replace(r, "\\A\\s+", true, "");
    return right ? add_replace(r, "\\s+\\z", true, "") : r->st;
}

/* Reads the steps of a normalizer or a decoder. */
static enum sp_status read_replace(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_REPLACE};

    get_pattern(r, &step);
    get_text(r, "content", &step.text, &step.text_len);
    return add(r, step);
}

/* ---- pre-tokenizers ---------------------------------------------------------------------------
 */

static enum sp_status read_split(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT};
    bool invert = false;

    get_pattern(r, &step);
    get_behavior(r, NULL, &step.a);
    get_bool(r, "invert", &invert);
    if (invert) step.flags |= SP_STEP_INVERT;
    return add(r, step);
}

static enum sp_status read_digits(struct reading *r)
{
    bool individual = false;

    get_bool(r, "individual_digits", &individual);
    return add_split(r, "\\p{N}", individual ? SP_SPLIT_ISOLATED : SP_SPLIT_CONTIGUOUS);
}

static enum sp_status read_byte_level(struct reading *r)
{
    bool add_prefix = true, use_regex = true;

    get_bool(r, "add_prefix_space", &add_prefix);
    get_bool(r, "use_regex", &use_regex);
    if (add_prefix)
        add(r, (struct sp_step){
                   .kind = SP_STEP_PREFIX, .a = SP_PREFIX_UNLESS, .text = " ", .text_len = 1});
    if (use_regex) add_split(r, SP_GPT2_PATTERN, SP_SPLIT_ISOLATED);
    return add(r, (struct sp_step){.kind = SP_STEP_BYTE_LEVEL});
}

/* Older files say add_prefix_space instead of prepend_scheme. */
static void get_scheme(struct reading *r, bool *prepend, uint32_t *when)
{
    const char *scheme = NULL;
    bool add_prefix = true;

    get_bool(r, "add_prefix_space", &add_prefix);
    if (!r->st) r->st = sp_json_get_string(r->v, "prepend_scheme", &scheme, r->err);
    if (scheme == NULL) scheme = add_prefix ? "always" : "never";
    *prepend = strcmp(scheme, "never") != 0;
    *when = strcmp(scheme, "first") == 0 ? SP_PREFIX_AT_START : SP_PREFIX_UNLESS;
    if (!r->st && *prepend && *when == SP_PREFIX_UNLESS && strcmp(scheme, "always") != 0)
        r->st = sp_fail(r->err, SP_E_UNSUPPORTED, "prepend_scheme %s is not supported", scheme);
}

static enum sp_status read_metaspace(struct reading *r)
{
    struct sp_step replace = {.kind = SP_STEP_REPLACE, .pattern = " ", .pattern_len = 1};
    struct sp_step prefix = {.kind = SP_STEP_PREFIX};
    struct sp_step split = {.kind = SP_STEP_SPLIT, .a = SP_SPLIT_MERGED_WITH_NEXT};
    bool prepend, cut = true;

    get_char(r, "replacement", &replace.text, &replace.text_len);
    get_scheme(r, &prepend, &prefix.a);
    get_bool(r, "split", &cut);
    prefix.text = split.pattern = replace.text;
    prefix.text_len = split.pattern_len = replace.text_len;
    add(r, replace);
    if (prepend) add(r, prefix);
    return cut ? add(r, split) : r->st;
}

static enum sp_status read_punctuation(struct reading *r)
{
    uint32_t behavior = SP_SPLIT_ISOLATED;

    get_behavior(r, "Isolated", &behavior);
    return add_split(r, punctuation_pattern, behavior);
}

static enum sp_status read_bert(struct reading *r)
{
    add_split(r, space_pattern, SP_SPLIT_REMOVED);
    return add_split(r, punctuation_pattern, SP_SPLIT_ISOLATED);
}

static enum sp_status read_char_delimiter(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT, .a = SP_SPLIT_REMOVED};

    get_char(r, "delimiter", &step.pattern, &step.pattern_len);
    return add(r, step);
}

static enum sp_status read_fixed_length(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_FIXED_LENGTH, .a = 5};

    get_count(r, "length", &step.a);
    if (!r->st && step.a == 0)
        r->st = sp_fail(r->err, SP_E_INPUT, "length is 0, expected at least 1");
    return add(r, step);
}

/* ---- decoders ---------------------------------------------------------------------------------
 */

static enum sp_status read_strip(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_STRIP};

    get_char(r, "content", &step.text, &step.text_len);
    get_count(r, "start", &step.a);
    get_count(r, "stop", &step.b);
    return add(r, step);
}

static enum sp_status read_metaspace_decoder(struct reading *r)
{
    struct sp_step step = {.kind = SP_STEP_METASPACE};
    uint32_t when;
    bool prepend;

    get_char(r, "replacement", &step.text, &step.text_len);
    get_scheme(r, &prepend, &when);
    step.a = prepend;
    return add(r, step);
}

/* Tokens inside a word follow without a space; with `cleanup` so do some punctuation and the
 * endings that English contracts. */
static enum sp_status read_wordpiece_decoder(struct reading *r)
{
    static const char *const endings[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},
                                             {" ,", ","},   {" n't", "n't"}, {" 'm", "'m"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    const char *prefix = "##";
    bool cleanup = true;

    if (!r->st) r->st = sp_json_get_string(r->v, "prefix", &prefix, r->err);
    get_bool(r, "cleanup", &cleanup);
    if (!r->st && strcmp(prefix, "##") != 0)
        r->st = sp_fail(r->err, SP_E_UNSUPPORTED, "prefix \"%s\" is not supported", prefix);
    add(r, (struct sp_step){.kind = SP_STEP_JOIN, .text = " ", .text_len = 1});
    add(r, (struct sp_step){.kind = SP_STEP_FUSE});
    add_replace(r, " ##", false, "");
    for (size_t i = 0; cleanup && i < sizeof endings / sizeof *endings; i++)
        add_replace(r, endings[i][0], false, endings[i][1]);
    return r->st;
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

static void begin_template(struct reading *r)
{
    if (!r->st && r->vocab->has_template)
        r->st = sp_fail(r->err, SP_E_UNSUPPORTED, "a second template is not supported");
    r->vocab->has_template = true;
}

static enum sp_status read_template(struct reading *r)
{
    const struct sp_json *single = sp_json_get(r->v, "single");
    const struct sp_json *specials = sp_json_get(r->v, "special_tokens");
    bool seen_text = false;

    if (sp_json_kind(single) != SP_JSON_ARRAY)
        return r->st = sp_fail(r->err, SP_E_INPUT, "single: expected a list");
    begin_template(r);
    for (size_t i = 0; i < sp_json_len(single) && !r->st; i++)
        r->st = read_piece(r->vocab, &seen_text, sp_json_at(single, i), specials, r->err);
    if (!r->st && !seen_text)
        r->st = sp_fail(r->err, SP_E_UNSUPPORTED,
                        "single: a template without the text is not supported");
    return r->st;
}

/* "cls" before the text and "sep" after it, each a pair of a token and its id. */
static enum sp_status read_bert_processing(struct reading *r)
{
    struct sp_vocab *vocab = r->vocab;
    uint64_t cls, sep;

    if (!sp_json_to_u64(sp_json_at(sp_json_get(r->v, "cls"), 1), &cls) || cls >= SP_ID_NONE ||
        !sp_json_to_u64(sp_json_at(sp_json_get(r->v, "sep"), 1), &sep) || sep >= SP_ID_NONE)
        return r->st = sp_fail(r->err, SP_E_INPUT, "cls and sep: expected a token and its id");
    begin_template(r);
    if (r->st || (r->st = sp_new(&vocab->prefix, 1, sizeof *vocab->prefix, r->err)) ||
        (r->st = sp_new(&vocab->suffix, 1, sizeof *vocab->suffix, r->err)))
        return r->st;
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
static enum sp_status add_han(struct reading *r, const struct sp_json *root)
{
    const struct sp_json *bert = find_bert(sp_json_get(root, "normalizer"));
    struct sp_steps *normalizer = &r->vocab->normalizer;
    struct sp_step spaces[2];
    bool han = true;
    size_t at = 0;

    r->v = bert;
    get_bool(r, "handle_chinese_chars", &han);
    if (r->st || bert == NULL || !han) return r->st;
    if (is_type(sp_json_get(root, "pre_tokenizer"), "BertPreTokenizer")) {
        r->out = &r->vocab->splitter;
        return add_split(r, HAN, SP_SPLIT_ISOLATED);
    }
    while (at < normalizer->n && normalizer->at[at].kind == SP_STEP_REPLACE)
        at++; /* behind what cleans the text, before accents and capitals */
    add_replace(r, "(?=" HAN ")", true, " ");
    if (add_replace(r, "(?<=" HAN ")", true, " ")) return r->st;
    memcpy(spaces, normalizer->at + normalizer->n - 2, sizeof spaces);
    memmove(normalizer->at + at + 2, normalizer->at + at,
            (normalizer->n - 2 - at) * sizeof *normalizer->at);
    memcpy(normalizer->at + at, spaces, sizeof spaces);
    return SP_OK;
}

enum sp_status sp_vocab_read_steps(struct sp_vocab *vocab, struct sp_err *err)
{
    static const struct sp_step join = {.kind = SP_STEP_JOIN, .text = " ", .text_len = 1};
    struct sp_steps *const chains[] = {&vocab->normalizer, &vocab->splitter, &vocab->decoder, NULL};
    const struct sp_json *root = vocab->json;
    struct reading r = {.vocab = vocab, .err = err};
    enum sp_status st;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        r.out = chains[i];
        if ((st = read_all(&kinds[i], &r, sp_json_get(root, kinds[i].name)))) return st;
        if (i == 0 && (st = add_han(&r, root))) return st;
    }
    r.out = &vocab->decoder;
    return sp_json_get(root, "decoder") ? SP_OK : add(&r, join);
}
