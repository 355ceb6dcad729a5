#include "runtime/template/template.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"
#include "runtime/template/value/value.h"

#include <string.h>
#include <time.h>

/* ---- messages of plain texts ---- */

static void append_member(struct sp_json_out *out, const char *key, const char *text)
{
    sp_json_out_raw(out, key);
    sp_json_out_quoted(out, text, strlen(text));
}

/* Makes the messages of a list of plain texts. Jinja and Go templates have different names for
 * reasoning, so both are set. *out is owned by the caller. SP_E_INPUT: a text is no valid UTF-8. */
static enum sp_status read_messages(struct sp_json **out, const struct sp_chat_message *turns,
                                    size_t n_turns, struct sp_err *err)
{
    struct sp_json_out array = {0};
    enum sp_status st;

    sp_json_out_raw(&array, "[");
    for (const struct sp_chat_message *m = turns; m < turns + n_turns; m++) {
        append_member(&array, m == turns ? "{\"role\": " : ", {\"role\": ", m->role);
        append_member(&array, ", \"content\": ", m->content);
        if (m->reasoning != NULL) {
            append_member(&array, ", \"reasoning_content\": ", m->reasoning);
            append_member(&array, ", \"thinking\": ", m->reasoning);
        }
        sp_json_out_raw(&array, "}");
    }
    sp_json_out_raw(&array, "]");
    if (!(st = sp_json_out_check(&array, err))) {
        st = sp_json_parse_within(out, array.text.at, array.text.len, SP_JSON_STRICT,
                                  SP_TEMPLATE_MAX_JSON, err);
    }
    sp_strbuf_release(&array.text);
    return st;
}

/* ---- requests ---- */

static enum sp_status parse(struct sp_json **out, const char *text, const char *name,
                            enum sp_json_strictness strictness, struct sp_err *err)
{
    enum sp_status st;

    if (text == NULL) return SP_OK;
    st = sp_json_parse_within(out, text, strlen(text), strictness, SP_TEMPLATE_MAX_JSON, err);
    if (st) sp_context(err, "%s", name);
    return st;
}

enum sp_status sp_template_request_read(struct sp_template_request *out,
                                        const struct sp_chat_request *r,
                                        enum sp_json_strictness strictness, struct sp_err *err)
{
    enum sp_status st;

    if ((st = parse(&out->messages, r->messages, "messages", strictness, err))) return st;
    if ((st = parse(&out->tools, r->tools, "tools", strictness, err))) return st;
    if ((st = parse(&out->kwargs, r->kwargs, "kwargs", strictness, err))) return st;
    if ((st = parse(&out->vars, r->vars, "vars", strictness, err))) return st;
    if ((st = parse(&out->prompt, r->prompt, "prompt", strictness, err))) return st;
    if ((st = parse(&out->suffix, r->suffix, "suffix", strictness, err))) return st;
    if (r->turns && r->messages == NULL &&
        (st = read_messages(&out->messages, r->turns, r->n_turns, err)))
        return st;
    out->input = (struct sp_template_input){
        .messages = out->messages,
        .tools = out->tools,
        .kwargs = out->kwargs,
        .vars = out->vars,
        .prompt = out->prompt,
        .suffix = out->suffix,
        .generation_prompt = !r->omit_generation_prompt,
        .think = r->think,
        .is_think_set = r->is_think_set,
        .think_level = r->think_level,
        .now = r->now ? *r->now : sp_template_now(),
    };
    return SP_OK;
}

void sp_template_request_release(struct sp_template_request *request)
{
    sp_json_free(request->messages);
    sp_json_free(request->tools);
    sp_json_free(request->kwargs);
    sp_json_free(request->vars);
    sp_json_free(request->prompt);
    sp_json_free(request->suffix);
    *request = (struct sp_template_request){0};
}

enum sp_status sp_template_apply(char **text, size_t *size, const struct sp_template *t,
                                 const struct sp_chat_request *request, struct sp_err *err)
{
    struct sp_chat_request r = {0};
    struct sp_template_request parsed = {0};
    enum sp_status st;

    if ((st = sp_copy_in(&r, sizeof r, request, "sp_chat_request", err))) return st;
    st = sp_template_request_read(&parsed, &r, SP_JSON_LENIENT, err);
    if (!st) st = sp_template_render(text, size, t, &parsed.input, err);
    sp_template_request_release(&parsed);
    return st;
}

struct sp_template_time sp_template_now(void)
{
    struct sp_template_time now = {1970, 1, 1, 0, 0, 0};
    time_t seconds = time(NULL);
    struct tm tm;

    if (localtime_r(&seconds, &tm) == NULL) return now;
    now = (struct sp_template_time){tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                                    tm.tm_hour,        tm.tm_min,     tm.tm_sec};
    return now;
}
