#include "format/tokenizer/rewrite.h"

#include "format/base/unicode.h"
#include "format/tokenizer/byte_level.h"

enum sp_status sp_rewrite_init(struct sp_rewrite *rewrite, const struct sp_step *step,
                               struct sp_err *err)
{
    struct sp_rewrite made = {.step = *step};
    enum sp_status st;

    if (step->kind == SP_STEP_REPLACE || step->kind == SP_STEP_SPLIT) {
        st = sp_regex_open(&made.regex, step->pattern, step->pattern_len,
                           (step->flags & SP_STEP_REGEX) != 0, err);
        if (st) return st;
    }
    if (step->kind == SP_STEP_CHARSMAP) {
        st = sp_charsmap_open(&made.charsmap, step->pattern, step->pattern_len, err);
        if (st) return st;
    }
    *rewrite = made;
    return SP_OK;
}

void sp_rewrite_release(struct sp_rewrite *rewrite)
{
    sp_regex_close(rewrite->regex);
    sp_charsmap_close(rewrite->charsmap);
    memset(rewrite, 0, sizeof *rewrite);
}

static enum sp_status strip_accents(struct sp_strbuf *out, const char *text, size_t len,
                                    struct sp_err *err)
{
    enum sp_status st = sp_strbuf_reserve(out, len, err);

    if (st) return st;
    for (size_t i = 0; i < len;) {
        size_t begin = i;
        uint32_t c = sp_utf8_next(text, len, &i);
        if (sp_char_is_mark(c) && sp_normal_knows(c)) continue;
        memcpy(out->at + out->len, text + begin, i - begin);
        out->len += i - begin;
    }
    return SP_OK;
}

size_t sp_rewrite_budget(size_t input_size)
{
    size_t budget = (size_t)64 << 20;

    if (sp_mul(&input_size, input_size, 64)) (void)sp_add(&budget, budget, input_size);
    return budget;
}

static enum sp_status spend(size_t *budget, size_t size, struct sp_err *err)
{
    if (size > *budget)
        return sp_fail(err, SP_E_INPUT, "the tokenizer expands this text to more than it may");
    *budget -= size;
    return SP_OK;
}

static enum sp_status prefix(struct sp_strbuf *out, bool *changed, const struct sp_step *step,
                             bool at_start, const char *text, size_t len, struct sp_err *err)
{
    bool begins = len >= step->text_len && memcmp(text, step->text, step->text_len) == 0;
    enum sp_status st;

    *changed =
        !(step->a != SP_PREFIX_ALWAYS && begins) && !(step->a == SP_PREFIX_AT_START && !at_start);
    if (!*changed) return SP_OK;
    if ((st = sp_strbuf_append(out, step->text, step->text_len, err))) return st;
    return sp_strbuf_append(out, text, len, err);
}

static enum sp_status replace(struct sp_strbuf *out, bool *changed,
                              const struct sp_rewrite *rewrite, struct sp_regex_matcher *matcher,
                              size_t budget, const char *text, size_t len, struct sp_err *err)
{
    struct sp_find find = {.regex = rewrite->regex, .matcher = matcher, .text = text, .len = len};
    size_t done = 0, start, end;
    enum sp_status st;

    *changed = false;
    for (;;) {
        bool found;
        if ((st = sp_find_next(&find, &found, &start, &end, err))) return st;
        if (!found) break;
        *changed = true;
        if ((st = spend(&budget, start - done + rewrite->step.text_len, err))) return st;
        if ((st = sp_strbuf_append(out, text + done, start - done, err))) return st;
        st = sp_strbuf_append(out, rewrite->step.text, rewrite->step.text_len, err);
        if (st) return st;
        done = end;
    }
    return *changed ? sp_strbuf_append(out, text + done, len - done, err) : SP_OK;
}

/* As the reference does, looks up short grapheme clusters as a whole, and the characters of others
 * one by one. A cluster that only begins with a key is replaced as a whole, too. */
static enum sp_status map_characters(struct sp_strbuf *out, const struct sp_charsmap *map,
                                     size_t budget, const char *text, size_t len,
                                     struct sp_err *err)
{
    enum { LONGEST_CLUSTER = 5 }; /* bytes */
    size_t cluster_end = 0, end;
    enum sp_status st;

    for (size_t begin = 0; begin < len; begin = end) {
        const char *become = NULL;
        size_t n = 0;
        bool found = false;
        end = begin;
        if (begin == cluster_end) {
            cluster_end = sp_grapheme_end(text, len, begin);
            if (cluster_end - begin <= LONGEST_CLUSTER) {
                found = sp_charsmap_find(map, text + begin, cluster_end - begin, &become, &n);
                if (found) end = cluster_end;
            }
        }
        if (!found) {
            (void)sp_utf8_next(text, len, &end);
            found = sp_charsmap_find(map, text + begin, end - begin, &become, &n);
        }
        if (!found) {
            become = text + begin;
            n = end - begin;
        }
        if ((st = spend(&budget, n, err))) return st;
        if ((st = sp_strbuf_append(out, become, n, err))) return st;
    }
    return SP_OK;
}

static enum sp_status spell_bytes(struct sp_strbuf *out, const char *text, size_t len,
                                  struct sp_err *err)
{
    size_t capacity;
    enum sp_status st;

    if (!sp_mul(&capacity, len, 2))
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes", len);
    if ((st = sp_strbuf_reserve(out, capacity, err))) return st;
    out->len += sp_byte_level_encode(out->at + out->len, text, len);
    return SP_OK;
}

bool sp_rewrite_applies(const struct sp_rewrite *rewrite)
{
    enum sp_step_kind kind = rewrite->step.kind;

    return (kind >= SP_STEP_NFC && kind <= SP_STEP_REPLACE) || kind == SP_STEP_BYTE_LEVEL ||
           kind == SP_STEP_CHARSMAP;
}

static enum sp_status apply(const struct sp_rewrite *rewrite, struct sp_regex_matcher *matcher,
                            size_t budget, bool at_start, const char *text, size_t len,
                            struct sp_strbuf *out, bool *changed, struct sp_err *err)
{
    const struct sp_step *step = &rewrite->step;

    *changed = true;
    switch (step->kind) {
    case SP_STEP_NFC:
        return sp_normalize(out, changed, SP_NFC, text, len, err);
    case SP_STEP_NFD:
        return sp_normalize(out, changed, SP_NFD, text, len, err);
    case SP_STEP_NFKC:
        return sp_normalize(out, changed, SP_NFKC, text, len, err);
    case SP_STEP_NFKD:
        return sp_normalize(out, changed, SP_NFKD, text, len, err);
    case SP_STEP_LOWERCASE:
        return sp_lowercase(out, text, len, err);
    case SP_STEP_STRIP_ACCENTS:
        return strip_accents(out, text, len, err);
    case SP_STEP_PREFIX:
        return prefix(out, changed, step, at_start, text, len, err);
    case SP_STEP_REPLACE:
        return replace(out, changed, rewrite, matcher, budget, text, len, err);
    case SP_STEP_BYTE_LEVEL:
        return spell_bytes(out, text, len, err);
    case SP_STEP_CHARSMAP:
        return map_characters(out, rewrite->charsmap, budget, text, len, err);
    default:
        *changed = false;
        return sp_fail(err, SP_E_BUG, "step %d rewrites nothing", (int)step->kind);
    }
}

enum sp_status sp_rewrite_apply(const struct sp_rewrite *rewrite, struct sp_regex_matcher *matcher,
                                size_t *budget, bool at_start, const char *text, size_t len,
                                struct sp_strbuf *out, bool *changed, struct sp_err *err)
{
    size_t before = out->len;
    enum sp_status st = apply(rewrite, matcher, *budget, at_start, text, len, out, changed, err);

    return st ? st : spend(budget, out->len - before, err);
}

enum sp_status sp_rewrite_all(const struct sp_rewrite *chain, size_t n,
                              struct sp_regex_matcher *matcher, size_t *budget,
                              struct sp_rewritten *space, bool at_start, const char **text,
                              size_t *len, struct sp_err *err)
{
    size_t next = 0;

    for (size_t i = 0; i<n && * len> 0; i++) {
        struct sp_strbuf *out = &space->buffers[next];
        bool changed;
        out->len = 0;
        enum sp_status st =
            sp_rewrite_apply(&chain[i], matcher, budget, at_start, *text, *len, out, &changed, err);
        if (st) return st;
        if (!changed) continue;
        *text = out->at;
        *len = out->len;
        next = 1 - next;
    }
    return SP_OK;
}

void sp_rewritten_release(struct sp_rewritten *space)
{
    sp_strbuf_release(&space->buffers[0]);
    sp_strbuf_release(&space->buffers[1]);
}
