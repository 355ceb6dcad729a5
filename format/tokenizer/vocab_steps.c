/* Each component type of tokenizer.json is one function that appends the steps it amounts to; a
 * table per kind of component maps type names to functions. Sequences are flattened. What the
 * components mean was read off the behavior of the `tokenizers` library. */
#include "format/tokenizer/vocab_reading.h"

#include "format/tokenizer/patterns.h"

#include <string.h>

enum { MAX_NESTING = 8 };

/* Without `read`, the component is one step that depends on no member, or none (kind 0). */
struct component {
    const char *type;
    void (*read)(struct sp_vocab_reading *r);
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

static void add(struct sp_vocab_reading *r, struct sp_step step)
{
    if (r->out->n == SP_MAX_STEPS)
        SP_VOCAB_REFUSED(r, "more than %d steps in one chain", SP_MAX_STEPS);
    if (step.text_len > SP_MAX_STEP_TEXT) {
        SP_VOCAB_REFUSED(r, "a text of %zu bytes, at most %d are supported", step.text_len,
                         SP_MAX_STEP_TEXT);
    }
    if (!sp_vocab_failed(r)) r->out->at[r->out->n++] = step;
}

static void read_one(const struct kind *kind, struct sp_vocab_reading *r)
{
    const char *type = sp_json_get_text(r->v, "type");

    if (type == NULL) {
        SP_VOCAB_INVALID(r, "%s: expected an object with a \"type\"", kind->name);
        return;
    }
    for (const struct component *c = kind->types; c < kind->types + kind->n_types; c++) {
        if (strcmp(c->type, type) != 0) continue;
        if (c->read)
            c->read(r);
        else if (c->step.kind)
            add(r, c->step);
        sp_context(r->err, "%s %s", kind->name, type);
        return;
    }
    SP_VOCAB_REFUSED(r, "%s type %s is not supported", kind->name, type);
}

static bool is_type(const struct sp_json *v, const char *wanted)
{
    const char *type = sp_json_get_text(v, "type");

    return type != NULL && strcmp(type, wanted) == 0;
}

/* Visits the components in order, Sequences within Sequences included. */
static void read_all(const struct kind *kind, struct sp_vocab_reading *r,
                     const struct sp_json *root)
{
    struct level {
        const struct sp_json *parts;
        size_t i;
    } stack[MAX_NESTING];
    size_t depth = 0;

    if ((r->v = root) == NULL) return;
    while (!sp_vocab_failed(r)) {
        if (!is_type(r->v, "Sequence")) {
            read_one(kind, r);
        } else if (depth == MAX_NESTING) {
            SP_VOCAB_REFUSED(r, "%s: more than %d nested Sequences", kind->name, MAX_NESTING);
        } else {
            const struct sp_json *parts = sp_json_get(r->v, kind->parts);
            if (sp_json_kind(parts) != SP_JSON_ARRAY)
                SP_VOCAB_INVALID(r, "%s Sequence: %s: expected a list", kind->name, kind->parts);
            stack[depth++] = (struct level){parts, 0};
        }
        while (depth && stack[depth - 1].i == sp_json_len(stack[depth - 1].parts))
            depth--;
        if (depth == 0) return;
        r->v = sp_json_at(stack[depth - 1].parts, stack[depth - 1].i++);
    }
}

/* ---- members of components ---- */

static void get_bool(struct sp_vocab_reading *r, const char *key, bool *out)
{
    (void)!sp_json_get_bool(r->v, key, out, r->err);
}

static void get_string(struct sp_vocab_reading *r, const char *key, const char **out)
{
    (void)!sp_json_get_string(r->v, key, out, r->err);
}

/* The text of a member of `v`; "" if it has none, which is a failure. */
static void get_text(struct sp_vocab_reading *r, const struct sp_json *v, const char *key,
                     const char **text, size_t *len)
{
    *text = sp_json_to_string(sp_json_get(v, key), len);
    if (*text != NULL) return;
    SP_VOCAB_INVALID(r, "%s: expected a string", key);
    *text = "";
    *len = 0;
}

/* A member that must be exactly one character. */
static void get_char(struct sp_vocab_reading *r, const char *key, const char **text, size_t *len)
{
    size_t n_chars = 0;

    get_text(r, r->v, key, text, len);
    for (size_t i = 0; i < *len; i++)
        n_chars += ((uint8_t)(*text)[i] & 0xC0) != 0x80;
    if (n_chars != 1) SP_VOCAB_INVALID(r, "%s is \"%s\", expected one character", key, *text);
}

static void get_count(struct sp_vocab_reading *r, const char *key, uint32_t *out)
{
    int64_t n = *out;

    if (!sp_json_get_i64(r->v, key, 0, INT32_MAX, &n, r->err)) *out = (uint32_t)n;
}

static void get_pattern(struct sp_vocab_reading *r, struct sp_step *step)
{
    const struct sp_json *pattern = sp_json_get(r->v, "pattern");
    bool regex = sp_json_has(pattern, "Regex");

    get_text(r, pattern, regex ? "Regex" : "String", &step->pattern, &step->pattern_len);
    sp_context(r->err, "pattern");
    if (regex) step->flags |= SP_STEP_REGEX;
    if (step->pattern_len == 0) SP_VOCAB_REFUSED(r, "an empty pattern is not supported");
}

static void get_behavior(struct sp_vocab_reading *r, const char *fallback, uint32_t *out)
{
    static const char *const names[SP_N_SPLITS] = {
        [SP_SPLIT_ISOLATED] = "Isolated",
        [SP_SPLIT_REMOVED] = "Removed",
        [SP_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SP_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SP_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = fallback;

    get_string(r, "behavior", &name);
    for (uint32_t i = 0; name && i < SP_N_SPLITS; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = i;
        return;
    }
    if (name)
        SP_VOCAB_REFUSED(r, "behavior %s is not supported", name);
    else
        SP_VOCAB_INVALID(r, "behavior is missing");
}

static const struct sp_step join = {.kind = SP_STEP_JOIN, .text = " ", .text_len = 1};

static void add_split(struct sp_vocab_reading *r, const char *pattern, uint32_t behavior)
{
    add(r, (struct sp_step){.kind = SP_STEP_SPLIT,
                            .flags = SP_STEP_REGEX,
                            .a = behavior,
                            .pattern = pattern,
                            .pattern_len = strlen(pattern)});
}

/* ---- normalizers ---- */

static void read_prepend(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_PREFIX};

    get_text(r, r->v, "prepend", &step.text, &step.text_len);
    add(r, step);
}

static void add_replace(struct sp_vocab_reading *r, const char *pattern, bool is_regex,
                        const char *text)
{
    add(r, (struct sp_step){.kind = SP_STEP_REPLACE,
                            .flags = is_regex ? SP_STEP_REGEX : 0,
                            .pattern = pattern,
                            .pattern_len = strlen(pattern),
                            .text = text,
                            .text_len = strlen(text)});
}

/* The characters that BertNormalizer removes. */
static const char bert_removed[] =
    "[\\x{0}-\\x{8}\\x{B}\\x{C}\\x{E}-\\x{1F}\\x{7F}-\\x{9F}\\x{FFFD}\\p{Cf}\\p{Co}]";
/* Chinese characters as the tokenizers library lists them. */
#define HAN                                                                                        \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"            \
    "\\x{2B740}-\\x{2B81F}\\x{2B920}-\\x{2CEAF}\\x{F900}-\\x{FAFF}\\x{2F800}-\\x{2FA1F}]"

/* Puts spaces around Chinese characters. Where BertPreTokenizer splits at spaces afterwards, a step
 * of the splitter, which is not read yet, that isolates these characters gives the same pieces. */
static void add_han(struct sp_vocab_reading *r)
{
    struct sp_steps *normalizer = r->out;

    if (is_type(sp_json_get(r->vocab->json, "pre_tokenizer"), "BertPreTokenizer")) {
        r->out = &r->vocab->splitter;
        add_split(r, HAN, SP_SPLIT_ISOLATED);
        r->out = normalizer;
    } else {
        add_replace(r, "(?=" HAN ")", true, " ");
        add_replace(r, "(?<=" HAN ")", true, " ");
    }
}

/* Accents are stripped where the letters become small, unless the file states otherwise. */
static void read_bert_normalizer(struct sp_vocab_reading *r)
{
    bool clean = true, han = true, lowercase = true, accents;

    get_bool(r, "clean_text", &clean);
    get_bool(r, "handle_chinese_chars", &han);
    get_bool(r, "lowercase", &lowercase);
    accents = lowercase;
    get_bool(r, "strip_accents", &accents);
    if (clean) add_replace(r, bert_removed, true, "");
    if (clean) add_replace(r, space_pattern, true, " ");
    if (han) add_han(r);
    if (accents) add(r, (struct sp_step){.kind = SP_STEP_NFD});
    if (accents) add_replace(r, "\\p{Mn}", true, "");
    if (lowercase) add(r, (struct sp_step){.kind = SP_STEP_LOWERCASE});
}

static void read_precompiled(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_CHARSMAP};

    get_text(r, r->v, "precompiled_charsmap", &step.pattern, &step.pattern_len);
    add(r, step);
}

/* White space at the ends of the text. */
static void read_strip_normalizer(struct sp_vocab_reading *r)
{
    bool left = true, right = true;

    get_bool(r, "strip_left", &left);
    get_bool(r, "strip_right", &right);
    if (left) add_replace(r, "\\A\\s+", true, "");
    if (right) add_replace(r, "\\s+\\z", true, "");
}

/* Reads the steps of a normalizer or a decoder. */
static void read_replace(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_REPLACE};

    get_pattern(r, &step);
    get_text(r, r->v, "content", &step.text, &step.text_len);
    add(r, step);
}

/* ---- pre-tokenizers ---- */

static void read_split(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT};
    bool invert = false;

    get_pattern(r, &step);
    get_behavior(r, NULL, &step.a);
    get_bool(r, "invert", &invert);
    if (invert) step.flags |= SP_STEP_INVERT;
    add(r, step);
}

static void read_digits(struct sp_vocab_reading *r)
{
    bool individual = false;

    get_bool(r, "individual_digits", &individual);
    add_split(r, "\\p{N}", individual ? SP_SPLIT_ISOLATED : SP_SPLIT_CONTIGUOUS);
}

static void read_byte_level(struct sp_vocab_reading *r)
{
    bool add_prefix = true, use_regex = true;

    get_bool(r, "add_prefix_space", &add_prefix);
    get_bool(r, "use_regex", &use_regex);
    if (add_prefix)
        add(r, (struct sp_step){
                   .kind = SP_STEP_PREFIX, .a = SP_PREFIX_UNLESS, .text = " ", .text_len = 1});
    if (use_regex) add_split(r, SP_GPT2_PATTERN, SP_SPLIT_ISOLATED);
    add(r, (struct sp_step){.kind = SP_STEP_BYTE_LEVEL});
}

/* Older files say add_prefix_space instead of prepend_scheme. */
static void get_scheme(struct sp_vocab_reading *r, bool *prepend, uint32_t *when)
{
    const char *scheme = NULL;
    bool add_prefix = true;

    get_bool(r, "add_prefix_space", &add_prefix);
    get_string(r, "prepend_scheme", &scheme);
    if (scheme == NULL) scheme = add_prefix ? "always" : "never";
    *prepend = strcmp(scheme, "never") != 0;
    *when = strcmp(scheme, "first") == 0 ? SP_PREFIX_AT_START : SP_PREFIX_UNLESS;
    if (*prepend && *when == SP_PREFIX_UNLESS && strcmp(scheme, "always") != 0)
        SP_VOCAB_REFUSED(r, "prepend_scheme %s is not supported", scheme);
}

static void read_metaspace(struct sp_vocab_reading *r)
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
    if (cut) add(r, split);
}

static void read_punctuation(struct sp_vocab_reading *r)
{
    uint32_t behavior = SP_SPLIT_ISOLATED;

    get_behavior(r, "Isolated", &behavior);
    add_split(r, punctuation_pattern, behavior);
}

static void read_bert(struct sp_vocab_reading *r)
{
    add_split(r, space_pattern, SP_SPLIT_REMOVED);
    add_split(r, punctuation_pattern, SP_SPLIT_ISOLATED);
}

static void read_char_delimiter(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_SPLIT, .a = SP_SPLIT_REMOVED};

    get_char(r, "delimiter", &step.pattern, &step.pattern_len);
    add(r, step);
}

static void read_fixed_length(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_FIXED_LENGTH, .a = 5};

    get_count(r, "length", &step.a);
    if (step.a == 0) SP_VOCAB_INVALID(r, "length is 0, expected at least 1");
    add(r, step);
}

/* ---- decoders ---- */

static void read_strip(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_STRIP};

    get_char(r, "content", &step.text, &step.text_len);
    get_count(r, "start", &step.a);
    get_count(r, "stop", &step.b);
    add(r, step);
}

static void read_metaspace_decoder(struct sp_vocab_reading *r)
{
    struct sp_step step = {.kind = SP_STEP_METASPACE};
    uint32_t when;
    bool prepend;

    get_char(r, "replacement", &step.text, &step.text_len);
    get_scheme(r, &prepend, &when);
    step.a = prepend;
    add(r, step);
}

/* Tokens inside a word follow without a space; with `cleanup` so do some punctuation and the
 * endings that English contracts. */
static void read_wordpiece_decoder(struct sp_vocab_reading *r)
{
    static const char *const endings[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},
                                             {" ,", ","},   {" n't", "n't"}, {" 'm", "'m"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    const char *prefix = "##";
    bool cleanup = true;

    get_string(r, "prefix", &prefix);
    get_bool(r, "cleanup", &cleanup);
    if (strcmp(prefix, "##") != 0) SP_VOCAB_REFUSED(r, "prefix \"%s\" is not supported", prefix);
    add(r, join);
    add(r, (struct sp_step){.kind = SP_STEP_FUSE});
    add_replace(r, " ##", false, "");
    for (size_t i = 0; cleanup && i < sizeof endings / sizeof *endings; i++)
        add_replace(r, endings[i][0], false, endings[i][1]);
}

/* ---- tables ---- */

#define SPLIT_OFF(text, how)                                                                       \
    {                                                                                              \
        .kind = SP_STEP_SPLIT, .flags = SP_STEP_REGEX | (how), .a = SP_SPLIT_REMOVED,              \
        .pattern = text, .pattern_len = sizeof text - 1                                            \
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
    {.type = "Whitespace", .step = SPLIT_OFF(word_pattern, SP_STEP_INVERT)},
    {.type = "WhitespaceSplit", .step = SPLIT_OFF(space_pattern, 0)},
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
    {.type = "TemplateProcessing", .read = sp_vocab_read_template},
    {.type = "BertProcessing", .read = sp_vocab_read_bert},
    {.type = "RobertaProcessing", .read = sp_vocab_read_bert},
    {.type = "ByteLevel"}, /* moves offsets only */
};

#define TABLE(types) types, sizeof types / sizeof *types

static const struct kind kinds[] = {
    {"normalizer", "normalizers", TABLE(normalizers)},
    {"pre_tokenizer", "pretokenizers", TABLE(splitters)},
    {"decoder", "decoders", TABLE(decoders)},
    {"post_processor", "processors", TABLE(processors)},
};

void sp_vocab_read_steps(struct sp_vocab_reading *r)
{
    struct sp_vocab *vocab = r->vocab;
    struct sp_steps *const chains[] = {&vocab->normalizer, &vocab->splitter, &vocab->decoder, NULL};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !sp_vocab_failed(r); i++) {
        r->out = chains[i];
        read_all(&kinds[i], r, sp_json_get(vocab->json, kinds[i].name));
    }
    r->out = &vocab->decoder;
    if (sp_json_get(vocab->json, "decoder") == NULL) add(r, join);
}
