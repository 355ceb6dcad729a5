/* Calls of tools and what the tools said, in a conversation that a client sends back: in the form
 * that templates take. */
#ifndef SP_CLI_SERVE_SERVE_TOOLS_H
#define SP_CLI_SERVE_SERVE_TOOLS_H

#include "cli/base/json_out.h"
#include "runtime/spectool.h"

/* The text of a member; NULL where there is none, or it is empty. */
const char *sp_serve_filled(const struct sp_json *object, const char *key);

/* A call that an earlier message made. */
struct sp_serve_call_id {
    char own_id[SP_CHAT_CALL_ID_SIZE]; /* where it came without one */
    const char *id, *name;             /* borrowed, or own_id: then id is NULL */
};

/* Begin with chat set, the rest zero. */
struct sp_serve_call_ids {
    const struct sp_chat_info *chat; /* what the template expects; borrowed */
    struct sp_serve_call_id *at;     /* [n], owned */
    size_t n, cap;
    size_t n_answered; /* of those whose results come without an id, in order */
};

/* Member "tool_calls"; each call gets an id and a type, its arguments become an object, or where
 * the template wants that a string. */
SP_MUST_CHECK enum sp_status sp_serve_write_calls(struct sp_json_out *out,
                                                  struct sp_serve_call_ids *known,
                                                  const struct sp_json *calls, struct sp_err *err);

/* Members of a tool's message that say whose result it is: tool_call_id, name, and tool_name. */
void sp_serve_write_whose(struct sp_json_out *out, struct sp_serve_call_ids *known,
                          const struct sp_json *message);

#endif
