#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "format/base/unicode.h"
#include "runtime/chat/chat_tag.h"
#include "runtime/tokenizer/token_trie.h"

#include <stdlib.h>
#include <string.h>

/* Reasoning begins an answer or follows other reasoning, as chat_parser.h has it. */
enum phase { BEFORE, INSIDE, AFTER };

/* The answer after a number of its tokens. */
struct state {
    enum phase phase;
    size_t text_len;  /* bytes of the text so far */
    size_t scan;      /* bytes of it that are known to begin no tag */
    size_t n_tokens;  /* of reasoning */
    size_t n_written; /* once the limit is reached: tokens of the closing tag so far */
};

struct sp_reasoning_limiter {
    struct sp_reasoning_limiter_options options;
    uint32_t *end_ids; /* [n_end_ids] the closing tag */
    size_t n_end_ids;
    /* The answer as of the last call, up to the end of its reasoning: states[i] is the state after
     * the first i tokens. */
    uint32_t *ids;
    struct state *states;
    size_t n_ids, cap_ids, cap_states;
    struct sp_strbuf text;
};

enum sp_status sp_reasoning_limiter_open(struct sp_reasoning_limiter **out,
                                         const struct sp_reasoning_limiter_options *options,
                                         struct sp_err *err)
{
    const struct sp_reasoning_limit *limit = &options->limit;
    struct sp_reasoning_limiter *r = NULL;
    enum sp_status st;

    if ((st = sp_new(&r, 1, sizeof *r, err))) goto done;
    r->options = *options;
    if ((st = sp_tokenizer_encode(options->tokenizer, limit->close, strlen(limit->close),
                                  SP_ENCODE_PARSE_SPECIAL, &r->end_ids, &r->n_end_ids, err)))
        goto done;
    if ((st = sp_grow(&r->states, &r->cap_states, 1, sizeof *r->states, err))) goto done;
    if (r->n_end_ids == 0) {
        st = sp_fail(err, SP_E_USAGE, "reasoning_limit: the closing tag has no token");
        goto done;
    }
    r->states[0] = (struct state){.phase = limit->is_open ? INSIDE : BEFORE};
    *out = r;
    r = NULL;
done:
    sp_reasoning_limiter_close(r);
    return st;
}

void sp_reasoning_limiter_close(struct sp_reasoning_limiter *r)
{
    if (r == NULL) return;
    sp_strbuf_release(&r->text);
    free(r->end_ids);
    free(r->ids);
    free(r->states);
    free(r);
}

/* ---- state of the answer ---- */

/* True if the next token belongs to the closing tag. A character of several tokens may end first:
 * it has at most three bytes more. */
static bool is_due(const struct sp_reasoning_limiter *r, const struct state *s)
{
    const size_t most = r->options.limit.max_tokens, len = s->text_len;
    size_t at, n;

    if (s->phase != INSIDE || s->n_tokens < most) return false;
    if (s->n_tokens - most >= SP_UTF8_MAX - 1 || s->n_written > 0) return true;
    at = len ? sp_utf8_prev(r->text.at, len) : 0;
    return at == len || sp_utf8_scan(r->text.at + at, len - at, &n) != SP_UTF8_PARTIAL;
}

/* The number of tokens at the end of the reasoning that begin the closing tag. */
static size_t count_written(const struct sp_reasoning_limiter *r, const struct state *s)
{
    size_t n = s->n_tokens < r->n_end_ids ? s->n_tokens : r->n_end_ids - 1;

    while (n > 0 && memcmp(r->ids + r->n_ids - n, r->end_ids, n * sizeof *r->end_ids) != 0)
        n--;
    return n;
}

/* Finds the tag with which reasoning begins. Returns false if the text ends before that is known.
 * A closing tag without an opening one ends empty reasoning. */
static bool find_open(const struct sp_reasoning_limiter *r, struct state *s)
{
    const struct sp_reasoning_limit *limit = &r->options.limit;
    const char *text = r->text.at + s->scan;
    size_t size = s->text_len - s->scan, at = sp_whitespace_run(text, size), open = 0, close = 0;
    enum sp_tag_match opens = SP_TAG_NO, closes;

    if (at == size) return false;
    if (*limit->open) opens = sp_tag_match(limit->open, text + at, size - at, &open);
    closes = sp_tag_match(limit->close, text + at, size - at, &close);
    if (opens == SP_TAG_YES) {
        s->phase = INSIDE;
        s->scan += at + open;
    } else if (closes == SP_TAG_YES) {
        s->scan += at + close;
    } else if (opens == SP_TAG_MAYBE || closes == SP_TAG_MAYBE) {
        return false;
    } else {
        s->phase = AFTER;
    }
    return true;
}

/* Finds the tag with which reasoning ends. Returns false if the text does not have it. */
static bool find_close(const struct sp_reasoning_limiter *r, struct state *s)
{
    size_t len = 0;
    bool found =
        sp_tag_find(r->options.limit.close, r->text.at, s->text_len, &s->scan, &len) == SP_TAG_YES;

    if (!found) return false;
    s->phase = BEFORE;
    s->scan += len;
    s->n_written = 0;
    return true;
}

/* Adds the text of a token; special tokens, too, since tags have them. */
static enum sp_status add_text(struct sp_reasoning_limiter *r, uint32_t id, struct sp_err *err)
{
    const struct sp_token_trie *t = r->options.trie;
    struct sp_token_info info = {.bytes = NULL};

    if (id < t->n_ids && t->at[id] < t->at[id + 1])
        return sp_strbuf_append(&r->text, t->bytes + t->at[id], t->at[id + 1] - t->at[id], err);
    if (!sp_tokenizer_token(r->options.tokenizer, id, &info)) return SP_OK;
    return sp_strbuf_append(&r->text, info.bytes, info.len, err);
}

/* Counts a token of reasoning, with which the closing tag may begin or go on. */
static void count(const struct sp_reasoning_limiter *r, struct state *s, bool was_due)
{
    const uint32_t id = r->ids[r->n_ids - 1];

    s->n_tokens++;
    if (was_due)
        s->n_written = id == r->end_ids[s->n_written] ? s->n_written + 1 : 0;
    else if (is_due(r, s))
        s->n_written = count_written(r, s);
    if (s->n_written < r->n_end_ids) return;
    s->phase = BEFORE;
    s->scan = s->text_len;
    s->n_written = 0;
}

static enum sp_status append(struct sp_reasoning_limiter *r, uint32_t id, struct sp_err *err)
{
    struct state s = r->states[r->n_ids];
    bool was_due = is_due(r, &s), was_inside = s.phase == INSIDE;
    enum sp_status st;

    r->text.len = s.text_len;
    if ((st = sp_grow(&r->ids, &r->cap_ids, r->n_ids + 1, sizeof *r->ids, err))) return st;
    if ((st = sp_grow(&r->states, &r->cap_states, r->n_ids + 2, sizeof *r->states, err))) return st;
    if ((st = add_text(r, id, err))) return st;
    r->ids[r->n_ids++] = id;
    s.text_len = r->text.len;
    while (s.phase != AFTER && (s.phase == BEFORE ? find_open(r, &s) : find_close(r, &s)))
        continue;
    if (was_inside && s.phase == INSIDE) count(r, &s, was_due);
    r->states[r->n_ids] = s;
    return SP_OK;
}

/* *due: the token at `pos` after ids[start..pos-1] belongs to the closing tag and is *id. */
static enum sp_status find_due(struct sp_reasoning_limiter *r, bool *due, uint32_t *id,
                               const uint32_t *ids, size_t pos, struct sp_err *err)
{
    size_t n = pos - r->options.start, same = 0;
    const struct state *s;
    enum sp_status st;

    ids += r->options.start;
    while (same < n && same < r->n_ids && r->ids[same] == ids[same])
        same++;
    if (same < n && same < r->n_ids) r->n_ids = same;
    while (r->n_ids < n && r->states[r->n_ids].phase != AFTER)
        if ((st = append(r, ids[r->n_ids], err))) return st;
    s = &r->states[n < r->n_ids ? n : r->n_ids];
    *due = is_due(r, s);
    if (*due) *id = r->end_ids[s->n_written];
    return SP_OK;
}

/* ---- choosing ---- */

static enum sp_status propose(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err)
{
    struct sp_reasoning_limiter *r = state;
    const struct sp_chooser *inner = &r->options.inner;
    enum sp_status st;
    bool due;

    if ((st = find_due(r, &due, id, ids, pos, err))) return st;
    if (!due) return inner->propose(inner->state, id, confidence, logits, ids, pos, err);
    if (confidence) *confidence = 1;
    return SP_OK;
}

static enum sp_status adopt(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err)
{
    struct sp_reasoning_limiter *r = state;
    const struct sp_chooser *inner = &r->options.inner;
    uint32_t id;
    enum sp_status st;
    bool due;

    if ((st = find_due(r, &due, &id, ids, pos, err))) return st;
    if (due) *possible = ids[pos] == id;
    if (due || inner->adopt == NULL) return SP_OK;
    return inner->adopt(inner->state, possible, ids, pos, err);
}

/* Logits that are not finite stay a failure of the inner chooser. */
static enum sp_status choose(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err)
{
    struct sp_reasoning_limiter *r = state;
    const struct sp_chooser *inner = &r->options.inner;
    enum sp_status st;
    bool due;

    if ((st = find_due(r, &due, id, ids, pos, err))) return st;
    if (due && logits->best != SIZE_MAX) return SP_OK;
    return inner->choose(inner->state, id, logits, ids, pos, draft_token, err);
}

struct sp_chooser sp_reasoning_limiter_chooser(struct sp_reasoning_limiter *r)
{
    return (struct sp_chooser){
        .propose = propose,
        .adopt = adopt,
        .choose = choose,
        .needs = r->options.inner.needs,
        .state = r,
    };
}
