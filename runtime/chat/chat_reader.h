/* How a session feeds the reader of an answer; what callers of the library use is in spectool.h. */
#ifndef SP_RUNTIME_CHAT_CHAT_READER_H
#define SP_RUNTIME_CHAT_CHAT_READER_H

#include "runtime/spectool.h"

/* Read the next text or special token of the answer. After a failure (SP_E_NOMEM, or
 * SP_E_CANCELLED: the callback stopped) the reader ignores the rest. */
SP_MUST_CHECK enum sp_status sp_chat_reader_text(struct sp_chat_reader *reader, const char *text,
                                                 size_t size, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_chat_reader_special(struct sp_chat_reader *reader, uint32_t id,
                                                    struct sp_err *err);
/* Counts a token of the answer, for the numbers of tokens in struct sp_chat_answer. */
void sp_chat_reader_count_token(struct sp_chat_reader *reader);
/* Ends the answer, and emits text that could still have become a tag. */
SP_MUST_CHECK enum sp_status sp_chat_reader_finish(struct sp_chat_reader *reader,
                                                   struct sp_err *err);

#endif
