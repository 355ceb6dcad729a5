#include "format/tokenizer/tokmap.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"

const uint8_t sp_tokmap_magic[8] = {'S', 'P', 'T', 'O', 'K', 'M', 'A', 'P'};

static const char *const area_names[SP_N_TOKMAP_AREAS] = {
    [SP_AREA_NUMBERS] = "numbers",
    [SP_AREA_OFFSETS] = "offsets",
    [SP_AREA_FLAGS] = "flags",
    [SP_AREA_BYTES] = "bytes",
    [SP_AREA_WORDS] = "words",
    [SP_AREA_MERGES] = "merges",
    [SP_AREA_MERGED] = "merged",
    [SP_AREA_BYTE_IDS] = "byte ids",
    [SP_AREA_PAIRS] = "pairs",
    [SP_AREA_RAW] = "tree of added tokens",
    [SP_AREA_NORMAL] = "tree of normalized added tokens",
    [SP_AREA_STEPS] = "steps",
    [SP_AREA_STRINGS] = "strings",
    [SP_AREA_TEMPLATE] = "template",
};

struct area {
    const uint8_t *at;
    size_t size;
};

static enum sp_status damaged(enum sp_tokmap_area area, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "compiled tokenizer: the %s are damaged", area_names[area]);
}

/* Areas follow each other, each at the next multiple of 8. */
static enum sp_status find_areas(struct area areas[SP_N_TOKMAP_AREAS], const uint8_t *blob,
                                 size_t size, struct sp_err *err)
{
    size_t next = SP_TOKMAP_HEADER + SP_N_TOKMAP_AREAS * 16;

    if (size < next || memcmp(blob, sp_tokmap_magic, sizeof sp_tokmap_magic) != 0)
        return sp_fail(err, SP_E_INPUT, "compiled tokenizer: no header");
    if (sp_get32(blob + 8) != SP_TOKMAP_VERSION) {
        return sp_fail(err, SP_E_UNSUPPORTED, "compiled tokenizer: version %u, expected %d",
                       sp_get32(blob + 8), SP_TOKMAP_VERSION);
    }
    if (sp_get32(blob + 12) != SP_N_TOKMAP_AREAS || sp_get64(blob + 16) != size) {
        return sp_fail(err, SP_E_INPUT,
                       "compiled tokenizer: %u areas in %llu bytes, expected %d in "
                       "%zu",
                       sp_get32(blob + 12), (unsigned long long)sp_get64(blob + 16),
                       SP_N_TOKMAP_AREAS, size);
    }
    for (int i = 0; i < SP_N_TOKMAP_AREAS; i++) {
        const uint8_t *entry = blob + SP_TOKMAP_HEADER + 16 * i;
        uint64_t offset = sp_get64(entry), len = sp_get64(entry + 8);
        if (offset != next || len > size - next) return damaged((enum sp_tokmap_area)i, err);
        areas[i] = (struct area){blob + next, (size_t)len};
        next = sp_round_up(next + (size_t)len, 8);
        if (next > size) return damaged((enum sp_tokmap_area)i, err);
    }
    if (next != size) return sp_fail(err, SP_E_INPUT, "compiled tokenizer: bytes after the end");
    return SP_OK;
}

static enum sp_status read_numbers(struct sp_tokmap *map, const struct area *areas,
                                   struct sp_err *err)
{
    const struct area *numbers = &areas[SP_AREA_NUMBERS];
    uint32_t *n = map->numbers;

    if (numbers->size != 4 * SP_N_TOKMAP_NUMBERS) return damaged(SP_AREA_NUMBERS, err);
    for (size_t i = 0; i < SP_N_TOKMAP_NUMBERS; i++)
        n[i] = sp_get32(numbers->at + 4 * i);
    map->n_ids = n[SP_TOKMAP_N_IDS];
    map->flags = n[SP_TOKMAP_FLAGS];
    if (map->flags & ~(uint32_t)SP_TOKMAP_ALL_FLAGS || map->n_ids >= UINT32_MAX / 8 ||
        n[SP_TOKMAP_WORD_PROBES] > SP_MAX_PROBES || n[SP_TOKMAP_MERGE_PROBES] > SP_MAX_PROBES)
        return damaged(SP_AREA_NUMBERS, err);
    for (int i = SP_TOKMAP_UNK; i <= SP_TOKMAP_EOS; i++)
        if (n[i] != SP_ID_NONE && n[i] >= map->n_ids) return damaged(SP_AREA_NUMBERS, err);
    return SP_OK;
}

static enum sp_status read_tables(struct sp_tokmap *map, const struct area *areas,
                                  struct sp_err *err)
{
    const uint64_t exact[SP_N_TOKMAP_AREAS] = {
        [SP_AREA_OFFSETS] = 4 * ((uint64_t)map->n_ids + 1),
        [SP_AREA_FLAGS] = map->n_ids,
        [SP_AREA_BYTE_IDS] = 4 * 256,
        [SP_AREA_PAIRS] = 8192,
    };

    for (int i = 0; i < SP_N_TOKMAP_AREAS; i++) {
        bool wrong = areas[i].size > UINT32_MAX || (exact[i] && areas[i].size != exact[i]);
        if (wrong) return damaged((enum sp_tokmap_area)i, err);
    }
    map->offsets = areas[SP_AREA_OFFSETS].at;
    map->token_flags = areas[SP_AREA_FLAGS].at;
    map->bytes = areas[SP_AREA_BYTES].at;
    map->n_bytes = areas[SP_AREA_BYTES].size;
    map->words = areas[SP_AREA_WORDS].at;
    map->n_words = areas[SP_AREA_WORDS].size / 8;
    map->merges = areas[SP_AREA_MERGES].at;
    map->n_slots = areas[SP_AREA_MERGES].size / 12;
    map->merged = areas[SP_AREA_MERGED].at;
    map->n_merges = areas[SP_AREA_MERGED].size / 4;
    if (map->flags & SP_TOKMAP_UNIGRAM) {
        if (areas[SP_AREA_MERGED].size != 8 * ((uint64_t)map->n_ids + 1))
            return damaged(SP_AREA_MERGED, err);
        if (map->numbers[SP_TOKMAP_UNK] == SP_ID_NONE) return damaged(SP_AREA_NUMBERS, err);
        map->scores = areas[SP_AREA_MERGED].at;
        map->n_merges = 0;
    }
    map->byte_ids = areas[SP_AREA_BYTE_IDS].at;
    map->pairs = areas[SP_AREA_PAIRS].at;
    if (areas[SP_AREA_WORDS].size % 8 || map->n_words == 0) return damaged(SP_AREA_WORDS, err);
    if (areas[SP_AREA_MERGES].size % 12 || map->n_slots == 0) return damaged(SP_AREA_MERGES, err);
    if (areas[SP_AREA_MERGED].size % 4) return damaged(SP_AREA_MERGED, err);
    return SP_OK;
}

/* n nodes take 4 (n + 1) + 4 n + (n - 1) bytes; an empty tree takes none. */
static enum sp_status read_tree(struct sp_tokmap_tree *tree, const struct area *area,
                                enum sp_tokmap_area which, struct sp_err *err)
{
    size_t n = (area->size - 3) / 9;

    if (area->size == 0) return SP_OK;
    if (area->size < 12 || 9 * n + 3 != area->size) return damaged(which, err);
    tree->n_nodes = n;
    tree->first = area->at;
    tree->ids = tree->first + 4 * (n + 1);
    tree->edges = tree->ids + 4 * n;
    return SP_OK;
}

static bool read_string(const char **text, size_t *len, const uint8_t *entry,
                        const struct area *strings)
{
    size_t offset = sp_get32(entry);

    *len = sp_get32(entry + 4);
    if (offset > strings->size || *len > strings->size - offset) return false;
    *text = (const char *)strings->at + offset;
    return sp_utf8_valid(*text, *len) == *len;
}

static enum sp_status read_step(struct sp_step *step, const uint8_t *entry,
                                const struct area *strings, struct sp_err *err)
{
    uint32_t kind = sp_get32(entry);

    step->kind = (enum sp_step_kind)kind;
    step->flags = sp_get32(entry + 4);
    step->a = sp_get32(entry + 8);
    step->b = sp_get32(entry + 12);
    if (kind == 0 || kind > SP_STEP_LAST || step->flags & ~(unsigned)SP_STEP_ALL_FLAGS ||
        (kind == SP_STEP_SPLIT && step->a >= SP_N_SPLITS) ||
        (kind == SP_STEP_FIXED_LENGTH && step->a == 0) || sp_get32(entry + 20) > SP_MAX_STEP_TEXT)
        return damaged(SP_AREA_STEPS, err);
    if (!read_string(&step->text, &step->text_len, entry + 16, strings) ||
        !read_string(&step->pattern, &step->pattern_len, entry + 24, strings))
        return damaged(SP_AREA_STRINGS, err);
    return SP_OK;
}

static enum sp_status read_steps(struct sp_tokmap *map, const struct area *areas,
                                 struct sp_err *err)
{
    struct sp_steps *chains[3] = {&map->normalizer, &map->splitter, &map->decoder};
    const uint8_t *entry = areas[SP_AREA_STEPS].at;
    size_t total = 0;
    enum sp_status st;

    for (int i = 0; i < 3; i++) {
        chains[i]->n = map->numbers[SP_TOKMAP_N_NORMALIZER + i];
        if (chains[i]->n > SP_MAX_STEPS) return damaged(SP_AREA_STEPS, err);
        total += chains[i]->n;
    }
    if (areas[SP_AREA_STEPS].size != total * SP_TOKMAP_STEP) return damaged(SP_AREA_STEPS, err);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < chains[i]->n; k++, entry += SP_TOKMAP_STEP) {
            st = read_step(&chains[i]->at[k], entry, &areas[SP_AREA_STRINGS], err);
            if (st) return st;
        }
    }
    return SP_OK;
}

static enum sp_status read_template(struct sp_tokmap *map, const struct area *area,
                                    struct sp_err *err)
{
    uint64_t n = (uint64_t)map->numbers[SP_TOKMAP_N_PREFIX] + map->numbers[SP_TOKMAP_N_SUFFIX];

    if (area->size != 4 * n) return damaged(SP_AREA_TEMPLATE, err);
    map->template = area->at;
    for (size_t i = 0; i < n; i++)
        if (sp_get32(area->at + 4 * i) >= map->n_ids) return damaged(SP_AREA_TEMPLATE, err);
    return SP_OK;
}

enum sp_status sp_tokmap_open(struct sp_tokmap *map, const void *blob, size_t size,
                              struct sp_err *err)
{
    struct area areas[SP_N_TOKMAP_AREAS];
    struct sp_tokmap read = {.n_ids = 0};
    enum sp_status st;

    if ((st = find_areas(areas, blob, size, err))) return st;
    if ((st = read_numbers(&read, areas, err))) return st;
    if ((st = read_tables(&read, areas, err))) return st;
    if ((st = read_tree(&read.raw, &areas[SP_AREA_RAW], SP_AREA_RAW, err))) return st;
    if ((st = read_tree(&read.normal, &areas[SP_AREA_NORMAL], SP_AREA_NORMAL, err))) return st;
    if ((st = read_steps(&read, areas, err))) return st;
    if ((st = read_template(&read, &areas[SP_AREA_TEMPLATE], err))) return st;
    *map = read;
    return SP_OK;
}

uint32_t sp_tokmap_find(const struct sp_tokmap *map, const char *bytes, size_t len, uint64_t hash)
{
    size_t slot = sp_hash_slot(hash, map->n_words), token_len;
    const char *token;

    for (uint32_t i = 0; i <= map->numbers[SP_TOKMAP_WORD_PROBES]; i++) {
        uint32_t id = sp_get32(map->words + 8 * slot);
        if (id-- == 0) break;
        if (sp_get32(map->words + 8 * slot + 4) == (uint32_t)hash &&
            sp_tokmap_token(map, id, &token, &token_len) && token_len == len &&
            memcmp(token, bytes, len) == 0)
            return id;
        if (++slot == map->n_words) slot = 0;
    }
    return SP_ID_NONE;
}
