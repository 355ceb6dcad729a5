/* What an answer has said so far, apart: content, thoughts, calls of tools. */
#ifndef SP_CLI_SAID_H
#define SP_CLI_SAID_H

#include "format/text.h"
#include "runtime/answer_parser.h"

enum { SP_CALL_ID_SIZE = 10 };

struct sp_said_call {
    char id[SP_CALL_ID_SIZE]; /* nine letters and digits: there are templates that take no others */
    char *name, *arguments;   /* arguments: JSON; owned */
};

/* Valid when zeroed. */
struct sp_said {
    struct sp_text content, thought; /* owned, as is: */
    struct sp_said_call *calls;
    size_t n_calls, cap_calls;
    uint64_t key; /* of the ids: another one an answer */
};
void sp_said_release(struct sp_said *said);
/* A call that has begun is one, without arguments; parts of arguments are left out. */
SP_MUST_CHECK enum sp_status sp_said_add(struct sp_said *said, const struct sp_answer_piece *piece,
                                         struct sp_err *err);

#endif
