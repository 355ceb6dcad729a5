/* What was read of an answer and not told yet, and the telling of it: for the parsers of answers
 * alone. */
#ifndef SP_RUNTIME_CHAT_CHAT_PENDING_H
#define SP_RUNTIME_CHAT_CHAT_PENDING_H

#include "runtime/chat/tool_call.h"
#include "runtime/chat/chat_parser.h"

/* Begin with reading set, the rest zero. */
struct sp_answer_stream {
    const struct sp_answer_reading *reading; /* borrowed */
    struct sp_strbuf text;                   /* owned */
    struct sp_strbuf special;                /* parallel: of a special token? owned */
    bool skip_whitespace;                    /* what comes next stands behind a mark */
};
void sp_answer_stream_release(struct sp_answer_stream *stream);

SP_MUST_CHECK enum sp_status sp_answer_stream_add(struct sp_answer_stream *stream, const char *text,
                                                  size_t size, bool special, struct sp_err *err);
/* Drops the first n bytes; tells them, but for special tokens, as content or a thought. */
void sp_answer_stream_drop(struct sp_answer_stream *stream, size_t n);
void sp_answer_stream_tell(struct sp_answer_stream *stream, enum sp_answer_kind kind, size_t n);
void sp_answer_stream_tell_call(struct sp_answer_stream *stream, const struct sp_answer_call *call);
/* Drops blanks behind a mark; false: there is nothing else yet. */
bool sp_answer_stream_settle(struct sp_answer_stream *stream);

/* HARMONY: its messages, one after the other. Valid when zeroed. */
struct sp_answer_harmony {
    bool inside; /* a message */
    enum sp_answer_kind kind;
    struct sp_strbuf name; /* of a call, with a NUL; owned */
};
void sp_answer_harmony_release(struct sp_answer_harmony *harmony);
SP_MUST_CHECK enum sp_status sp_answer_harmony_read(struct sp_answer_harmony *harmony,
                                                    struct sp_answer_stream *stream, bool final,
                                                    struct sp_err *err);
/* The special tokens that it is made of; the last one is NULL. */
extern const char *const sp_answer_harmony_marks[];

#endif
