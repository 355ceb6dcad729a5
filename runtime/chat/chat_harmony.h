/* The parser of the harmony chat format, whose messages have channels. */
#ifndef SP_RUNTIME_CHAT_CHAT_HARMONY_H
#define SP_RUNTIME_CHAT_CHAT_HARMONY_H

#include "runtime/chat/chat_pending.h"

/* The parser reads one message after the other. Valid when zeroed. */
struct sp_chat_harmony {
    bool inside; /* the parser is inside a message */
    enum sp_chat_part_kind kind;
    struct sp_strbuf name; /* name of the called function, with a NUL; owned */
};

void sp_chat_harmony_release(struct sp_chat_harmony *harmony);
SP_MUST_CHECK enum sp_status sp_chat_harmony_read(struct sp_chat_harmony *harmony,
                                                  struct sp_chat_pending *stream, bool final,
                                                  struct sp_err *err);
/* The special tokens of the format; the last entry is NULL. */
extern const char *const sp_chat_harmony_tags[];

#endif
