/* Converts the messages of a request to those that the chat template renders. */
#include "cli/serve/request/serve_request.h"
#include "format/base/affix.h"
#include "format/base/strbuf.h"
#include "format/json/json_write.h"

#include <stdlib.h>
#include <string.h>

/* *text = the text of a content part, under the names that the APIs use. Other types of parts are
 * rejected by name. *is_answer: the part continues an answer of a model. */
static enum sp_status part_text(const char **text, size_t *size, bool *is_answer,
                                const struct sp_json *part, struct sp_err *err)
{
    static const struct {
        const char *type, *member;
        bool is_answer;
    } names[] = {
        {"text", "text", false},        {"input_text", "text", false},
        {"output_text", "text", true},  {"reasoning_text", "text", true},
        {"summary_text", "text", true}, {"refusal", "refusal", true},
    };
    const char *type = sp_json_to_string(sp_json_get(part, "type"), NULL);

    if (type == NULL) return sp_fail(err, SP_E_INPUT, "a content part has no type");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i].type) != 0) continue;
        *is_answer = names[i].is_answer;
        *text = sp_json_to_string(sp_json_get(part, names[i].member), size);
        return *text ? SP_OK : sp_fail(err, SP_E_INPUT, "a content part has no text");
    }
    return sp_fail(err, SP_E_UNSUPPORTED, "content of type %s is not supported, only text", type);
}

enum sp_status sp_serve_join_content(struct sp_strbuf *to, const struct sp_json *content,
                                     struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t size;
    bool is_answer = false;
    const char *text = sp_json_to_string(content, &size);

    if (content == NULL) return SP_OK;
    if (text != NULL) return sp_strbuf_append(to, text, size, err);
    if (sp_json_kind(content) != SP_JSON_ARRAY)
        return sp_serve_wrong("content", content, "a string or an array of parts", err);
    for (size_t i = 0; i < sp_json_len(content) && !st; i++) {
        st = part_text(&text, &size, &is_answer, sp_json_at(content, i), err);
        if (!st && i > 0 && !is_answer) st = sp_strbuf_append(to, "\n", 1, err);
        if (!st) st = sp_strbuf_append(to, text, size, err);
    }
    return st;
}

/* Returns the role of a message; "developer" is OpenAI's newer name of "system", and "function" the
 * older one of "tool". */
static const char *role_of(const struct sp_json *message)
{
    const char *role = sp_json_to_string(sp_json_get(message, "role"), NULL);

    if (role && strcmp(role, "function") == 0) return "tool";
    return role && strcmp(role, "developer") == 0 ? "system" : role;
}

/* Returns the calls of a message, under the newer or the older name; NULL: it has none. */
static const struct sp_json *calls_of(const struct sp_json *message)
{
    const struct sp_json *calls = sp_json_get(message, "tool_calls");

    return calls ? calls : sp_json_get(message, "function_call");
}

/* Returns the reasoning of a message, under the names that the APIs use. */
static const struct sp_json *reasoning_of(const struct sp_json *message)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct sp_json *reasoning = sp_json_get(message, names[i]);
        size_t len = 0;
        if (sp_json_to_string(reasoning, &len) != NULL && len > 0) return reasoning;
    }
    return NULL;
}

/* Writes the content. The content of a message with calls is null if it is empty and the template
 * writes calls only without content; it is left out if the template rejects content next to
 * reasoning and calls, as harmony's does. */
static enum sp_status write_content_of(struct sp_json_out *out, const struct sp_chat_info *chat,
                                       const struct sp_json *message, struct sp_err *err)
{
    const struct sp_json *content = sp_json_get(message, "content");
    size_t len = content == NULL ? 0 : 1;
    struct sp_strbuf joined = {0};
    enum sp_status st;

    (void)sp_json_to_string(content, &len);
    if (sp_json_len(calls_of(message)) > 0) {
        if (chat->null_content && len == 0) {
            sp_json_out_text(out, "content", NULL);
            return SP_OK;
        }
        if (chat->no_content_with_reasoning && reasoning_of(message) != NULL) content = NULL;
    }
    st = sp_serve_join_content(&joined, content, err);
    if (!st) sp_json_out_string(out, "content", joined.len ? joined.at : "", joined.len);
    sp_strbuf_release(&joined);
    return st;
}

/* True if the text of the template contains `word` between quotes. */
static bool template_names(const struct sp_conversation *c, const char *word)
{
    size_t size;
    const char *text = c->template ? sp_template_text(c->template, &size) : "";
    char quoted[2][48];

    snprintf(quoted[0], sizeof quoted[0], "\"%.40s\"", word);
    snprintf(quoted[1], sizeof quoted[1], "'%.40s'", word);
    return strstr(text, quoted[0]) || strstr(text, quoted[1]);
}

/* Records that member `key` of message i lacks or is wrong. */
static void blame(struct sp_serve_request *request, const char *code, size_t i, const char *key)
{
    sp_serve_fault_set(&request->fault, code, "messages[%zu]%s", i, key);
}

/* Checks the role, since templates drop messages of roles that they do not know, and that there is
 * something to render. Roles beyond those of the APIs are accepted if the template names them. i:
 * index of the message. */
static enum sp_status check_message(struct sp_serve_request *request, size_t i,
                                    const struct sp_json *message, struct sp_err *err)
{
    const char *role = role_of(message);
    bool answers;

    if (sp_json_kind(message) != SP_JSON_OBJECT) {
        blame(request, "invalid_type", i, "");
        return sp_fail(err, SP_E_INPUT, "is not an object");
    }
    if (role == NULL || *role == '\0') {
        blame(request, "missing_required_parameter", i, ".role");
        return sp_fail(err, SP_E_INPUT, "has no role");
    }
    if (!sp_is_among(role, "system user assistant tool") &&
        !template_names(request->conversation, role)) {
        blame(request, "invalid_value", i, ".role");
        return sp_fail(err, SP_E_INPUT, "role is %.40s, expected system, user, assistant or tool",
                       role);
    }
    if (sp_json_len(sp_json_get(message, "images")) > 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "images: not supported");
    answers = strcmp(role, "assistant") == 0 && (calls_of(message) || reasoning_of(message));
    if (sp_json_get(message, "content") == NULL && !answers) {
        blame(request, "missing_required_parameter", i, ".content");
        return sp_fail(err, SP_E_INPUT, "has no content");
    }
    return SP_OK;
}

static enum sp_status write_message(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                    const struct sp_json *message, struct sp_err *err)
{
    static const char handled[] =
        "role content images reasoning_content reasoning thinking tool_calls function_call";
    const struct sp_json *reasoning = reasoning_of(message);
    const char *role = role_of(message);
    struct sp_json_iter it = {0};
    bool tool = strcmp(role, "tool") == 0;
    enum sp_status st;

    sp_json_out_put(out, "{role:%s", role);
    st = write_content_of(out, &known->request->conversation->chat_info, message, err);
    if (reasoning != NULL) sp_json_out_value(out, "reasoning_content", reasoning);
    if (reasoning != NULL) sp_json_out_value(out, "thinking", reasoning);
    if (!st) st = sp_serve_write_calls(out, known, message, err);
    if (tool) sp_serve_write_call_reference(out, known, message);
    while (!st && sp_json_next(message, &it)) {
        if (it.value == NULL || sp_is_among(it.key, handled) ||
            (tool && sp_is_among(it.key, "tool_call_id name tool_name")))
            continue;
        sp_json_out_value(out, it.key, it.value);
    }
    sp_json_out_end(out, '}');
    return st;
}

static void write_turn(struct sp_json_out *out, const char *role, const char *text, size_t size)
{
    sp_json_out_put(out, "{role:%s", role);
    sp_json_out_string(out, "content", text, size);
    sp_json_out_end(out, '}');
}

/* Writes the file's system message and MESSAGE records. */
static void write_file_messages(struct sp_json_out *out, const struct sp_conversation *c)
{
    for (size_t i = 0; i < c->n_given; i++)
        write_turn(out, c->turns[i].role, c->turns[i].content, strlen(c->turns[i].content));
}

static enum sp_status write_messages(struct sp_json_out *out, struct sp_serve_request *request,
                                     const struct sp_json *from, size_t n, struct sp_err *err)
{
    const struct sp_conversation *c = request->conversation;
    struct sp_serve_call_ids known = {.request = request};
    enum sp_status st = SP_OK;
    const char *role = role_of(sp_json_at(from, 0));
    size_t n_first = role && strcmp(role, "system") == 0 ? 1 : 0;

    if (n_first == 0 && c->system != NULL && *c->system)
        write_turn(out, "system", c->system, strlen(c->system));
    for (size_t i = 0; i < n && !st; i++) {
        if (i == n_first) write_file_messages(out, c);
        st = check_message(request, i, sp_json_at(from, i), err);
        if (!st) st = write_message(out, &known, sp_json_at(from, i), err);
        if (st) sp_context(err, "messages[%zu]", i);
    }
    free(known.at);
    return st;
}

/* ---- the whole conversation ---- */

/* True if the last message is the beginning of an answer, which the model continues. */
static bool is_partial(const struct sp_json *message)
{
    const char *role = role_of(message);

    return role && strcmp(role, "assistant") == 0 && sp_json_get(message, "content") &&
           calls_of(message) == NULL && reasoning_of(message) == NULL;
}

/* *partial = whether the answer continues the last message: if that is the assistant's, unless the
 * body says otherwise. */
static enum sp_status read_continuation(bool *partial, const struct sp_json *body,
                                        const struct sp_json *last, struct sp_err *err)
{
    bool wanted = is_partial(last), prompt = !wanted;
    enum sp_status st;

    *partial = wanted;
    if ((st = sp_json_get_bool(body, "continue_final_message", partial, err))) return st;
    if ((st = sp_json_get_bool(body, "add_generation_prompt", &prompt, err))) return st;
    if (*partial && !wanted) {
        return sp_fail(err, SP_E_INPUT,
                       "continue_final_message: the last message is not text of the assistant");
    }
    if (prompt == *partial && sp_json_get(body, "add_generation_prompt")) {
        return sp_fail(err, SP_E_INPUT, "add_generation_prompt is %s, but the last message is %s",
                       prompt ? "true" : "false", *partial ? "continued" : "complete");
    }
    return SP_OK;
}

/* Takes the last message as the beginning of the answer. */
static enum sp_status take_partial(struct sp_serve_request *request, const struct sp_json *last,
                                   struct sp_err *err)
{
    const char *what = request->think       ? "reasoning"
                       : request->must_call ? "tool_choice"
                       : request->grammar   ? "a response format"
                                            : NULL;
    enum sp_status st = sp_serve_join_content(&request->partial, sp_json_get(last, "content"), err);

    if (st || request->partial.len == 0 || what == NULL) return st;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s cannot be combined with a partial answer as the last message", what);
}

/* A template that never mentions tools does not show them to the model, unless calls show it. */
static enum sp_status check_tools(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_conversation *c = request->conversation;
    const struct sp_template *t = request->template ? request->template : c->template;
    size_t size;

    if (request->tools == NULL || t == NULL || c->chat_info.has_tool_calls) return SP_OK;
    if (strstr(sp_template_text(t, &size),
               sp_template_language(t) == SP_TEMPLATE_GO ? ".Tools" : "tools"))
        return SP_OK;
    sp_serve_fault_set(&request->fault, "unsupported_parameter", "tools");
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "tools: this model does not support tools, since its chat template has none");
}

enum sp_status sp_serve_set_messages(struct sp_serve_request *request, const struct sp_json *from,
                                     size_t n, struct sp_err *err)
{
    struct sp_json_out out = {0};
    enum sp_status st;

    sp_json_out_begin(&out, NULL, '[');
    st = write_messages(&out, request, from, n, err);
    sp_json_out_end(&out, ']');
    return sp_json_out_parse(&request->messages, &out, st, err);
}

enum sp_status sp_serve_read_messages(struct sp_serve_request *request, const struct sp_json *from,
                                      struct sp_err *err)
{
    bool partial = false;
    size_t n = sp_json_len(from);
    enum sp_status st;

    if (sp_json_kind(from) != SP_JSON_ARRAY || n == 0) {
        sp_serve_fault_set(&request->fault,
                           from == NULL                          ? "missing_required_parameter"
                           : sp_json_kind(from) == SP_JSON_ARRAY ? "empty_array"
                                                                 : "invalid_type",
                           "messages");
        return sp_serve_wrong("messages", from, "an array of messages", err);
    }
    if ((st = check_tools(request, err))) return st;
    if ((st = read_continuation(&partial, request->body, sp_json_at(from, n - 1), err))) return st;
    if (partial && (st = take_partial(request, sp_json_at(from, n - 1), err))) return st;
    return sp_serve_set_messages(request, from, n - partial, err);
}

enum sp_status sp_serve_read_prompt(struct sp_serve_request *request, const struct sp_json *system,
                                    const struct sp_json *prompt, struct sp_err *err)
{
    size_t n_generated = 0, size;
    const char *message = sp_json_to_string(system, &n_generated);
    const char *text = sp_json_to_string(prompt, &size);
    struct sp_json_out out = {0};

    if (message == NULL && (message = request->conversation->system) != NULL)
        n_generated = strlen(message);
    sp_json_out_begin(&out, NULL, '[');
    if (n_generated > 0) write_turn(&out, "system", message, n_generated);
    write_file_messages(&out, request->conversation);
    write_turn(&out, "user", text, size);
    sp_json_out_end(&out, ']');
    return sp_json_out_parse(&request->messages, &out, SP_OK, err);
}
