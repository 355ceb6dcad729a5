/* Tool calls and tool results in a conversation that a client sends, converted to the format that
 * chat templates take. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_TOOLS_H
#define SP_CLI_SERVE_REQUEST_SERVE_TOOLS_H

#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"

/* Returns the text of a member; NULL if it is absent or empty. */
const char *sp_serve_filled(const struct sp_json *object, const char *key);

/* The id of a call in an earlier message. */
struct sp_serve_call_id {
    char own_id[SP_CHAT_CALL_ID_SIZE]; /* generated id of a call that came without one */
    const char *id, *name;             /* borrowed; id NULL: the id is own_id */
};

/* The calls of a conversation. The caller sets `chat` and `request` and zeroes the other fields. */
struct sp_serve_call_ids {
    const struct sp_chat_info *chat;        /* describes what the template expects; borrowed */
    const struct sp_serve_request *request; /* borrowed */
    struct sp_serve_call_id *at;            /* [n], owned */
    size_t n, cap;
    size_t n_matched; /* calls matched so far by results that came without an id */
};

/* Writes the member "tool_calls" of a message that has calls. Each call gets an id and a type; its
 * arguments become an object or, if the template expects one, a string. */
SP_MUST_CHECK enum sp_status sp_serve_write_calls(struct sp_json_out *out,
                                                  struct sp_serve_call_ids *known,
                                                  const struct sp_json *message,
                                                  struct sp_err *err);

/* Writes the members of a tool's message that identify its call: tool_call_id, name, tool_name. */
void sp_serve_write_call_reference(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                   const struct sp_json *message);

#endif
