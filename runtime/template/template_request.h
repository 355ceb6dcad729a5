/* Parses the JSON texts of a struct sp_chat_request for a template. */
#ifndef SP_RUNTIME_TEMPLATE_TEMPLATE_REQUEST_H
#define SP_RUNTIME_TEMPLATE_TEMPLATE_REQUEST_H

#include "runtime/spectool.h"
#include "runtime/template/template.h"

/* Valid when zeroed. All JSON is owned. */
struct sp_template_request {
    struct sp_json *messages, *tools, *kwargs, *vars, *prompt, *suffix; /* NULL: none */
    struct sp_template_input input; /* borrows from the members above */
};

/* Parses a request, all of whose members are set; its texts are borrowed. The caller releases
 * *out, also on failure. SP_E_INPUT names the member that is not valid JSON. */
SP_MUST_CHECK enum sp_status sp_template_request_read(struct sp_template_request *out,
                                                      const struct sp_chat_request *request,
                                                      enum sp_json_strictness strictness,
                                                      struct sp_err *err);
void sp_template_request_release(struct sp_template_request *request);

#endif
