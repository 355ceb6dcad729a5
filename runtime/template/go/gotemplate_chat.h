/* Renders a conversation with a Go template, by ollama's rules. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_CHAT_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_CHAT_H

#include "runtime/template/go/gotemplate.h"

struct sp_go_chat {
    const struct sp_json *messages, *tools; /* arrays; NULL: none */
    struct sp_value prompt, suffix;         /* if neither is empty, they replace the messages */
    bool think, is_think_set;
    const char *think_level; /* NULL: none */
    struct sp_template_time now;
};

SP_MUST_CHECK enum sp_status sp_go_chat(struct sp_builder *out, const struct sp_gotemplate *t,
                                        const struct sp_go_chat *chat, struct sp_err *err);

#endif
