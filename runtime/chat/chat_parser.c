/* The parser of answers: a machine of four states, which holds back text that is undecided. */
#include "runtime/chat/chat_parser.h"
#include "runtime/chat/chat_pending.h"
#include "runtime/chat/tool_call.h"

#include <stdio.h>
#include <string.h>

enum state { CONTENT, REASONING, CALL, AFTER_CALL };

struct sp_chat_parser {
    struct sp_chat_parser_options reading;
    const struct sp_chat_format *format;
    char
        first_open[2 * SP_TAG_SIZE]; /* opening tag of the first call, after the tag of all calls */
    struct sp_chat_pending stream;
    struct sp_chat_harmony harmony;
    struct sp_tool_call call;
    enum state state;
    size_t n_open;    /* CALL: bytes of the opening tag and of whitespace before it */
    bool bare;        /* CALL: there is no tag */
    bool fenced;      /* CALL, AFTER_CALL: the call stands in a code fence */
    bool tagged;      /* there was a call with a tag: fences are content */
    bool has_content; /* content followed the last reasoning or call: no reasoning begins there */
    bool called;
    bool closed;      /* AFTER_CALL: the closing tag was read */
    bool is_started;  /* CALL: its start was emitted */
    size_t n_emitted; /* CALL: bytes of its arguments that were emitted */
};

/* The result of a step. */
enum step { WAIT, AGAIN };

static bool reads_calls(const struct sp_chat_parser *p)
{
    return p->reading.tools != NULL && p->format->calls.style != SP_TOOL_CALL_UNKNOWN;
}

enum sp_status sp_chat_parser_open(struct sp_chat_parser **out,
                                   const struct sp_chat_parser_options *reading, struct sp_err *err)
{
    const struct sp_tool_call_format *calls = &reading->format->calls;
    struct sp_chat_parser *p;
    enum sp_status st;

    if ((st = sp_new(&p, 1, sizeof *p, err))) return st;
    p->reading = *reading;
    p->format = reading->format;
    p->stream.reading = &p->reading;
    snprintf(p->first_open, sizeof p->first_open, "%s%s%s", calls->all_open,
             *calls->all_open && *calls->open ? " " : "", calls->open);
    if (reading->in_reasoning) {
        p->state = REASONING;
        p->stream.skip_whitespace = true;
    }
    *out = p;
    return SP_OK;
}

void sp_chat_parser_close(struct sp_chat_parser *p)
{
    if (p == NULL) return;
    sp_strbuf_release(&p->stream.text);
    sp_strbuf_release(&p->stream.special);
    sp_strbuf_release(&p->harmony.name);
    sp_strbuf_release(&p->call.name);
    sp_strbuf_release(&p->call.arguments.text);
    free(p);
}

/* ---- content and reasoning ---- */

struct found {
    enum sp_tag_match match;
    size_t at, len;
    enum state state; /* state that begins there, or after content and reasoning */
    bool bare;        /* a call without a tag */
    bool fenced;      /* in a code fence */
};

static void look_for(struct found *found, const char *tag, enum state state,
                     const struct sp_chat_parser *p)
{
    struct found f = {.state = state};

    if (!*tag) return;
    f.match = sp_tag_find(tag, p->stream.text.at, p->stream.text.len, &f.at, &f.len);
    if (f.match == SP_TAG_NO || (found->match != SP_TAG_NO && found->at <= f.at)) return;
    *found = f;
}

/* Looks for reasoning, which begins an answer or follows a call; elsewhere its tags are quoted
 * text. A closing tag without an opening one ends empty reasoning. */
static void look_for_reasoning(struct found *found, const struct sp_chat_parser *p)
{
    const char *const tags[] = {p->format->reasoning_open, p->format->reasoning_close};
    const struct sp_strbuf *pending = &p->stream.text;
    size_t at = sp_whitespace_run(pending->at, pending->len), len;

    for (size_t i = 0; i < 2 && !p->has_content && *p->format->reasoning_close; i++) {
        enum sp_tag_match match = sp_tag_match(tags[i], pending->at + at, pending->len - at, &len);
        if (match <= found->match) continue;
        *found = (struct found){match, at, len, i == 0 ? REASONING : CONTENT, false, false};
    }
}

/* Whether a code fence that may hold a call begins a text; *len = its length with the whitespace in
 * front of the call. */
static enum sp_tag_match match_fence(const char *s, size_t n, size_t *len)
{
    static const char *const languages[] = {"", "json", "tool_call"};
    enum sp_tag_match match = SP_TAG_NO;

    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        char fence[16];
        size_t k = (size_t)snprintf(fence, sizeof fence, "```%s", languages[i]);
        if (strncmp(s, fence, n < k ? n : k) != 0) continue;
        if (n >= k) k += sp_whitespace_run(s + k, n - k);
        if (n <= k) match = SP_TAG_MAYBE;
        if (n <= k || strchr("{[", s[k]) == NULL) continue;
        *len = k;
        return SP_TAG_YES;
    }
    return match;
}

/* Qwen2.5-Coder writes calls into code fences, without the tags of its template. Where a grammar
 * constrains every call, none stands in a fence. */
static void look_for_fence(struct found *found, const struct sp_chat_parser *p)
{
    const struct sp_strbuf *pending = &p->stream.text;

    if (p->format->calls.style != SP_TOOL_CALL_OBJECT || p->tagged ||
        (p->reading.constrained && !p->reading.tagged_only))
        return;
    for (size_t at = 0; at < pending->len; at++) {
        struct found f = {.at = at, .state = CALL, .bare = true, .fenced = true};
        if (found->match != SP_TAG_NO && found->at <= at) return;
        if (pending->at[at] != '`') continue;
        f.match = match_fence(pending->at + at, pending->len - at, &f.len);
        if (f.match == SP_TAG_NO) continue;
        *found = f;
        return;
    }
}

static struct found find_tag(const struct sp_chat_parser *p)
{
    const struct sp_strbuf *pending = &p->stream.text;
    struct found found = {.match = SP_TAG_NO};
    size_t at = sp_whitespace_run(pending->at, pending->len);

    look_for_reasoning(&found, p);
    if (!reads_calls(p)) return found;
    look_for(&found, p->first_open, CALL, p);
    if (*p->format->calls.all_open) look_for(&found, p->format->calls.open, CALL, p);
    look_for_fence(&found, p);
    if (found.match != SP_TAG_NO && found.at <= at) return found;
    /* Some templates have no tag, and small models forget theirs. */
    if (p->format->calls.style == SP_TOOL_CALL_OBJECT && !p->has_content && !p->called &&
        at < pending->len && strchr("{[", pending->at[at]) != NULL)
        found = (struct found){SP_TAG_YES, at, 0, CALL, true, false};
    return found;
}

/* Whether the end of the answer cuts a tag, which is not shown, given that one may begin there.
 * Where a grammar constrains calls, more than a byte of a tag is one, as is all of an answer. */
static bool is_cut_tag(const struct sp_chat_parser *p, const struct found *found)
{
    const struct sp_strbuf *pending = &p->stream.text;

    if (!p->reading.constrained || found->fenced) return false;
    return pending->len - found->at > 1 ||
           (!p->has_content && found->at <= sp_whitespace_run(pending->at, pending->len));
}

static enum step read_content(struct sp_chat_parser *p, bool final)
{
    struct sp_strbuf *pending = &p->stream.text;
    bool watches = reads_calls(p) || (!p->has_content && *p->format->reasoning_close);
    struct found found;
    size_t n;

    if (!sp_chat_pending_settle(&p->stream)) return WAIT;
    found = find_tag(p);
    if (found.match == SP_TAG_MAYBE && final && !is_cut_tag(p, &found)) found.match = SP_TAG_NO;
    n = found.match == SP_TAG_NO ? pending->len : found.at;
    if (found.match != SP_TAG_NO || (watches && !final)) n = sp_trim_whitespace(pending->at, n);
    if (n > 0) {
        found.at -= found.match == SP_TAG_NO ? 0 : n;
        sp_chat_pending_emit(&p->stream, SP_CHAT_CONTENT, n);
        p->has_content = true;
    }
    if (found.match != SP_TAG_YES) {
        if (final) sp_chat_pending_drop(&p->stream, pending->len);
        return WAIT;
    }
    if (found.state != CALL) {
        sp_chat_pending_drop(&p->stream, found.at + found.len);
        p->stream.skip_whitespace = true;
    }
    p->n_open = found.at + found.len;
    p->bare = found.bare;
    p->fenced = found.fenced;
    p->state = found.state;
    return AGAIN;
}

static enum step read_reasoning(struct sp_chat_parser *p, bool final)
{
    struct sp_strbuf *pending = &p->stream.text;
    struct found found = {.match = SP_TAG_NO};
    size_t n;

    if (!sp_chat_pending_settle(&p->stream)) return WAIT;
    look_for(&found, p->format->reasoning_close, CONTENT, p);
    if (found.match == SP_TAG_MAYBE && final) found.match = SP_TAG_NO;
    n = found.match == SP_TAG_NO ? pending->len : found.at;
    if (found.match != SP_TAG_NO || !final) n = sp_trim_whitespace(pending->at, n);
    sp_chat_pending_emit(&p->stream, SP_CHAT_REASONING, n);
    if (found.match != SP_TAG_YES) return WAIT;
    sp_chat_pending_drop(&p->stream, found.at - n + found.len);
    p->stream.skip_whitespace = true;
    p->state = CONTENT;
    return AGAIN;
}

/* ---- calls ---- */

/* Emits the name of a call, or more of its arguments. */
static void emit_beginning(const struct sp_chat_parser *p, enum sp_chat_part_kind kind,
                           const char *text, size_t size)
{
    const bool starts = kind == SP_CHAT_TOOL_CALL_START;
    const struct sp_chat_part part = {kind, text, size, starts ? p->call.name.at : NULL};

    if (starts || size > 0) p->reading.part(p->reading.context, &part);
}

/* Text that began like a call is content; its tag is not examined again. A constrained call that
 * the answer ends in is a call with cut arguments or, before its name is known, nothing. */
static enum step give_up_call(struct sp_chat_parser *p, bool final)
{
    const struct sp_strbuf *arguments = &p->call.arguments.text;

    if (final && p->reading.constrained && !p->bare) {
        if (p->call.name.len > 0) {
            emit_beginning(p, SP_CHAT_TOOL_CALL_START, "", 0);
            emit_beginning(p, SP_CHAT_TOOL_CALL_ARGUMENTS, arguments->at, arguments->len);
        }
        sp_chat_pending_drop(&p->stream, p->stream.text.len);
        return WAIT;
    }
    sp_chat_pending_emit(&p->stream, SP_CHAT_CONTENT, p->n_open);
    p->has_content = true;
    p->state = CONTENT;
    return AGAIN;
}

/* Emits the new part of a call that is certain to be one. */
static void emit_start(struct sp_chat_parser *p)
{
    const struct sp_tool_call *call = &p->call;

    if (!p->reading.constrained || p->fenced || (p->bare && p->reading.tagged_only) ||
        call->written == NULL)
        return;
    if (!p->is_started) emit_beginning(p, SP_CHAT_TOOL_CALL_START, "", 0);
    p->is_started = true;
    emit_beginning(p, SP_CHAT_TOOL_CALL_ARGUMENTS, call->written + p->n_emitted,
                   call->n_written - p->n_emitted);
    p->n_emitted = call->n_written;
}

static enum sp_status read_call(enum step *step, struct sp_chat_parser *p, bool final,
                                struct sp_err *err)
{
    const struct sp_tool_call_source source = {
        .format = &p->format->calls,
        .tools = p->reading.tools,
        .text = p->stream.text.at + p->n_open,
        .size = p->stream.text.len - p->n_open,
        .final = final,
        .constrained = p->reading.constrained,
        .bare = p->bare,
    };
    enum sp_value_read read;
    enum sp_status st;
    size_t used;

    if ((st = sp_tool_call_read(&read, &p->call, &used, &source, err))) return st;
    emit_start(p);
    *step = read == SP_VALUE_MORE || p->is_started ? WAIT : AGAIN;
    if (read == SP_VALUE_NONE && !p->is_started) *step = give_up_call(p, final);
    if (read != SP_VALUE_READ) return SP_OK; /* the answer ended inside the call */
    *step = AGAIN;
    p->is_started = false;
    p->n_emitted = 0;
    sp_chat_pending_emit_call(&p->stream, &p->call);
    sp_chat_pending_drop(&p->stream, p->n_open + used);
    p->called = true;
    p->tagged = p->tagged || !p->bare;
    p->has_content = p->closed = false;
    p->state = AFTER_CALL;
    return SP_OK;
}

/* Drops a tag at the beginning of the text. MAYBE: wait for more text; an answer that ends inside
 * the tag after its last call is complete. */
static enum sp_tag_match drop_tag(struct sp_chat_parser *p, const char *tag)
{
    size_t len = p->stream.text.len;
    enum sp_tag_match match = SP_TAG_NO;

    if (*tag) match = sp_tag_match(tag, p->stream.text.at, len, &len);
    if (match == SP_TAG_YES) sp_chat_pending_drop(&p->stream, len);
    return match;
}

static bool begins_call(const struct sp_chat_parser *p)
{
    char c = p->stream.text.at[0];

    if (p->closed || !(p->fenced || sp_tool_call_is_list(&p->format->calls))) return false;
    if (p->format->calls.style == SP_TOOL_CALL_OBJECT) return c == '{';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Reads another call, the end of a list or of all calls, or something else. */
static enum step read_after_call(struct sp_chat_parser *p, bool final)
{
    const struct sp_tool_call_format *s = &p->format->calls;
    const char *const closes[] = {p->closed ? "" : p->fenced ? "```" : s->close, s->all_close};
    struct sp_strbuf *pending = &p->stream.text;
    enum sp_tag_match match;

    p->stream.skip_whitespace = true;
    if (!sp_chat_pending_settle(&p->stream)) return WAIT;
    for (size_t i = 0; i < sizeof closes / sizeof *closes; i++) {
        match = drop_tag(p, closes[i]);
        if (match == SP_TAG_MAYBE) return WAIT;
        if (match == SP_TAG_NO) continue;
        p->closed = true;
        return AGAIN;
    }
    if (!p->closed && (p->fenced || sp_tool_call_is_list(s)) &&
        strchr(",;]}", pending->at[0]) != NULL) {
        sp_chat_pending_drop(&p->stream, 1);
        return AGAIN;
    }
    p->n_open = 0;
    p->fenced = p->fenced && !p->closed;
    p->bare = p->fenced;
    match = *s->open ? sp_tag_match(s->open, pending->at, pending->len, &p->n_open) : SP_TAG_NO;
    if (match == SP_TAG_MAYBE && !final) return WAIT;
    p->state = match == SP_TAG_YES || begins_call(p) ? CALL : CONTENT;
    return AGAIN;
}

/* ---- the machine ---- */

static enum sp_status advance(struct sp_chat_parser *p, bool final, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    enum step step = AGAIN;

    if (p->format->calls.style == SP_TOOL_CALL_HARMONY)
        return sp_chat_harmony_read(&p->harmony, &p->stream, final, err);
    while (step == AGAIN && !st) {
        switch (p->state) {
        case CONTENT:
            step = read_content(p, final);
            break;
        case REASONING:
            step = read_reasoning(p, final);
            break;
        case CALL:
            st = read_call(&step, p, final, err);
            break;
        case AFTER_CALL:
            step = read_after_call(p, final);
            break;
        }
    }
    return st;
}

enum sp_status sp_chat_parser_feed(struct sp_chat_parser *p, const char *text, size_t size,
                                   bool special, struct sp_err *err)
{
    enum sp_status st;

    if (size == 0) return SP_OK;
    if ((st = sp_chat_pending_add(&p->stream, text, size, special, err))) return st;
    return advance(p, false, err);
}

enum sp_status sp_chat_parser_finish(struct sp_chat_parser *p, struct sp_err *err)
{
    return advance(p, true, err);
}
