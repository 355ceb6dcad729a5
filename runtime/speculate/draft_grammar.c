#include "runtime/speculate/drafter.h"

#include "format/base/unicode.h"
#include "runtime/grammar/constraint.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TEXT = 128,     /* bytes of certain text */
    MOST_HISTORY = 1024, /* bytes before them, which show the whitespace style */
    MOST_CONTEXT = 4,    /* tokens before them, which may decide how the text is tokenized */
    CONTEXT_BYTES = 256  /* most bytes of that context */
};

struct grammar_draft {
    struct sp_drafter base;
    struct sp_constraint *constraint;
    const struct sp_tokenizer *tokenizer;
    uint32_t draft[SP_DRAFT_GRAMMAR_MAX];
    size_t n;
};

static struct grammar_draft *grammar_of(struct sp_drafter *base)
{
    return (struct grammar_draft *)base;
}

/* Reads the bytes of the answer's last tokens, as many as fit; returns their number. *context: how
 * many of them belong to the last few tokens after one that spells nothing; 0 if those are too
 * long or begin or end inside a character. */
static size_t read_history(const struct grammar_draft *f, size_t *context, char text[MOST_HISTORY],
                           const uint32_t *ids, size_t pos)
{
    size_t len = 0, n, first = sp_constraint_start(f->constraint);
    bool silent = false;

    *context = 0;
    for (size_t i = pos; i-- > first;) {
        const char *bytes = sp_constraint_spelling(f->constraint, ids[i], &n);
        if (n > MOST_HISTORY - len) break;
        len += n;
        memcpy(text + MOST_HISTORY - len, bytes, n);
        silent = silent || n == 0;
        if (pos - i <= MOST_CONTEXT && !silent) *context = len;
    }
    memmove(text, text + MOST_HISTORY - len, len);
    if (*context > CONTEXT_BYTES || sp_utf8_valid(text + len - *context, *context) != *context)
        *context = 0;
    return len;
}

/* Returns the index of the first token after the context, among those that spell `context` bytes
 * and the certain text, or SIZE_MAX if none begins there. */
static size_t after_context(const struct grammar_draft *f, const uint32_t *tokens, size_t n,
                            size_t context, size_t len)
{
    size_t total = 0, at = 0, size;

    for (size_t i = 0; i < n; i++) {
        (void)sp_constraint_spelling(f->constraint, tokens[i], &size);
        total += size;
    }
    if (total > len) at = total - len > context ? SIZE_MAX : 0;
    /* Some tokenizers put a space before every text. */
    context += total > len ? total - len : 0;
    for (size_t i = 0; i < n && at != SIZE_MAX; i++) {
        if (at == context) return i;
        (void)sp_constraint_spelling(f->constraint, tokens[i], &size);
        at += size;
    }
    return SIZE_MAX;
}

/* Proposes the tokens of text[context .. len - 1]; false: none begins at the context's end. */
static enum sp_status spell(struct grammar_draft *f, bool *done, const char *text, size_t context,
                            size_t len, struct sp_err *err)
{
    uint32_t *tokens = NULL;
    size_t n, first;
    enum sp_status st = sp_tokenizer_encode(f->tokenizer, text, len, 0, &tokens, &n, err);

    if (st) return st;
    first = after_context(f, tokens, n, context, len);
    *done = first != SIZE_MAX;
    for (size_t i = first; *done && i < n && f->n < SP_DRAFT_GRAMMAR_MAX; i++)
        f->draft[f->n++] = tokens[i];
    free(tokens);
    return SP_OK;
}

/* Proposes the tokens of the text after the first `context` bytes. */
static enum sp_status guess_text(struct grammar_draft *f, const char *text, size_t context,
                                 size_t len, struct sp_err *err)
{
    bool done = false;
    enum sp_status st;

    if (len == context) return SP_OK;
    if (context && (st = spell(f, &done, text, context, len, err))) return st;
    return done ? SP_OK : spell(f, &done, text + context, 0, len - context, err);
}

static enum sp_status find_guesses(struct grammar_draft *f, const uint32_t *ids, size_t pos,
                                   struct sp_err *err)
{
    char text[MOST_HISTORY + MOST_TEXT];
    size_t context, len, from = read_history(f, &context, text, ids, pos);
    enum sp_status st;

    f->n = 0;
    if ((st = sp_constraint_jump_forward(f->constraint, text, from, from + MOST_TEXT, &len, ids,
                                         pos, err)))
        return st;
    from -= context;
    while (from < len) {
        size_t n = sp_utf8_valid(text + from, len - from);
        if ((st = guess_text(f, text + from, context, n, err))) return st;
        from += n;
        context = 0;
        if (len - from < 2 || (unsigned char)text[from] != SP_GRAMMAR_TOKEN) return SP_OK;
        if (f->n == SP_DRAFT_GRAMMAR_MAX) return SP_OK;
        f->draft[f->n++] = sp_constraint_token(f->constraint, (unsigned char)text[from + 1]);
        from += 2;
    }
    return SP_OK;
}

/* A failure here is ignored: the constraint reports it again when the target chooses. */
static size_t grammar_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    struct grammar_draft *f = grammar_of(base);

    return find_guesses(f, ids, n_cached + 1, NULL) ? 0 : f->n;
}

/* The confidences of the tokens: the last one gets another value than the rest. The values
 * themselves mean nothing; acceptance is counted for each. */
static struct sp_logits grammar_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                     size_t i, double *confidence)
{
    const struct grammar_draft *f = grammar_of(base);

    ids[n_cached + 1 + i] = f->draft[i];
    *confidence = i + 1 < f->n ? 0.97 : 0.8;
    return (struct sp_logits){0};
}

static const struct sp_drafter_ops ops = {
    .stepwise = true,
    .limit = grammar_limit,
    .next = grammar_next,
};

enum sp_status sp_draft_grammar_open(struct sp_drafter **out, struct sp_constraint *constraint,
                                     const struct sp_tokenizer *tokenizer, struct sp_err *err)
{
    struct grammar_draft *f = NULL;
    enum sp_status st = sp_new(&f, 1, sizeof *f, err);

    if (st) return st;
    f->base.ops = &ops;
    f->constraint = constraint;
    f->tokenizer = tokenizer;
    *out = &f->base;
    return SP_OK;
}
