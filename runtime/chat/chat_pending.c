#include "runtime/chat/chat_pending.h"

enum sp_status sp_chat_pending_add(struct sp_chat_pending *s, const char *text, size_t size,
                                   bool special, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_strbuf_reserve(&s->special, size, err))) return st;
    if ((st = sp_strbuf_append(&s->text, text, size, err))) return st;
    memset(s->special.at + s->special.len, special, size);
    s->special.len += size;
    return SP_OK;
}

void sp_chat_pending_drop(struct sp_chat_pending *s, size_t n)
{
    s->text.len -= n;
    s->special.len -= n;
    if (n == 0) return;
    memmove(s->text.at, s->text.at + n, s->text.len);
    memmove(s->special.at, s->special.at + n, s->special.len);
}

void sp_chat_pending_emit(struct sp_chat_pending *s, enum sp_chat_part_kind kind, size_t n)
{
    struct sp_chat_part part = {.kind = kind};

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && s->special.at[end] == s->special.at[i]; end++)
            continue;
        part.text = s->text.at + i;
        part.size = end - i;
        if (!s->special.at[i]) s->reading->part(s->reading->context, &part);
    }
    sp_chat_pending_drop(s, n);
}

void sp_chat_pending_emit_call(struct sp_chat_pending *s, const struct sp_tool_call *call)
{
    const struct sp_chat_part part = {SP_CHAT_TOOL_CALL, call->arguments.text.at,
                                      call->arguments.text.len, call->name.at};

    s->reading->part(s->reading->context, &part);
}

bool sp_chat_pending_settle(struct sp_chat_pending *s)
{
    if (s->skip_whitespace) sp_chat_pending_drop(s, sp_whitespace_run(s->text.at, s->text.len));
    if (s->text.len > 0) s->skip_whitespace = false;
    return s->text.len > 0;
}
