/* What the writers of the APIs share. */
#include "cli/serve/jobs/serve.h"

#include <inttypes.h>
#include <string.h>

const char *sp_serve_model_name(const struct sp_serve_request *request)
{
    const char *name = sp_json_get_text(request->body, "model");

    return name ? name : request->model->names[0];
}

const char *sp_serve_id(char id[SP_SERVE_ID_SIZE], const char *prefix,
                        const struct sp_serve_response *r)
{
    snprintf(id, SP_SERVE_ID_SIZE, "%s%" PRIx64 "%09lx%" PRIx64, prefix, (uint64_t)r->began.tv_sec,
             (unsigned long)r->began.tv_nsec, r->number);
    return id;
}

bool sp_serve_is_truncated(const struct sp_result *result)
{
    return result->stop == SP_STOP_LENGTH || result->stop == SP_STOP_CONTEXT ||
           result->stop == SP_STOP_MEMORY;
}

void sp_serve_begin_event(struct sp_serve_response *r, const char *type)
{
    sp_json_out_print(&r->out, "event: %s\ndata: ", type);
    sp_json_out_put(&r->out, "{type:%s", type);
}

void sp_serve_end_event(struct sp_serve_response *r)
{
    sp_json_out_end(&r->out, '}');
    sp_json_out_raw(&r->out, "\n\n");
    r->out.comma = false;
}

void sp_serve_write_arguments(struct sp_json_out *out, const char *key,
                              const struct sp_chat_call *call)
{
    struct sp_json *arguments = NULL;

    if (sp_json_parse(&arguments, call->arguments, call->size, SP_JSON_LENIENT, NULL))
        sp_json_out_written(out, key, "{}", 2);
    else
        sp_json_out_value(out, key, arguments);
    sp_json_free(arguments);
}

/* ---- members of the request ---- */

static enum sp_status check_keep_alive(const struct sp_serve_member *m, struct sp_err *err)
{
    double unused; /* concerns the model, which is open */

    return sp_serve_read_keep_alive(&unused, m->object, err);
}

const struct sp_serve_field sp_serve_common_fields[] = {
    {"keep_alive", .read = check_keep_alive},
    {"stream", SP_JSON_BOOL, SP_SERVE_AT(stream)},
    {.key = NULL},
};

static void write_fields(struct sp_serve_response *r, const struct sp_json *object,
                         const struct sp_serve_field *field, bool in_choice)
{
    for (; !sp_serve_field_ends(field); field++) {
        const struct sp_json *value = field->key ? sp_json_get(object, field->key) : object;
        if (field->members) write_fields(r, value, field->members, in_choice);
        if (field->write && field->in_choice == in_choice && (value || field->otherwise))
            field->write(r, field, value);
    }
}

void sp_serve_write_fields(struct sp_serve_response *r, bool in_choice)
{
    write_fields(r, r->request->body, sp_serve_common_fields, in_choice);
    write_fields(r, r->request->body, r->api->fields, in_choice);
}

void sp_serve_repeat(struct sp_serve_response *r, const struct sp_serve_field *field,
                     const struct sp_json *value)
{
    if (value)
        sp_json_out_value(&r->out, field->key, value);
    else
        sp_json_out_written(&r->out, field->key, field->otherwise, strlen(field->otherwise));
}

/* ---- failures ---- */

int sp_serve_status_of(enum sp_status st)
{
    switch (st) {
    case SP_E_USAGE:
    case SP_E_INPUT:
    case SP_E_UNSUPPORTED:
        return 400;
    case SP_E_NOMEM:
        return 503;
    default:
        return 500;
    }
}

/* Completes the fault of a sentence that begins with the name of a member of the body. */
static void find_fault(struct sp_serve_request *request, const char *sentence)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_[].0123456789";
    struct sp_serve_fault *f = &request->fault;
    char name[sizeof f->param];
    size_t len = strspn(sentence, letters);

    if (*f->param || len >= sizeof name) return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(sentence, "[.: "), sentence);
    if (sp_json_get(request->body, name))
        snprintf(f->param, sizeof f->param, "%.*s", (int)len, sentence);
}

struct sp_serve_failure sp_serve_failure_of(struct sp_serve_request *request, int status,
                                            const char *sentence)
{
    const struct sp_serve_fault *fault = &request->fault;

    find_fault(request, sentence);
    return (struct sp_serve_failure){.status = status,
                                     .code = fault->code,
                                     .param = *fault->param ? fault->param : NULL,
                                     .sentence = sentence};
}
