/* The messages of a request, in the form that templates take. */
#ifndef SP_CLI_SERVE_SERVE_MESSAGES_H
#define SP_CLI_SERVE_SERVE_MESSAGES_H

#include "cli/serve/serve_request.h"

/* Appends a message's content, a text or an array of parts with texts; NULL: none. */
SP_MUST_CHECK enum sp_status
sp_serve_join_content(struct sp_strbuf *to, const struct sp_json *content, struct sp_err *err);

/* Sets request->messages: the system message and the MESSAGE records of the file, then the messages
 * of the array `from`; a system message at the beginning of `from` replaces that of the file.
 * Contents in parts are joined; arguments of tool calls get the form that the template takes;
 * reasoning gets all names that templates know it by; calls without an id get one, and the result
 * of a tool gets the name and the id of its call. */
SP_MUST_CHECK enum sp_status sp_serve_read_messages(struct sp_serve_request *request,
                                                    const struct sp_conversation *conversation,
                                                    const struct sp_json *from, struct sp_err *err);

/* Sets request->messages to one user's message; system NULL: the system message of the file. */
SP_MUST_CHECK enum sp_status sp_serve_read_prompt(struct sp_serve_request *request,
                                                  const struct sp_conversation *conversation,
                                                  const struct sp_json *system,
                                                  const struct sp_json *prompt, struct sp_err *err);

#endif
