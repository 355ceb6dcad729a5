/* The answer that a reader has put together so far, in memory that grows: the store of
 * struct sp_chat_answer. For chat_reader.c alone. */
#ifndef SP_RUNTIME_CHAT_CHAT_ANSWER_H
#define SP_RUNTIME_CHAT_CHAT_ANSWER_H

#include "format/base/strbuf.h"
#include "runtime/spectool.h"

/* The parts of an answer. Zero all members but call_id_seed before use. */
struct sp_chat_answer_store {
    struct sp_strbuf content, reasoning; /* owned; a NUL follows each that is not empty */
    struct sp_chat_call *calls;          /* [n_calls]; owned, with the names and arguments */
    size_t n_calls, cap_calls;
    size_t cap_arguments; /* of the last call */
    struct sp_chat_segment *segments;
    size_t n_segments, cap_segments;
    uint64_t call_id_seed;
};
void sp_chat_answer_release(struct sp_chat_answer_store *store);

/* Appends a part. SP_CHAT_TOOL_CALL_ARGUMENTS belong to the last call. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_chat_answer_add(struct sp_chat_answer_store *store,
                                                const struct sp_chat_part *part,
                                                struct sp_err *err);

/* *out borrows from the store until the next part is added. */
void sp_chat_answer_view(struct sp_chat_answer *out, const struct sp_chat_answer_store *store);

#endif
