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

struct compiler {
    const struct sp_vocab *vocab;
    struct area areas[SP_N_TOKMAP_AREAS];
    uint32_t numbers[SP_N_TOKMAP_NUMBERS];
    bool bytes; /* the model works on bytes */
    struct sp_steps splitter;
    struct sp_tokmap map; /* of the areas made so far: offsets, bytes, words */
};

static enum sp_status make_area(struct compiler *c, enum sp_tokmap_area which, size_t n,
                                size_t size, struct sp_err *err)
{
    enum sp_status st = sp_new(&c->areas[which].at, n, size, err);

    c->areas[which].size = n * size;
    return st;
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

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

static enum sp_status make_tokens(struct compiler *c, struct sp_err *err)
{
    const struct sp_vocab *vocab = c->vocab;
    size_t total = 0, at = 0;
    enum sp_status st;

    for (size_t i = 0; i < vocab->n_ids; i++)
        total += vocab->tokens[i].len;
    if (total >= UINT32_MAX) return sp_fail(err, SP_E_UNSUPPORTED, "more than 4 GiB of tokens");
    if ((st = make_area(c, SP_AREA_OFFSETS, vocab->n_ids + 1, 4, err))) return st;
    if ((st = make_area(c, SP_AREA_FLAGS, vocab->n_ids, 1, err))) return st;
    if ((st = make_area(c, SP_AREA_BYTES, total, 1, err))) return st;
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
    c->map.offsets = c->areas[SP_AREA_OFFSETS].at;
    c->map.bytes = c->areas[SP_AREA_BYTES].at;
    c->map.n_bytes = at;
    return SP_OK;
}

/* The tokens that the model can produce: those of its own vocabulary, spelled as it sees text. */
static bool in_model(const struct compiler *c, size_t id)
{
    uint8_t flags = c->areas[SP_AREA_FLAGS].at[id];

    return flags & SP_TOKEN_MODEL && (!c->bytes || flags & SP_TOKEN_BYTES);
}

static enum sp_status too_many_probes(struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "the vocabulary cannot be hashed: too many entries collide");
}

static enum sp_status make_words(struct compiler *c, struct sp_err *err)
{
    size_t n_slots = c->vocab->n_model * 2 + 1;
    uint32_t longest = 0;
    uint8_t *words;
    enum sp_status st;

    if ((st = make_area(c, SP_AREA_WORDS, n_slots, 8, err))) return st;
    words = c->areas[SP_AREA_WORDS].at;
    for (size_t id = 0; id < c->vocab->n_ids; id++) {
        const char *bytes;
        size_t len;
        uint32_t probes = 0;
        if (!in_model(c, id) || !sp_tokmap_token(&c->map, (uint32_t)id, &bytes, &len)) continue;
        uint64_t hash = sp_word_hash(bytes, len);
        size_t slot = sp_hash_slot(hash, n_slots);
        for (; sp_get32(words + 8 * slot); slot = slot + 1 == n_slots ? 0 : slot + 1)
            probes++;
        if (probes > SP_MAX_PROBES) return too_many_probes(err);
        sp_put32(words + 8 * slot, (uint32_t)id + 1);
        sp_put32(words + 8 * slot + 4, (uint32_t)hash);
        if (probes > longest) longest = probes;
    }
    c->numbers[SP_TOKMAP_WORD_PROBES] = longest;
    c->map.numbers[SP_TOKMAP_WORD_PROBES] = longest;
    c->map.words = words;
    c->map.n_words = n_slots;
    return SP_OK;
}

static uint32_t find_word(const struct compiler *c, const char *bytes, size_t len)
{
    return sp_tokmap_find(&c->map, bytes, len, sp_word_hash(bytes, len));
}

/* Ids of single bytes; *all: there is one for every byte. */
static enum sp_status make_byte_ids(struct compiler *c, bool *all, struct sp_err *err)
{
    enum sp_status st;

    if ((st = make_area(c, SP_AREA_BYTE_IDS, 256, 4, err))) return st;
    *all = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        static const char digits[] = "0123456789ABCDEF";
        const char fallback[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        char plain = (char)byte;
        uint32_t id = c->bytes                  ? find_word(c, &plain, 1)
                      : c->vocab->byte_fallback ? find_word(c, fallback, sizeof fallback)
                                                : SP_ID_NONE;
        if (id == SP_ID_NONE) *all = false;
        sp_put32(c->areas[SP_AREA_BYTE_IDS].at + 4 * byte, id);
    }
    return SP_OK;
}

/* ---- merges -----------------------------------------------------------------------------------
 */

static enum sp_status insert_merge(struct compiler *c, size_t n_slots, size_t rank,
                                   struct sp_err *err)
{
    const struct sp_vocab_merge *merge = &c->vocab->merges[rank];
    size_t slot = sp_hash_slot(sp_merge_hash(merge->left, merge->right), n_slots);
    uint32_t probes = 0;
    uint8_t *p;

    for (;; slot = slot + 1 == n_slots ? 0 : slot + 1, probes++) {
        p = c->areas[SP_AREA_MERGES].at + 12 * slot;
        if (sp_get32(p + 8) == 0) break;
        if (sp_get32(p) == merge->left && sp_get32(p + 4) == merge->right) break; /* last wins */
        if (probes == SP_MAX_PROBES) return too_many_probes(err);
    }
    sp_put32(p, merge->left);
    sp_put32(p + 4, merge->right);
    sp_put32(p + 8, (uint32_t)rank + 1);
    sp_put32(c->areas[SP_AREA_MERGED].at + 4 * rank, merge->merged);
    if (probes > c->numbers[SP_TOKMAP_MERGE_PROBES]) c->numbers[SP_TOKMAP_MERGE_PROBES] = probes;
    return SP_OK;
}

static bool is_byte_id(const struct compiler *c, uint32_t id)
{
    for (size_t byte = 0; byte < 256; byte++)
        if (sp_get32(c->areas[SP_AREA_BYTE_IDS].at + 4 * byte) == id) return true;
    return false;
}

/* Which bytes merges join; *cut is cleared when a merge takes part whose text is not its spelling.
 */
static enum sp_status make_pairs(struct compiler *c, bool *cut, struct sp_err *err)
{
    enum sp_status st;

    if ((st = make_area(c, SP_AREA_PAIRS, 8192, 1, err))) return st;
    for (size_t i = 0; i < c->vocab->n_merges; i++) {
        const struct sp_vocab_merge *merge = &c->vocab->merges[i];
        const char *left, *right;
        size_t left_len, right_len;
        if (!sp_tokmap_token(&c->map, merge->left, &left, &left_len) ||
            !sp_tokmap_token(&c->map, merge->right, &right, &right_len)) {
            *cut = false;
            continue;
        }
        unsigned bit = (unsigned)(uint8_t)left[left_len - 1] << 8 | (uint8_t)right[0];
        c->areas[SP_AREA_PAIRS].at[bit >> 3] |= (uint8_t)(1U << (bit & 7));
        /* Byte tokens are six characters long; only then is the slow look needed. */
        if (*cut && !c->bytes &&
            ((left_len == 6 && is_byte_id(c, merge->left)) ||
             (right_len == 6 && is_byte_id(c, merge->right))))
            *cut = false;
    }
    return SP_OK;
}

/* A character that is not in the vocabulary scores 10 less than the worst token, as in
 * SentencePiece. */
static enum sp_status make_scores(struct compiler *c, struct sp_err *err)
{
    const struct sp_vocab *vocab = c->vocab;
    double least = 0;
    uint8_t *out;
    enum sp_status st;

    if ((st = make_area(c, SP_AREA_MERGES, 1, 12, err))) return st;
    if ((st = make_area(c, SP_AREA_PAIRS, 8192, 1, err))) return st;
    if ((st = make_area(c, SP_AREA_MERGED, vocab->n_ids + 1, 8, err))) return st;
    out = c->areas[SP_AREA_MERGED].at;
    for (size_t id = 0; id < vocab->n_model; id++) {
        if (id == 0 || vocab->scores[id] < least) least = vocab->scores[id];
        sp_put_double(out + 8 * id, vocab->scores[id]);
        if (vocab->tokens[id].len > c->numbers[SP_TOKMAP_LONGEST])
            c->numbers[SP_TOKMAP_LONGEST] = vocab->tokens[id].len;
    }
    sp_put_double(out + 8 * vocab->n_ids, least - 10);
    return SP_OK;
}

static enum sp_status make_merges(struct compiler *c, bool *cut, struct sp_err *err)
{
    size_t n = c->vocab->n_merges;
    enum sp_status st;

    if (n >= UINT32_MAX / 32)
        return sp_fail(err, SP_E_UNSUPPORTED, "model.merges: %zu entries are not supported", n);
    if ((st = make_area(c, SP_AREA_MERGES, 2 * n + 1, 12, err))) return st;
    if ((st = make_area(c, SP_AREA_MERGED, n, 4, err))) return st;
    for (size_t rank = 0; rank < n; rank++)
        if ((st = insert_merge(c, 2 * n + 1, rank, err))) return st;
    return make_pairs(c, cut, err);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

static enum sp_status check_patterns(const struct sp_steps *steps, const char *name,
                                     struct sp_err *err)
{
    for (size_t i = 0; i < steps->n; i++) {
        struct sp_rewrite rewrite;
        enum sp_status st = sp_rewrite_init(&rewrite, &steps->at[i], err);
        if (st) {
            sp_context(err, "%s", name);
            return st;
        }
        sp_rewrite_release(&rewrite);
    }
    return SP_OK;
}

static enum sp_status put_string(uint8_t *entry, struct sp_strbuf *strings, const char *text,
                                 size_t len, struct sp_err *err)
{
    if (strings->len + len >= UINT32_MAX)
        return sp_fail(err, SP_E_UNSUPPORTED, "more than 4 GiB of patterns");
    sp_put32(entry, (uint32_t)strings->len);
    sp_put32(entry + 4, (uint32_t)len);
    return sp_strbuf_append(strings, text, len, err);
}

static enum sp_status make_steps(struct compiler *c, struct sp_err *err)
{
    const struct sp_steps *chains[3] = {&c->vocab->normalizer, &c->splitter, &c->vocab->decoder};
    static const char *const names[3] = {"normalizer", "pre_tokenizer", "decoder"};
    struct sp_strbuf strings = {0};
    size_t total = chains[0]->n + chains[1]->n + chains[2]->n;
    uint8_t *entry;
    enum sp_status st;

    if ((st = make_area(c, SP_AREA_STEPS, total, SP_TOKMAP_STEP, err))) return st;
    entry = c->areas[SP_AREA_STEPS].at;
    for (int i = 0; i < 3; i++) {
        c->numbers[SP_TOKMAP_N_NORMALIZER + i] = (uint32_t)chains[i]->n;
        if ((st = check_patterns(chains[i], names[i], err))) goto done;
        for (size_t k = 0; k < chains[i]->n; k++, entry += SP_TOKMAP_STEP) {
            const struct sp_step *step = &chains[i]->at[k];
            sp_put32(entry, step->kind);
            sp_put32(entry + 4, step->flags);
            sp_put32(entry + 8, step->a);
            sp_put32(entry + 12, step->b);
            if ((st = put_string(entry + 16, &strings, step->text, step->text_len, err))) goto done;
            if ((st = put_string(entry + 24, &strings, step->pattern, step->pattern_len, err)))
                goto done;
        }
    }
    if ((st = make_area(c, SP_AREA_STRINGS, strings.len, 1, err))) goto done;
    if (strings.len) memcpy(c->areas[SP_AREA_STRINGS].at, strings.at, strings.len);
done:
    sp_strbuf_release(&strings);
    return st;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static enum sp_status make_rest(struct compiler *c, uint32_t flags, struct sp_err *err)
{
    const struct sp_vocab *vocab = c->vocab;
    uint8_t *out;
    enum sp_status st = make_area(c, SP_AREA_TEMPLATE, vocab->n_prefix + vocab->n_suffix, 4, err);

    if (st) return st;
    out = c->areas[SP_AREA_TEMPLATE].at;
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
    if ((st = make_area(c, SP_AREA_NUMBERS, SP_N_TOKMAP_NUMBERS, 4, err))) return st;
    for (size_t i = 0; i < SP_N_TOKMAP_NUMBERS; i++)
        sp_put32(c->areas[SP_AREA_NUMBERS].at + 4 * i, c->numbers[i]);
    return SP_OK;
}

static enum sp_status make_all(struct compiler *c, struct sp_err *err)
{
    const struct sp_vocab *vocab = c->vocab;
    uint32_t flags;
    bool all_bytes = false, cut = true;
    enum sp_status st;

    choose_domain(c);
    if ((st = make_tokens(c, err))) return st;
    if ((st = make_words(c, err))) return st;
    if ((st = make_byte_ids(c, &all_bytes, err))) return st;
    if (vocab->missing_unk && !all_bytes) { /* else no text needs it */
        return sp_fail(err, SP_E_INPUT, "model.unk_token \"%s\" is not in the vocabulary",
                       vocab->missing_unk);
    }
    st = vocab->model == SP_VOCAB_UNIGRAM ? make_scores(c, err) : make_merges(c, &cut, err);
    if (st) return st;
    for (int which = SP_AREA_RAW; which <= SP_AREA_NORMAL; which++) {
        st = sp_tokmap_make_tree(&c->areas[which].at, &c->areas[which].size, vocab,
                                 which == SP_AREA_NORMAL, err);
        if (st) return st;
    }
    if ((st = make_steps(c, err))) return st;
    flags = (vocab->byte_fallback ? SP_TOKMAP_BYTE_FALLBACK : 0U) |
            (vocab->fuse_unk ? SP_TOKMAP_FUSE_UNK : 0U) |
            (vocab->ignore_merges ? SP_TOKMAP_IGNORE_MERGES : 0U) |
            (vocab->model == SP_VOCAB_WORDPIECE ? SP_TOKMAP_WORDPIECE : 0U) |
            (vocab->model == SP_VOCAB_UNIGRAM ? SP_TOKMAP_UNIGRAM : 0U) |
            (c->bytes ? SP_TOKMAP_BYTES : 0U) |
            (cut && all_bytes && vocab->model == SP_VOCAB_BPE ? SP_TOKMAP_CUT : 0U);
    return make_rest(c, flags, err);
}

static enum sp_status lay_out(uint8_t **blob, size_t *blob_size, const struct compiler *c,
                              struct sp_err *err)
{
    size_t size = SP_TOKMAP_HEADER + 16 * SP_N_TOKMAP_AREAS;
    uint8_t *out = NULL;
    enum sp_status st;

    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++)
        size += sp_round_up(c->areas[i].size, 8);
    if ((st = sp_new(&out, size, 1, err))) return st;
    memcpy(out, sp_tokmap_magic, sizeof sp_tokmap_magic);
    sp_put32(out + 8, SP_TOKMAP_VERSION);
    sp_put32(out + 12, SP_N_TOKMAP_AREAS);
    sp_put64(out + 16, size);
    size_t at = SP_TOKMAP_HEADER + 16 * SP_N_TOKMAP_AREAS;
    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++) {
        sp_put64(out + SP_TOKMAP_HEADER + 16 * i, at);
        sp_put64(out + SP_TOKMAP_HEADER + 16 * i + 8, c->areas[i].size);
        memcpy(out + at, c->areas[i].at, c->areas[i].size);
        at += sp_round_up(c->areas[i].size, 8);
    }
    *blob = out;
    *blob_size = size;
    return SP_OK;
}

enum sp_status sp_vocab_compile(uint8_t **blob, size_t *size, const struct sp_text *json,
                                const struct sp_text *config, char **warning, struct sp_err *err)
{
    struct sp_vocab *vocab = NULL;
    struct compiler c = {.vocab = NULL};
    enum sp_status st;

    if ((st = sp_vocab_open(&vocab, json, config, err))) return st;
    c.vocab = vocab;
    if ((st = make_all(&c, err))) goto done;
    if ((st = lay_out(blob, size, &c, err))) goto done;
    if (warning != NULL) {
        *warning = vocab->warning;
        vocab->warning = NULL;
    }
done:
    for (size_t i = 0; i < SP_N_TOKMAP_AREAS; i++)
        free(c.areas[i].at);
    sp_vocab_close(vocab);
    return st;
}
