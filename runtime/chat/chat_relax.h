/* Tools whose schemas cannot be enforced, with schemas that can. */
#ifndef SP_RUNTIME_CHAT_CHAT_RELAX_H
#define SP_RUNTIME_CHAT_CHAT_RELAX_H

#include "runtime/chat/chat_grammar.h"

/* *out = the tools of `options`, those that are not strict and that its grammar refuses with
 * simpler parameters: names, types and enums of the properties or, where these are refused as well,
 * any object. Owned by the caller. Their names are added to `changes`. Fails as the grammar does if
 * a strict tool is refused, and with SP_E_UNSUPPORTED where too much would have to be tried. */
SP_MUST_CHECK enum sp_status sp_chat_relax_tools(struct sp_json **out, char *changes, size_t size,
                                                 const struct sp_chat_grammar_options *options,
                                                 struct sp_err *err);

#endif
