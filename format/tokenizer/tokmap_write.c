/* Compiles a vocabulary: every area of the block (format/tokenizer/tokmap.h) is made apart, then
 * all are stored one after the other. Patterns are compiled once here so that a bad one is refused
 * at create. */
#include "format/base/mem.h"
#include "format/tokenizer/byte_level.h"
#include "format/tokenizer/rewrite.h"
#include "format/tokenizer/tokmap.h"
#include "format/tokenizer/tokmap_write.h"

struct area {
    uint8_t *at; /* owned */
    size_t size;
};

/* The first failure is kept: from then on no area is made. */
struct compiler {
    const struct sp_vocab *vocab;
    struct sp_err *err;
    enum sp_status st;
    struct area areas[SP_N_TOKMAP_AREAS];
    uint32_t numbers[SP_N_TOKMAP_NUMBERS];
    bool bytes; /* the model works on bytes */
    struct sp_steps splitter;
    struct sp_tokmap map; /* of the areas made so far: offsets, bytes, words */
};

/* NULL: a failure, this or an earlier one. */
static uint8_t *make_area(struct compiler *c, enum sp_tokmap_area which, size_t n, size_t size)
{
    struct area *area = &c->areas[which];

    if (c->st || (c->st = sp_new(&area->at, n, size, c->err))) return NULL;
    area->size = n * size;
    return area->at;
}

/* ---- tokens ---- */

/* The byte alphabet at the very end of the splitter can be left out when nothing before it has used
 * it and no token stands for a byte in another way. */
static void choose_domain(struct compiler *c)
{
    const struct sp_vocab *vocab = c->vocab;
    size_t n_spelled = 0;

    c->splitter = vocab->splitter;
    for (size_t i = 0; i < vocab->normalizer.n; i++)
        n_spelled += vocab->normalizer.at[i].kind == SP_STEP_BYTE_LEVEL;
    for (size_t i = 0; i < c->splitter.n; i++)
        n_spelled += c->splitter.at[i].kind == SP_STEP_BYTE_LEVEL;
    c->bytes = n_spelled == 1 && !vocab->byte_fallback && c->splitter.n > 0 &&
               c->splitter.at[c->splitter.n - 1].kind == SP_STEP_BYTE_LEVEL;
    if (c->bytes) c->splitter.n--;
}

static void make_tokens(struct compiler *c)
{
    const struct sp_vocab *vocab = c->vocab;
    size_t total = 0, at = 0;

    for (size_t i = 0; i < vocab->n_ids; i++)
        total += vocab->tokens[i].len;
    if (total >= UINT32_MAX) c->st = sp_fail(c->err, SP_E_UNSUPPORTED, "more than 4 GiB of tokens");
    c->map.offsets = make_area(c, SP_AREA_OFFSETS, vocab->n_ids + 1, 4);
    make_area(c, SP_AREA_FLAGS, vocab->n_ids, 1);
    c->map.bytes = make_area(c, SP_AREA_BYTES, total, 1);
    if (c->st) return;
    for (size_t i = 0; i < vocab->n_ids; i++) {
        const struct sp_vocab_token *token = &vocab->tokens[i];
        char *out = (char *)c->areas[SP_AREA_BYTES].at + at;
        size_t len = token->len;
        uint8_t flags = token->flags;
        if (c->bytes && len > 0 && sp_byte_level_decode(out, &len, token->text, token->len)) {
            flags |= SP_TOKEN_BYTES;
        } else if (token->len) {
            memcpy(out, token->text, token->len);
            len = token->len;
        }
        c->areas[SP_AREA_FLAGS].at[i] = flags;
        at += len;
        sp_put32(c->areas[SP_AREA_OFFSETS].at + 4 * (i + 1), (uint32_t)at);
    }
    c->areas[SP_AREA_BYTES].size = at;
    c->map.n_ids = (uint32_t)vocab->n_ids;
    c->map.n_bytes = at;
}

/* The tokens that the model can produce: those of its own vocabulary, spelled as it sees text. */
static bool in_model(const struct compiler *c, size_t id)
{
    uint8_t flags = c->areas[SP_AREA_FLAGS].at[id];

    return flags & SP_TOKEN_MODEL && (!c->bytes || flags & SP_TOKEN_BYTES);
}

static void fail_to_hash(struct compiler *c)
{
    c->st =
        sp_fail(c->err, SP_E_INPUT, "the vocabulary cannot be hashed: too many entries collide");
}

static void make_words(struct compiler *c)
{
    size_t n_slots = c->vocab->n_model * 2 + 1;
    uint32_t longest = 0;
    uint8_t *words = make_area(c, SP_AREA_WORDS, n_slots, 8);

    for (size_t id = 0; id < c->vocab->n_ids && !c->st; id++) {
        const char *bytes;
        size_t len;
        uint32_t probes = 0;
        if (!in_model(c, id) || !sp_tokmap_token(&c->map, (uint32_t)id, &bytes, &len)) continue;
        uint64_t hash = sp_word_hash(bytes, len);
        size_t slot = sp_hash_slot(hash, n_slots);
        for (; sp_get32(words + 8 * slot); slot = slot + 1 == n_slots ? 0 : slot + 1)
            probes++;
        if (probes > SP_MAX_PROBES) fail_to_hash(c);
        sp_put32(words + 8 * slot, (uint32_t)id + 1);
        sp_put32(words + 8 * slot + 4, (uint32_t)hash);
        if (probes > longest) longest = probes;
    }
    c->numbers[SP_TOKMAP_WORD_PROBES] = longest;
    c->map.numbers[SP_TOKMAP_WORD_PROBES] = longest;
    c->map.words = words;
    c->map.n_words = n_slots;
}

static uint32_t find_word(const struct compiler *c, const char *bytes, size_t len)
{
    return sp_tokmap_find(&c->map, bytes, len, sp_word_hash(bytes, len));
}

/* Ids of single bytes; returns whether there is one for every byte. */
static bool make_byte_ids(struct compiler *c)
{
    uint8_t *ids = make_area(c, SP_AREA_BYTE_IDS, 256, 4);
    bool all = true;

    for (unsigned byte = 0; byte < 256 && !c->st; byte++) {
        static const char digits[] = "0123456789ABCDEF";
        const char fallback[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        char plain = (char)byte;
        uint32_t id = c->bytes                  ? find_word(c, &plain, 1)
                      : c->vocab->byte_fallback ? find_word(c, fallback, sizeof fallback)
                                                : SP_ID_NONE;
        if (id == SP_ID_NONE) all = false;
        sp_put32(ids + 4 * byte, id);
    }
    return all;
}

/* ---- merges ---- */

static void insert_merge(struct compiler *c, size_t n_slots, size_t rank)
{
    const struct sp_vocab_merge *merge = &c->vocab->merges[rank];
    size_t slot = sp_hash_slot(sp_merge_hash(merge->left, merge->right), n_slots);
    uint32_t probes = 0;
    uint8_t *p;

    for (;; slot = slot + 1 == n_slots ? 0 : slot + 1, probes++) {
        p = c->areas[SP_AREA_MERGES].at + 12 * slot;
        if (sp_get32(p + 8) == 0) break;
        if (sp_get32(p) == merge->left && sp_get32(p + 4) == merge->right) break; /* last wins */
        if (probes == SP_MAX_PROBES) {
            fail_to_hash(c);
            return;
        }
    }
    sp_put32(p, merge->left);
    sp_put32(p + 4, merge->right);
    sp_put32(p + 8, (uint32_t)rank + 1);
    sp_put32(c->areas[SP_AREA_MERGED].at + 4 * rank, merge->merged);
    if (probes > c->numbers[SP_TOKMAP_MERGE_PROBES]) c->numbers[SP_TOKMAP_MERGE_PROBES] = probes;
}

static bool is_byte_id(const struct compiler *c, uint32_t id)
{
    for (size_t byte = 0; byte < 256; byte++)
        if (sp_get32(c->areas[SP_AREA_BYTE_IDS].at + 4 * byte) == id) return true;
    return false;
}

/* Which bytes merges join; *cut is cleared if a merge takes part whose text is not its spelling. */
static void make_pairs(struct compiler *c, bool *cut)
{
    uint8_t *pairs = make_area(c, SP_AREA_PAIRS, 8192, 1);

    for (size_t i = 0; i < c->vocab->n_merges && !c->st; i++) {
        const struct sp_vocab_merge *merge = &c->vocab->merges[i];
        const char *left, *right;
        size_t left_len, right_len;
        if (!sp_tokmap_token(&c->map, merge->left, &left, &left_len) ||
            !sp_tokmap_token(&c->map, merge->right, &right, &right_len)) {
            *cut = false;
            continue;
        }
        unsigned bit = (unsigned)(uint8_t)left[left_len - 1] << 8 | (uint8_t)right[0];
        pairs[bit >> 3] |= (uint8_t)(1U << (bit & 7));
        /* Byte tokens are six characters long; only then is the slow look needed. */
        if (*cut && !c->bytes &&
            ((left_len == 6 && is_byte_id(c, merge->left)) ||
             (right_len == 6 && is_byte_id(c, merge->right))))
            *cut = false;
    }
}

/* A character that is not in the vocabulary scores 10 less than the worst token, as in
 * SentencePiece. */
static void make_scores(struct compiler *c)
{
    const struct sp_vocab *vocab = c->vocab;
    double least = 0;
    uint8_t *out;

    make_area(c, SP_AREA_MERGES, 1, 12);
    make_area(c, SP_AREA_PAIRS, 8192, 1);
    if ((out = make_area(c, SP_AREA_MERGED, vocab->n_ids + 1, 8)) == NULL) return;
    for (size_t id = 0; id < vocab->n_model; id++) {
        if (id == 0 || vocab->scores[id] < least) least = vocab->scores[id];
        sp_put_double(out + 8 * id, vocab->scores[id]);
        if (vocab->tokens[id].len > c->numbers[SP_TOKMAP_LONGEST])
            c->numbers[SP_TOKMAP_LONGEST] = vocab->tokens[id].len;
    }
    sp_put_double(out + 8 * vocab->n_ids, least - 10);
}

static void make_merges(struct compiler *c, bool *cut)
{
    size_t n = c->vocab->n_merges;

    if (!c->st && n >= UINT32_MAX / 32)
        c->st = sp_fail(c->err, SP_E_UNSUPPORTED, "model.merges: %zu entries are not supported", n);
    make_area(c, SP_AREA_MERGES, 2 * n + 1, 12);
    make_area(c, SP_AREA_MERGED, n, 4);
    for (size_t rank = 0; rank < n && !c->st; rank++)
        insert_merge(c, 2 * n + 1, rank);
    make_pairs(c, cut);
}

/* ---- steps ---- */

static void check_patterns(struct compiler *c, const struct sp_steps *steps, const char *name)
{
    for (size_t i = 0; i < steps->n && !c->st; i++) {
        struct sp_rewrite rewrite;
        if ((c->st = sp_rewrite_init(&rewrite, &steps->at[i], c->err)))
            sp_context(c->err, "%s", name);
        else
            sp_rewrite_release(&rewrite);
    }
}

static void put_string(struct compiler *c, uint8_t *entry, struct sp_strbuf *strings,
                       const char *text, size_t len)
{
    if (c->st) return;
    sp_put32(entry, (uint32_t)strings->len);
    sp_put32(entry + 4, (uint32_t)len);
    c->st = strings->len + len < UINT32_MAX
                ? sp_strbuf_append(strings, text, len, c->err)
                : sp_fail(c->err, SP_E_UNSUPPORTED, "more than 4 GiB of patterns");
}

static void make_steps(struct compiler *c)
{
    const struct sp_steps *chains[3] = {&c->vocab->normalizer, &c->splitter, &c->vocab->decoder};
    static const char *const names[3] = {"normalizer", "pre_tokenizer", "decoder"};
    struct sp_strbuf strings = {0};
    size_t total = chains[0]->n + chains[1]->n + chains[2]->n;
    uint8_t *entry = make_area(c, SP_AREA_STEPS, total, SP_TOKMAP_STEP), *out;

    for (int i = 0; i < 3; i++) {
        c->numbers[SP_TOKMAP_N_NORMALIZER + i] = (uint32_t)chains[i]->n;
        check_patterns(c, chains[i], names[i]);
        for (size_t k = 0; k < chains[i]->n && !c->st; k++, entry += SP_TOKMAP_STEP) {
            const struct sp_step *step = &chains[i]->at[k];
            sp_put32(entry, step->kind);
            sp_put32(entry + 4, step->flags);
            sp_put32(entry + 8, step->a);
            sp_put32(entry + 12, step->b);
            put_string(c, entry + 16, &strings, step->text, step->text_len);
            put_string(c, entry + 24, &strings, step->pattern, step->pattern_len);
        }
    }
    out = make_area(c, SP_AREA_STRINGS, strings.len, 1);
    if (out && strings.len) memcpy(out, strings.at, strings.len);
    sp_strbuf_release(&strings);
}

/* ---- the whole ---- */

static void make_rest(struct compiler *c, uint32_t flags)
{
    const struct sp_vocab *vocab = c->vocab;
    uint8_t *out = make_area(c, SP_AREA_TEMPLATE, vocab->n_prefix + vocab->n_suffix, 4);
    uint8_t *numbers = make_area(c, SP_AREA_NUMBERS, SP_N_TOKMAP_NUMBERS, 4);

    if (c->st) return;
    for (size_t i = 0; i < vocab->n_prefix; i++, out += 4)
        sp_put32(out, vocab->prefix[i]);
    for (size_t i = 0; i < vocab->n_suffix; i++, out += 4)
        sp_put32(out, vocab->suffix[i]);

    c->numbers[SP_TOKMAP_N_IDS] = (uint32_t)vocab->n_ids;
    c->numbers[SP_TOKMAP_FLAGS] = flags;
    c->numbers[SP_TOKMAP_UNK] = vocab->unk;
    c->numbers[SP_TOKMAP_BOS] = vocab->bos;
    c->numbers[SP_TOKMAP_EOS] = vocab->eos;
    c->numbers[SP_TOKMAP_N_PREFIX] = (uint32_t)vocab->n_prefix;
    c->numbers[SP_TOKMAP_N_SUFFIX] = (uint32_t)vocab->n_suffix;
    for (size_t i = 0; i < SP_N_TOKMAP_NUMBERS; i++)
        sp_put32(numbers + 4 * i, c->numbers[i]);
}

static void make_all(struct compiler *c)
{
    const struct sp_vocab *vocab = c->vocab;
    uint32_t flags;
    bool all_bytes, cut = true;

    choose_domain(c);
    make_tokens(c);
    make_words(c);
    all_bytes = make_byte_ids(c);
    if (!c->st && vocab->missing_unk && !all_bytes) { /* else no text needs it */
        c->st = sp_fail(c->err, SP_E_INPUT, "model.unk_token \"%s\" is not in the vocabulary",
                        vocab->missing_unk);
    }
    if (vocab->model == SP_VOCAB_UNIGRAM)
        make_scores(c);
    else
        make_merges(c, &cut);
    for (int which = SP_AREA_RAW; which <= SP_AREA_NORMAL && !c->st; which++)
        c->st = sp_tokmap_make_tree(&c->areas[which].at, &c->areas[which].size, vocab,
                                    which == SP_AREA_NORMAL, c->err);
    make_steps(c);
    flags = (vocab->byte_fallback ? SP_TOKMAP_BYTE_FALLBACK : 0U) |
            (vocab->fuse_unk ? SP_TOKMAP_FUSE_UNK : 0U) |
            (vocab->ignore_merges ? SP_TOKMAP_IGNORE_MERGES : 0U) |
            (vocab->model == SP_VOCAB_WORDPIECE ? SP_TOKMAP_WORDPIECE : 0U) |
            (vocab->model == SP_VOCAB_UNIGRAM ? SP_TOKMAP_UNIGRAM : 0U) |
            (c->bytes ? SP_TOKMAP_BYTES : 0U) |
            (cut && all_bytes && vocab->model == SP_VOCAB_BPE ? SP_TOKMAP_CUT : 0U);
    make_rest(c, flags);
}

static void lay_out(uint8_t **blob, size_t *blob_size, struct compiler *c)
{
    size_t at = SP_TOKMAP_HEADER + 16 * SP_N_TOKMAP_AREAS, size = at;
    uint8_t *out;

    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++)
        size += sp_round_up(c->areas[i].size, 8);
    if (c->st || (c->st = sp_new(&out, size, 1, c->err))) return;
    memcpy(out, sp_tokmap_magic, sizeof sp_tokmap_magic);
    sp_put32(out + 8, SP_TOKMAP_VERSION);
    sp_put32(out + 12, SP_N_TOKMAP_AREAS);
    sp_put64(out + 16, size);
    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++) {
        sp_put64(out + SP_TOKMAP_HEADER + 16 * i, at);
        sp_put64(out + SP_TOKMAP_HEADER + 16 * i + 8, c->areas[i].size);
        memcpy(out + at, c->areas[i].at, c->areas[i].size);
        at += sp_round_up(c->areas[i].size, 8);
    }
    *blob = out;
    *blob_size = size;
}

enum sp_status sp_vocab_compile(uint8_t **blob, size_t *size, const struct sp_text *json,
                                const struct sp_text *config, char **warning, struct sp_err *err)
{
    struct sp_vocab *vocab = NULL;
    struct compiler c = {.err = err};

    if ((c.st = sp_vocab_open(&vocab, json, config, err))) return c.st;
    c.vocab = vocab;
    make_all(&c);
    lay_out(blob, size, &c);
    if (!c.st && warning != NULL) {
        *warning = vocab->warning;
        vocab->warning = NULL;
    }
    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++)
        free(c.areas[i].at);
    sp_vocab_close(vocab);
    return c.st;
}
