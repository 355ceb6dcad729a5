/* Each step of the tokenizer's decoder becomes a stage, which receives tokens and passes its
 * output to the next stage; the last one appends to the result. A stage after a "fuse" receives
 * fragments of one long token. Steps that need the whole token then wait for the end (of published
 * tokenizers only Strip follows a fuse, and it does not wait).
 *
 * sp_tokenizer_decode runs the same stages with `whole` set: a run of byte tokens then waits for
 * its end, since the reference implementation decides on whole runs. */
#include "runtime/tokenizer/tokenizer.h"

#include "format/tokenizer/byte_level.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "runtime/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

struct stage {
    const struct sp_rewrite *rewrite; /* borrowed from the tokenizer */
    bool fused;                       /* it receives fragments of one token */
    struct sp_strbuf pending; /* undecided bytes: of a character, of a byte run, or of a token that
                                 must be whole */
    struct sp_strbuf output;  /* output for one token */
    size_t n_tokens;          /* tokens received */
    size_t checked; /* byte run: length of the complete characters at the beginning of `pending` */
    bool broken;    /* byte run: it is not valid UTF-8 */
    bool started;   /* strip: text other than the stripped content has been seen */
    size_t n_stripped; /* strip: occurrences removed at the start */
    size_t n_trailing; /* strip: occurrences that may be the end */
};

struct sp_detokenizer {
    const struct sp_tokenizer *tok; /* borrowed */
    bool skip_special, whole;
    struct stage stages[SP_MAX_STEPS];
    size_t n;
    struct sp_regex_matcher *matcher;
    struct sp_strbuf spelled; /* a token of bytes, spelled in the byte-level alphabet */
    struct sp_strbuf out;
};

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
enum { REPLACEMENT_LEN = 3 };

static enum sp_status pass_on(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                              struct sp_err *err);

/* ---- byte level ---- */

/* Passes on the valid pending bytes, with U+FFFD for invalid ones. An unfinished character stays
 * pending unless this is the end. */
static enum sp_status pass_utf8(struct sp_detokenizer *d, size_t i, bool end, struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    size_t done = 0, n;
    enum sp_status st;

    s->output.len = 0;
    while (done < s->pending.len) {
        size_t valid = sp_utf8_valid(s->pending.at + done, s->pending.len - done);
        if ((st = sp_strbuf_append(&s->output, s->pending.at + done, valid, err))) return st;
        done += valid;
        if (done == s->pending.len) break;
        enum sp_utf8 kind = sp_utf8_scan(s->pending.at + done, s->pending.len - done, &n);
        if (kind == SP_UTF8_PARTIAL && !end) break;
        if ((st = sp_strbuf_append(&s->output, replacement, REPLACEMENT_LEN, err))) return st;
        done += n;
    }
    if (done) {
        s->pending.len -= done;
        memmove(s->pending.at, s->pending.at + done, s->pending.len);
    }
    return s->output.len ? pass_on(d, i + 1, s->output.at, s->output.len, err) : SP_OK;
}

/* Receives the bytes of a token; `spelled`: in the byte-level alphabet. */
static enum sp_status take_bytes(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                                 bool spelled, struct sp_err *err)
{
    struct sp_strbuf *pending = &d->stages[i].pending;
    size_t n = len;
    enum sp_status st;

    if ((st = sp_strbuf_reserve(pending, len, err))) return st;
    if (!spelled || !sp_byte_level_decode(pending->at + pending->len, &n, text, len)) {
        if (len) memcpy(pending->at + pending->len, text, len);
        n = len;
    }
    pending->len += n;
    return pass_utf8(d, i, false, err);
}

/* ---- byte fallback ---- */

int sp_fallback_byte(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : sp_hex_digit(text[3]), low = sp_hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Ends a byte run: passes on its text, or one U+FFFD for each of its bytes. */
static enum sp_status end_run(struct sp_detokenizer *d, size_t i, struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    bool valid = !s->broken && s->checked == s->pending.len;
    enum sp_status st = SP_OK;

    if (valid && s->pending.len) st = pass_on(d, i + 1, s->pending.at, s->pending.len, err);
    for (size_t k = 0; !valid && k < s->pending.len && st == SP_OK; k++)
        st = pass_on(d, i + 1, replacement, REPLACEMENT_LEN, err);
    s->pending.len = s->checked = 0;
    return st;
}

static enum sp_status take_byte(struct sp_detokenizer *d, size_t i, uint8_t byte,
                                struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    size_t n;
    enum sp_status st;

    if ((st = sp_strbuf_append(&s->pending, (const char *)&byte, 1, err))) return st;
    if (!s->broken) {
        enum sp_utf8 kind =
            sp_utf8_scan(s->pending.at + s->checked, s->pending.len - s->checked, &n);
        if (kind == SP_UTF8_CHAR) s->checked += n;
        s->broken = kind == SP_UTF8_BAD;
    }
    /* A broken run stays broken, so its bytes are passed on one by one. */
    return s->broken || (!d->whole && s->checked == s->pending.len) ? end_run(d, i, err) : SP_OK;
}

static enum sp_status take_fallback(struct sp_detokenizer *d, size_t i, const char *text,
                                    size_t len, struct sp_err *err)
{
    int byte = sp_fallback_byte(text, len);
    enum sp_status st;

    if (byte >= 0) return take_byte(d, i, (uint8_t)byte, err);
    if ((st = end_run(d, i, err))) return st;
    d->stages[i].broken = false;
    return pass_on(d, i + 1, text, len, err);
}

/* ---- strip ---- */

static bool begins_with(const char *text, size_t len, const struct sp_step *step)
{
    return len >= step->text_len && memcmp(text, step->text, step->text_len) == 0;
}

static size_t strip_start(const struct sp_step *step, size_t times, const char **text, size_t *len)
{
    size_t n = 0;

    for (; n < times && step->text_len && begins_with(*text, *len, step); n++) {
        *text += step->text_len;
        *len -= step->text_len;
    }
    return n;
}

/* Counts how often the content is repeated at the end, up to `times`. */
static size_t count_trailing(const struct sp_step *step, size_t times, const char *text, size_t len)
{
    size_t n = 0;

    for (; n < times && step->text_len && len >= step->text_len; n++, len -= step->text_len)
        if (!begins_with(text + len - step->text_len, step->text_len, step)) break;
    return n;
}

static enum sp_status strip_token(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                                  struct sp_err *err)
{
    const struct sp_step *step = &d->stages[i].rewrite->step;

    strip_start(step, step->a, &text, &len);
    len -= count_trailing(step, step->b, text, len) * step->text_len;
    return pass_on(d, i + 1, text, len, err);
}

/* Strips a fragment of one long token: the start is stripped once, and content that may be the end
 * is kept back. */
static enum sp_status strip_fragment(struct sp_detokenizer *d, size_t i, const char *text,
                                     size_t len, struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    const struct sp_step *step = &s->rewrite->step;
    enum sp_status st = SP_OK;

    if (!s->started) s->n_stripped += strip_start(step, step->a - s->n_stripped, &text, &len);
    if (len == 0) return SP_OK;
    s->started = true;
    size_t trailing = count_trailing(step, step->b, text, len);
    bool all = trailing * step->text_len == len;
    size_t release = s->n_trailing;
    if (all) release = s->n_trailing + trailing > step->b ? s->n_trailing + trailing - step->b : 0;
    for (size_t k = 0; k < release && st == SP_OK; k++)
        st = pass_on(d, i + 1, step->text, step->text_len, err);
    s->n_trailing = all ? s->n_trailing + trailing - release : trailing;
    len -= trailing * step->text_len;
    return st == SP_OK && len ? pass_on(d, i + 1, text, len, err) : st;
}

/* ---- the other stages ---- */

static enum sp_status replace(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                              struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    size_t budget = sp_rewrite_budget(len);
    bool changed = false;
    enum sp_status st = SP_OK;

    s->output.len = 0;
    if (len) {
        st = sp_rewrite_apply(s->rewrite, d->matcher, &budget, false, text, len, &s->output,
                              &changed, err);
    }
    if (st) return st;
    return changed ? pass_on(d, i + 1, s->output.at, s->output.len, err)
                   : pass_on(d, i + 1, text, len, err);
}

/* Replaces the metaspace character by a space, or removes it in the first token where it must. */
static enum sp_status metaspace(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                                struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    const struct sp_step *step = &s->rewrite->step;
    bool drop = step->a && s->n_tokens == 0;
    enum sp_status st;

    s->output.len = 0;
    for (size_t at = 0, next = 0; at < len; at = next) {
        (void)sp_utf8_next(text, len, &next);
        if (next - at == step->text_len && begins_with(text + at, len - at, step))
            st = sp_strbuf_append(&s->output, " ", drop ? 0 : 1, err);
        else
            st = sp_strbuf_append(&s->output, text + at, next - at, err);
        if (st) return st;
    }
    return pass_on(d, i + 1, s->output.at, s->output.len, err);
}

static enum sp_status join(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                           struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    const struct sp_step *step = &s->rewrite->step;
    enum sp_status st = SP_OK;

    if (s->n_tokens) st = pass_on(d, i + 1, step->text, step->text_len, err);
    return st ? st : pass_on(d, i + 1, text, len, err);
}

static enum sp_status run_stage(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                                struct sp_err *err)
{
    switch (d->stages[i].rewrite->step.kind) {
    case SP_STEP_BYTE_LEVEL:
        return take_bytes(d, i, text, len, true, err);
    case SP_STEP_BYTE_FALLBACK:
        return take_fallback(d, i, text, len, err);
    case SP_STEP_STRIP:
        return d->stages[i].fused ? strip_fragment(d, i, text, len, err)
                                  : strip_token(d, i, text, len, err);
    case SP_STEP_REPLACE:
        return replace(d, i, text, len, err);
    case SP_STEP_METASPACE:
        return metaspace(d, i, text, len, err);
    case SP_STEP_JOIN:
        return join(d, i, text, len, err);
    default: /* SP_STEP_FUSE only sets `fused` of later stages */
        return pass_on(d, i + 1, text, len, err);
    }
}

static bool waits(const struct stage *s)
{
    enum sp_step_kind kind = s->rewrite->step.kind;

    return s->fused &&
           (kind == SP_STEP_BYTE_LEVEL || kind == SP_STEP_BYTE_FALLBACK || kind == SP_STEP_REPLACE);
}

/* Passes a token, or a fragment, to stage i. The recursion is as deep as the number of stages. */
static enum sp_status pass_on(struct sp_detokenizer *d, size_t i, const char *text, size_t len,
                              struct sp_err *err)
{
    if (i == d->n) return sp_strbuf_append(&d->out, text, len, err);
    struct stage *s = &d->stages[i];
    if (waits(s)) return sp_strbuf_append(&s->pending, text, len, err);
    enum sp_status st = run_stage(d, i, text, len, err);
    if (!s->fused) s->n_tokens++;
    return st;
}

/* Passes the end of the text to stage i. */
static enum sp_status end_stage(struct sp_detokenizer *d, size_t i, struct sp_err *err)
{
    struct stage *s = &d->stages[i];
    enum sp_step_kind kind = s->rewrite->step.kind;
    enum sp_status st = SP_OK;

    if (waits(s)) {
        struct sp_strbuf token = s->pending;
        memset(&s->pending, 0, sizeof s->pending);
        st = run_stage(d, i, token.at, token.len, err);
        sp_strbuf_release(&token);
    }
    if (st == SP_OK && kind == SP_STEP_BYTE_LEVEL) st = pass_utf8(d, i, true, err);
    if (st == SP_OK && kind == SP_STEP_BYTE_FALLBACK) st = end_run(d, i, err);
    s->pending.len = s->checked = s->n_tokens = s->n_stripped = s->n_trailing = 0;
    s->broken = s->started = false;
    return st;
}

/* ---- the stream ---- */

static enum sp_status open_stages(struct sp_detokenizer *d, struct sp_err *err)
{
    bool fused = false;

    for (d->n = 0; d->n < d->tok->decoder.n; d->n++) {
        const struct sp_rewrite *rewrite = &d->tok->decoder.at[d->n];
        enum sp_step_kind kind = rewrite->step.kind;
        bool known = kind == SP_STEP_REPLACE || kind == SP_STEP_BYTE_LEVEL ||
                     (kind >= SP_STEP_METASPACE && kind <= SP_STEP_JOIN);
        if (!known) {
            return sp_fail(err, SP_E_INPUT, "compiled tokenizer: unknown kind of decoder %d",
                           (int)kind);
        }
        d->stages[d->n] = (struct stage){.rewrite = rewrite, .fused = fused};
        fused = fused || kind == SP_STEP_BYTE_LEVEL || kind == SP_STEP_FUSE;
    }
    return SP_OK;
}

enum sp_status sp_detokenizer_open(struct sp_detokenizer **out, const struct sp_tokenizer *tok,
                                   bool skip_special, struct sp_err *err)
{
    struct sp_detokenizer *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->tok = tok;
    d->skip_special = skip_special;
    if ((st = open_stages(d, err))) goto done;
    if ((st = sp_regex_matcher_open(&d->matcher, err))) goto done;
    *out = d;
    d = NULL;
done:
    sp_detokenizer_close(d);
    return st;
}

void sp_detokenizer_close(struct sp_detokenizer *d)
{
    if (d == NULL) return;
    for (size_t i = 0; i < d->n; i++) {
        sp_strbuf_release(&d->stages[i].pending);
        sp_strbuf_release(&d->stages[i].output);
    }
    sp_regex_matcher_close(d->matcher);
    sp_strbuf_release(&d->spelled);
    sp_strbuf_release(&d->out);
    free(d);
}

static enum sp_status take_token(struct sp_detokenizer *d, uint32_t id, struct sp_err *err)
{
    const struct sp_tokmap *map = &d->tok->map;
    const char *text;
    size_t len, capacity;
    enum sp_status st;

    if (!sp_tokmap_token(map, id, &text, &len)) return SP_OK;
    uint8_t flags = map->token_flags[id];
    if (d->skip_special && flags & SP_TOKEN_SPECIAL) return SP_OK;
    if (flags & SP_TOKEN_BYTES) {
        if (d->n && d->stages[0].rewrite->step.kind == SP_STEP_BYTE_LEVEL)
            return take_bytes(d, 0, text, len, false, err);
        if (!sp_mul(&capacity, len, 2)) return SP_OK;
        d->spelled.len = 0;
        if ((st = sp_strbuf_reserve(&d->spelled, capacity, err))) return st;
        len = sp_byte_level_encode(d->spelled.at, text, len);
        text = d->spelled.at;
    } else if (sp_utf8_valid(text, len) != len) {
        return SP_OK; /* such a token only exists in a damaged file */
    }
    return pass_on(d, 0, text, len, err);
}

static enum sp_status flush(struct sp_detokenizer *d, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < d->n && st == SP_OK; i++)
        st = end_stage(d, i, err);
    return st;
}

enum sp_status sp_detokenizer_feed(struct sp_detokenizer *d, uint32_t id, const char **text,
                                   size_t *size, struct sp_err *err)
{
    enum sp_status st;

    d->out.len = 0;
    if ((st = sp_strbuf_reserve(&d->out, 1, err))) return st;
    if ((st = take_token(d, id, err))) return st;
    *text = d->out.at;
    *size = d->out.len;
    return SP_OK;
}

enum sp_status sp_detokenizer_flush(struct sp_detokenizer *d, const char **text, size_t *size,
                                    struct sp_err *err)
{
    enum sp_status st;

    d->out.len = 0;
    if ((st = sp_strbuf_reserve(&d->out, 1, err))) return st;
    if ((st = flush(d, err))) return st;
    *text = d->out.at;
    *size = d->out.len;
    return SP_OK;
}

enum sp_status sp_tokenizer_decode(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n,
                                   bool skip_special, char **text, size_t *size, struct sp_err *err)
{
    struct sp_detokenizer *d = NULL;
    enum sp_status st;

    if ((st = sp_tokenizer_expect(tok, err))) return st;
    if ((st = sp_detokenizer_open(&d, tok, skip_special, err))) return st;
    d->whole = true;
    for (size_t i = 0; i < n; i++)
        if ((st = take_token(d, ids[i], err))) goto done;
    if ((st = flush(d, err))) goto done;
    if ((st = sp_strbuf_append(&d->out, "", 1, err))) goto done;
    *text = d->out.at;
    *size = d->out.len - 1;
    memset(&d->out, 0, sizeof d->out);
done:
    sp_detokenizer_close(d);
    return st;
}
