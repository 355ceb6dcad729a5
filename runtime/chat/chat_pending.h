/* The text of an answer that was read but not emitted; for the parsers of answers alone. */
#ifndef SP_RUNTIME_CHAT_CHAT_PENDING_H
#define SP_RUNTIME_CHAT_CHAT_PENDING_H

#include "runtime/chat/tool_call.h"
#include "runtime/chat/chat_parser.h"

/* Valid when zeroed except for `options`. */
struct sp_chat_pending {
    const struct sp_chat_parser_options *reading; /* borrowed */
    struct sp_strbuf text;                        /* owned */
    struct sp_strbuf special; /* [text.len] nonzero: of a special token; owned */
    bool skip_whitespace;     /* whitespace is skipped, since a tag came before */
};

SP_MUST_CHECK enum sp_status sp_chat_pending_add(struct sp_chat_pending *stream, const char *text,
                                                 size_t size, bool special, struct sp_err *err);
/* Drops the first n bytes, or emits them, special tokens excepted, as content or reasoning. */
void sp_chat_pending_drop(struct sp_chat_pending *stream, size_t n);
void sp_chat_pending_emit(struct sp_chat_pending *stream, enum sp_chat_part_kind kind, size_t n);
void sp_chat_pending_emit_call(struct sp_chat_pending *stream, const struct sp_tool_call *call);
/* Drops whitespace after a tag; returns false if there is nothing else yet. */
bool sp_chat_pending_settle(struct sp_chat_pending *stream);

/* ---- the harmony chat format (chat_harmony.c) ---- */

/* The parser reads one message after the other. Valid when zeroed. */
struct sp_chat_harmony {
    bool inside; /* the parser is inside a message */
    enum sp_chat_part_kind kind;
    struct sp_strbuf name; /* name of the called function, with a NUL; owned */
};

SP_MUST_CHECK enum sp_status sp_chat_harmony_read(struct sp_chat_harmony *harmony,
                                                  struct sp_chat_pending *stream, bool final,
                                                  struct sp_err *err);
/* The special tokens of the format; the last entry is NULL. */
extern const char *const sp_chat_harmony_tags[];

#endif
