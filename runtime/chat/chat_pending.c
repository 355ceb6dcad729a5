#include "runtime/chat/chat_pending.h"

void sp_answer_stream_release(struct sp_answer_stream *s)
{
    sp_strbuf_release(&s->text);
    sp_strbuf_release(&s->special);
}

enum sp_status sp_answer_stream_add(struct sp_answer_stream *s, const char *text, size_t size,
                                    bool special, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_strbuf_reserve(&s->special, size, err))) return st;
    if ((st = sp_strbuf_append(&s->text, text, size, err))) return st;
    memset(s->special.at + s->special.len, special, size);
    s->special.len += size;
    return SP_OK;
}

void sp_answer_stream_drop(struct sp_answer_stream *s, size_t n)
{
    s->text.len -= n;
    s->special.len -= n;
    if (n == 0) return;
    memmove(s->text.at, s->text.at + n, s->text.len);
    memmove(s->special.at, s->special.at + n, s->special.len);
}

void sp_answer_stream_tell(struct sp_answer_stream *s, enum sp_answer_kind kind, size_t n)
{
    struct sp_answer_piece piece = {.kind = kind};

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && s->special.at[end] == s->special.at[i]; end++)
            continue;
        piece.text = s->text.at + i;
        piece.size = end - i;
        if (!s->special.at[i]) s->reading->piece(s->reading->context, &piece);
    }
    sp_answer_stream_drop(s, n);
}

void sp_answer_stream_tell_call(struct sp_answer_stream *s, const struct sp_answer_call *call)
{
    const struct sp_answer_piece piece = {SP_ANSWER_CALL, call->arguments.at, call->arguments.len,
                                          call->name.at};

    s->reading->piece(s->reading->context, &piece);
}

bool sp_answer_stream_settle(struct sp_answer_stream *s)
{
    if (s->skip_whitespace) sp_answer_stream_drop(s, sp_blanks(s->text.at, s->text.len));
    if (s->text.len > 0) s->skip_whitespace = false;
    return s->text.len > 0;
}
