/* The messages of a request, in the format that chat templates take. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_MESSAGES_H
#define SP_CLI_SERVE_REQUEST_SERVE_MESSAGES_H

#include "cli/serve/request/serve_request.h"

/* Appends the text of a message's content: a string, or an array of text parts with line ends
 * between them, unless they are output of a model; NULL appends nothing. */
SP_MUST_CHECK enum sp_status
sp_serve_join_content(struct sp_strbuf *to, const struct sp_json *content, struct sp_err *err);

/* Sets request->messages to the system message and the MESSAGE records of the file, followed by
 * the messages of the array `from`; a system message at the start of `from` replaces the file's.
 * Parts of a content are joined; arguments of tool calls are converted to the type that the
 * template takes; reasoning is written under every name that templates use; calls without an id
 * get one, and the result of a tool gets the name and the id of its call. A last message of the
 * assistant is the beginning of the answer, unless the body's continue_final_message is false.
 * Messages of unknown roles or without content are rejected, and tools if the template has none. */
SP_MUST_CHECK enum sp_status sp_serve_read_messages(struct sp_serve_request *request,
                                                    const struct sp_conversation *conversation,
                                                    const struct sp_json *from, struct sp_err *err);

/* Sets request->messages to one user message after a system message; system NULL: the file's
 * system message. */
SP_MUST_CHECK enum sp_status sp_serve_read_prompt(struct sp_serve_request *request,
                                                  const struct sp_conversation *conversation,
                                                  const struct sp_json *system,
                                                  const struct sp_json *prompt, struct sp_err *err);

#endif
