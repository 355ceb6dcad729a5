/* Pre-tokenization runs depth first: a piece cut off by one step passes through all later steps
 * before the next piece is searched for, so only the output of rewriting steps is stored. The
 * recursion is as deep as the number of steps, at most SP_MAX_STEPS. */
#include "runtime/tokenizer/tokenizer_parts.h"

#include "format/base/unicode.h"

static enum sp_status run_from(struct sp_pretoken *p, size_t step, const char *text, size_t len,
                               bool at_start, struct sp_err *err);

/* A split in progress: it receives spans of matches and those between them, and emits pieces. */
struct split {
    struct sp_pretoken *p;
    size_t step;
    const char *text;
    bool at_start;
    enum sp_split behavior;
    size_t begin, end; /* the unfinished piece */
    bool open;         /* there is an unfinished piece */
    bool was_match;    /* the previous span was a match */
};

static enum sp_status emit(struct split *s, size_t begin, size_t end, struct sp_err *err)
{
    return run_from(s->p, s->step + 1, s->text + begin, end - begin, s->at_start && begin == 0,
                    err);
}

static enum sp_status finish(struct split *s, struct sp_err *err)
{
    if (!s->open) return SP_OK;
    s->open = false;
    return emit(s, s->begin, s->end, err);
}

/* Finishes the open piece and begins the next one with a span. */
static enum sp_status begin_piece(struct split *s, size_t begin, size_t end, struct sp_err *err)
{
    enum sp_status st = finish(s, err);

    s->begin = begin;
    s->end = end;
    s->open = true;
    return st;
}

static enum sp_status take_span(struct split *s, size_t begin, size_t end, bool is_match,
                                struct sp_err *err)
{
    bool was_match = s->was_match;
    bool joins = false;

    s->was_match = is_match;
    switch (s->behavior) {
    case SP_SPLIT_ISOLATED:
        return emit(s, begin, end, err);
    case SP_SPLIT_REMOVED:
        return is_match ? SP_OK : emit(s, begin, end, err);
    case SP_SPLIT_MERGED_WITH_PREVIOUS:
        joins = is_match && !was_match;
        break;
    case SP_SPLIT_MERGED_WITH_NEXT:
        joins = !is_match && was_match;
        break;
    default:
        joins = is_match == was_match;
        break;
    }
    if (!joins || !s->open) return begin_piece(s, begin, end, err);
    s->end = end;
    return SP_OK;
}

static enum sp_status split(struct sp_pretoken *p, size_t step, const char *text, size_t len,
                            bool at_start, struct sp_err *err)
{
    const struct sp_rewrite *rewrite = &p->steps[step];
    bool inverted = (rewrite->step.flags & SP_STEP_INVERT) != 0, found;
    struct split s = {.p = p,
                      .step = step,
                      .text = text,
                      .at_start = at_start,
                      .behavior = (enum sp_split)rewrite->step.a};
    struct sp_find find = {
        .regex = rewrite->regex, .matcher = p->matcher, .text = text, .len = len};
    size_t done = 0, start, end;
    enum sp_status st;

    for (;;) {
        if ((st = sp_find_next(&find, &found, &start, &end, err))) return st;
        if (!found) break;
        if (start > done && (st = take_span(&s, done, start, inverted, err))) return st;
        if ((st = take_span(&s, start, end, !inverted, err))) return st;
        done = end;
    }
    if (done < len && (st = take_span(&s, done, len, inverted, err))) return st;
    return finish(&s, err);
}

static enum sp_status cut_lengths(struct sp_pretoken *p, size_t step, const char *text, size_t len,
                                  bool at_start, struct sp_err *err)
{
    uint32_t n_chars = p->steps[step].step.a;
    enum sp_status st = SP_OK;

    for (size_t begin = 0, end = 0; begin < len && st == SP_OK; begin = end) {
        for (uint32_t i = 0; i < n_chars && end < len; i++)
            (void)sp_utf8_next(text, len, &end);
        st = run_from(p, step + 1, text + begin, end - begin, at_start && begin == 0, err);
    }
    return st;
}

static enum sp_status rewrite(struct sp_pretoken *p, size_t step, const char *text, size_t len,
                              bool at_start, struct sp_err *err)
{
    struct sp_strbuf *space = &p->spaces[step];
    bool changed;
    enum sp_status st;

    space->len = 0;
    st = sp_rewrite_apply(&p->steps[step], p->matcher, p->budget, at_start, text, len, space,
                          &changed, err);
    if (st) return st;
    if (changed) {
        text = space->at;
        len = space->len;
    }
    return run_from(p, step + 1, text, len, at_start, err);
}

static enum sp_status run_from(struct sp_pretoken *p, size_t step, const char *text, size_t len,
                               bool at_start, struct sp_err *err)
{
    if (len == 0) return SP_OK;
    if (step == p->n) return sp_bpe_encode(p->bpe, text, len, p->ids, err);
    if (p->steps[step].step.kind == SP_STEP_SPLIT) return split(p, step, text, len, at_start, err);
    if (p->steps[step].step.kind == SP_STEP_FIXED_LENGTH)
        return cut_lengths(p, step, text, len, at_start, err);
    return rewrite(p, step, text, len, at_start, err);
}

enum sp_status sp_pretoken_run(struct sp_pretoken *p, const char *text, size_t len, bool at_start,
                               struct sp_err *err)
{
    return run_from(p, 0, text, len, at_start, err);
}

void sp_pretoken_release(struct sp_pretoken *p)
{
    for (size_t i = 0; i < SP_MAX_STEPS; i++)
        sp_strbuf_release(&p->spaces[i]);
}
