#include "runtime/tokenizer/tokenizer.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/packfile.h"
#include "format/tokenizer/byte_level.h"
#include "runtime/spectool.h"
#include "runtime/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* Encoding takes up to 40 bytes of memory for each byte of a text, so that long texts are encoded
 * one at a time. */
enum {
    LONG_TEXT = 256 << 10, /* bytes */
    LARGE_TEXT = 4 << 20,
    MAX_MEAN_BYTES = 16, /* of the tokens of a large text that is a prompt */
};

static enum sp_status open_chain(struct sp_chain *chain, const struct sp_steps *steps,
                                 const char *name, struct sp_err *err)
{
    enum sp_status st;

    for (; chain->n < steps->n; chain->n++) {
        if ((st = sp_rewrite_init(&chain->at[chain->n], &steps->at[chain->n], err))) {
            sp_context(err, "%s", name);
            return st;
        }
    }
    return SP_OK;
}

static void release_chain(struct sp_chain *chain)
{
    while (chain->n > 0)
        sp_rewrite_release(&chain->at[--chain->n]);
}

/* Refuses steps of a kind that the compiler never puts in their place. */
static enum sp_status check_kinds(const struct sp_tokenizer *tok, struct sp_err *err)
{
    for (size_t i = 0; i < tok->normalizer.n; i++) {
        if (sp_rewrite_applies(&tok->normalizer.at[i])) continue;
        return sp_fail(err, SP_E_INPUT, "compiled tokenizer: unknown kind of normalizer %d",
                       (int)tok->normalizer.at[i].step.kind);
    }
    for (size_t i = 0; i < tok->splitter.n; i++) {
        enum sp_step_kind kind = tok->splitter.at[i].step.kind;
        if (kind == SP_STEP_SPLIT || kind == SP_STEP_FIXED_LENGTH) continue;
        if (sp_rewrite_applies(&tok->splitter.at[i])) continue;
        return sp_fail(err, SP_E_INPUT, "compiled tokenizer: unknown kind of pre-tokenizer %d",
                       (int)kind);
    }
    return SP_OK;
}

/* The longest text of which normalization makes one byte, in bytes; 0: not known. A composed
 * character is at least a third as long as its parts. */
static size_t longest_per_byte(const struct sp_chain *normalizer)
{
    size_t longest = 1;

    for (size_t i = 0; i < normalizer->n; i++) {
        if (normalizer->at[i].step.kind != SP_STEP_NFC) return 0;
        longest = 3;
    }
    return longest;
}

/* Only byte-level tokenizers have a token for each byte: others merge unknown text into one. */
static size_t longest_token(const struct sp_tokenizer *tok)
{
    struct sp_token_info info;
    size_t longest = 0;

    if (!(tok->map.flags & SP_TOKMAP_BYTES)) return 0;
    for (uint32_t id = 0; id < tok->map.n_ids; id++)
        if (sp_tokenizer_token(tok, id, &info) && info.len > longest) longest = info.len;
    return longest;
}

enum sp_status sp_tokenizer_open(struct sp_tokenizer **out, const void *blob, size_t size,
                                 struct sp_err *err)
{
    struct sp_tokenizer *tok = NULL;
    enum sp_status st;

    if ((st = sp_new(&tok, 1, sizeof *tok, err))) return st;
    if ((st = sp_new(&tok->lock, 1, sizeof *tok->lock, err))) goto done;
    pthread_mutex_init(tok->lock, NULL);
    if ((st = sp_tokmap_open(&tok->map, blob, size, err))) goto done;
    if ((st = open_chain(&tok->normalizer, &tok->map.normalizer, "normalizer", err))) goto done;
    if ((st = open_chain(&tok->splitter, &tok->map.splitter, "pre_tokenizer", err))) goto done;
    if ((st = open_chain(&tok->decoder, &tok->map.decoder, "decoder", err))) goto done;
    if ((st = check_kinds(tok, err))) goto done;
    sp_added_init(&tok->raw, &tok->map, &tok->map.raw);
    sp_added_init(&tok->normal, &tok->map, &tok->map.normal);
    tok->max_token_bytes = longest_per_byte(&tok->normalizer) * longest_token(tok);
    *out = tok;
    tok = NULL;
done:
    sp_tokenizer_close(tok);
    return st;
}

void sp_tokenizer_close(struct sp_tokenizer *tok)
{
    if (tok == NULL) return;
    release_chain(&tok->normalizer);
    release_chain(&tok->splitter);
    release_chain(&tok->decoder);
    if (tok->lock) pthread_mutex_destroy(tok->lock);
    free(tok->lock);
    sp_pack_close(tok->own_pack);
    free(tok->own_blob);
    free(tok);
}

uint32_t sp_tokenizer_n_ids(const struct sp_tokenizer *tok)
{
    return tok->map.n_ids;
}

size_t sp_tokenizer_min_tokens(const struct sp_tokenizer *tok, size_t size)
{
    size_t n = tok->max_token_bytes ? size / tok->max_token_bytes : 0;

    if (size > LARGE_TEXT && n < size / MAX_MEAN_BYTES) n = size / MAX_MEAN_BYTES;
    return n;
}

uint32_t sp_tokenizer_eos(const struct sp_tokenizer *tok)
{
    return tok->map.numbers[SP_TOKMAP_EOS];
}

bool sp_tokenizer_token(const struct sp_tokenizer *tok, uint32_t id, struct sp_token_info *out)
{
    struct sp_token_info info;

    if (!sp_tokmap_token(&tok->map, id, &info.bytes, &info.len)) return false;
    info.special = (tok->map.token_flags[id] & SP_TOKEN_SPECIAL) != 0;
    info.added = (tok->map.token_flags[id] & SP_TOKEN_ADDED) != 0;
    *out = info;
    return true;
}

/* Finds an added token by a linear search: there are few, and calls are rare. */
static uint32_t find_added(const struct sp_tokmap *map, const char *bytes, size_t len,
                           uint8_t spelling)
{
    const char *token;
    size_t token_len;

    for (uint32_t id = 0; id < map->n_ids; id++) {
        uint8_t flags = map->token_flags[id];
        if (!(flags & SP_TOKEN_ADDED) || (flags & SP_TOKEN_BYTES) != spelling) continue;
        if (!sp_tokmap_token(map, id, &token, &token_len)) continue;
        if (token_len == len && memcmp(token, bytes, len) == 0) return id;
    }
    return SP_TOKEN_NONE;
}

uint32_t sp_tokenizer_find(const struct sp_tokenizer *tok, const char *content, size_t len)
{
    const struct sp_tokmap *map = &tok->map;
    uint8_t spelling = 0;
    uint32_t id = SP_TOKEN_NONE;
    size_t n = len;
    char *copy = NULL;

    if (sp_copy_text(&copy, content, len, NULL)) return SP_TOKEN_NONE;
    if (map->flags & SP_TOKMAP_BYTES && sp_byte_level_decode(copy, &n, content, len)) {
        spelling = SP_TOKEN_BYTES;
    } else {
        memcpy(copy, content, len);
        n = len;
    }
    /* In a byte-level model a token with any other spelling is not in the table. */
    if (!(map->flags & SP_TOKMAP_BYTES) || spelling) id = sp_token_find(map, copy, n);
    if (id == SP_TOKEN_NONE) id = find_added(map, copy, n, spelling);
    free(copy);
    return id;
}

/* ---- encoding ---- */

/* The state of one call of sp_tokenizer_encode. */
struct encoding {
    const struct sp_tokenizer *tok;
    bool parse_special;
    struct sp_regex_matcher *matcher;
    size_t budget; /* remaining work of rewriting steps */
    struct sp_bpe *bpe;
    struct sp_rewritten normalized;
    struct sp_pretoken pretoken;
    struct sp_id_list ids;
};

/* Encodes text between added tokens: normalizes it, searches it for normalized added tokens, and
 * cuts the rest into pieces. */
static enum sp_status encode_plain(struct encoding *e, const char *text, size_t len, bool at_start,
                                   struct sp_err *err)
{
    struct sp_added_walk walk = {.added = &e->tok->normal, .parse_special = e->parse_special};
    size_t begin, end;
    uint32_t id;
    enum sp_status st = sp_rewrite_all(e->tok->normalizer.at, e->tok->normalizer.n, e->matcher,
                                       &e->budget, &e->normalized, at_start, &text, &len, err);

    if (st) return st;
    walk.text = text;
    walk.len = len;
    while (sp_added_next(&walk, &begin, &end, &id))
        if ((st = id != SP_ID_NONE ? sp_id_list_append(&e->ids, id, err)
                                   : sp_pretoken_run(&e->pretoken, text + begin, end - begin,
                                                     at_start && begin == 0, err)))
            return st;
    return SP_OK;
}

static enum sp_status encode_text(struct encoding *e, const char *text, size_t size,
                                  struct sp_err *err)
{
    struct sp_added_walk walk = {
        .added = &e->tok->raw, .parse_special = e->parse_special, .text = text, .len = size};
    size_t begin, end;
    uint32_t id;
    enum sp_status st;

    while (sp_added_next(&walk, &begin, &end, &id))
        if ((st = id != SP_ID_NONE ? sp_id_list_append(&e->ids, id, err)
                                   : encode_plain(e, text + begin, end - begin, begin == 0, err)))
            return st;
    return SP_OK;
}

static enum sp_status append_template(struct encoding *e, size_t from, size_t n, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = from; i < from + n && st == SP_OK; i++)
        st = sp_id_list_append(&e->ids, sp_get32(e->tok->map.template + 4 * i), err);
    return st;
}

size_t sp_tokenizer_lead(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n)
{
    size_t n_prefix = tok->map.numbers[SP_TOKMAP_N_PREFIX];

    if (n < n_prefix) return 0;
    for (size_t i = 0; i < n_prefix; i++)
        if (ids[i] != sp_get32(tok->map.template + 4 * i)) return 0;
    return n_prefix;
}

size_t sp_tokenizer_n_tail(const struct sp_tokenizer *tok)
{
    return tok->map.numbers[SP_TOKMAP_N_SUFFIX];
}

enum sp_status sp_tokenizer_expect(const struct sp_tokenizer *tok, struct sp_err *err)
{
    if (tok) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "the file has no tokenizer: give token IDs");
}

enum sp_status sp_tokenizer_encode(const struct sp_tokenizer *tok, const char *text, size_t size,
                                   unsigned flags, uint32_t **ids, size_t *n, struct sp_err *err)
{
    bool add_special = (flags & SP_ENCODE_ADD_SPECIAL) != 0, is_long = size > LONG_TEXT;
    struct encoding e = {.tok = tok, .parse_special = (flags & SP_ENCODE_PARSE_SPECIAL) != 0};
    enum sp_status st;

    if ((st = sp_tokenizer_expect(tok, err))) return st;
    if (sp_utf8_valid(text, size) != size) {
        return sp_fail(err, SP_E_INPUT, "text: byte %zu is not valid UTF-8",
                       sp_utf8_valid(text, size));
    }
    if (is_long) pthread_mutex_lock(tok->lock);
    if ((st = sp_regex_matcher_open(&e.matcher, err))) goto done;
    if ((st = sp_bpe_open(&e.bpe, &tok->map, size, err))) goto done;
    e.budget = sp_rewrite_budget(size);
    e.pretoken = (struct sp_pretoken){.steps = tok->splitter.at,
                                      .n = tok->splitter.n,
                                      .matcher = e.matcher,
                                      .budget = &e.budget,
                                      .bpe = e.bpe,
                                      .ids = &e.ids};
    if ((st = sp_grow(&e.ids.at, &e.ids.cap, size / 4 + 8, sizeof *e.ids.at, err))) goto done;
    if (add_special && (st = append_template(&e, 0, tok->map.numbers[SP_TOKMAP_N_PREFIX], err)))
        goto done;
    if ((st = encode_text(&e, text, size, err))) goto done;
    if (add_special && (st = append_template(&e, tok->map.numbers[SP_TOKMAP_N_PREFIX],
                                             tok->map.numbers[SP_TOKMAP_N_SUFFIX], err)))
        goto done;
    *ids = e.ids.at;
    *n = e.ids.n;
    e.ids.at = NULL;
done:
    sp_pretoken_release(&e.pretoken);
    sp_rewritten_release(&e.normalized);
    sp_bpe_close(e.bpe);
    sp_regex_matcher_close(e.matcher);
    free(e.ids.at);
    if (is_long) pthread_mutex_unlock(tok->lock);
    return st;
}

/* The size of the text of one token, in bytes. */
static bool decoded_size(size_t *size, const struct sp_tokenizer *tok, uint32_t id,
                         bool skip_special)
{
    char *text = NULL;

    if (sp_tokenizer_decode(tok, &id, 1, skip_special, &text, size, NULL)) return false;
    free(text);
    return true;
}

bool sp_tokenizer_leading_special(const struct sp_tokenizer *tok, const char *text, uint32_t *id,
                                  size_t *size)
{
    uint32_t *ids = NULL;
    size_t n, shown = 0;
    bool special;

    if (sp_tokenizer_encode(tok, text, strlen(text), SP_ENCODE_PARSE_SPECIAL, &ids, &n, NULL))
        return false;
    special = n > 0 && decoded_size(&shown, tok, ids[0], true) && shown == 0 &&
              decoded_size(size, tok, ids[0], false) && *size > 0;
    if (special) *id = ids[0];
    free(ids);
    return special;
}
