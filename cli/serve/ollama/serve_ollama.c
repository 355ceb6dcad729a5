#include "cli/serve/jobs/serve.h"
#include "cli/serve/request/serve_request.h"

/* Reads `think`: a boolean, or a level, which also turns reasoning on. */
static enum sp_status read_think(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *level = sp_json_to_string(m->value, NULL);

    m->request->is_think_set = true;
    if (level != NULL) return sp_serve_set_think_level(m->request, "think", level, err);
    if (sp_json_to_bool(m->value, &m->request->think)) return SP_OK;
    return sp_serve_wrong("think", m->value, "true, false or a level", err);
}

/* A request for reasoning of a model without it is refused, as ollama does. */
static enum sp_status check_reasons(const struct sp_serve_request *request, struct sp_err *err)
{
    if (!sp_serve_lacks_reasoning(request)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "\"%s\" does not support thinking",
                   request->model->names[0]);
}

static enum sp_status stream_by_default(const struct sp_serve_member *m, struct sp_err *err)
{
    (void)err;
    if (m->value == NULL) m->request->stream = true;
    return SP_OK;
}

static const struct sp_serve_field options[] = {
    /* These options configure ollama's server, and its clients send them by default. */
    {.names = "num_ctx num_batch num_gpu num_keep num_thread main_gpu low_vram numa use_mmap "
              "use_mlock"},
    {.read = sp_serve_read_sampling},
    {.read = sp_serve_read_lengths},
    {"reasoning_budget", .read = sp_serve_read_reasoning_budget},
    {"stop", .read = sp_serve_read_stops},
    {.key = NULL},
};

static const struct sp_serve_field common[] = {
    {"stream", .read = stream_by_default, .always = true},
    {"images", .harmless = "[]", .why = "images are not supported"},
    {"context", .harmless = "[]",
     .why = "deprecated and not supported, use /api/chat for conversations"},
    {"think", .read = read_think},
    {"logprobs", SP_JSON_BOOL, SP_SERVE_AT(logprobs)},
    {"top_logprobs", SP_JSON_INT, SP_SERVE_AT(n_top), .max = SP_SERVE_MAX_TOP,
     .read = sp_serve_check_top},
    {"format", .read = sp_serve_ollama_read_response_format},
    {"options", SP_JSON_OBJECT, .members = options},
    {.key = NULL},
};

static enum sp_status check_chat(const struct sp_serve_member *m, struct sp_err *err)
{
    if (m->request->conversation->template) return check_reasons(m->request, err);
    return sp_fail(err, SP_E_UNSUPPORTED, "%s has no chat template: use /api/generate",
                   m->request->model->names[0]);
}

static enum sp_status read_messages(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_read_messages(m->request, m->value, err);
}

static const struct sp_serve_field chat_fields[] = {
    {.members = common},
    {.read = check_chat},
    {"tools", .read = sp_serve_read_functions},
    {"messages", .read = read_messages, .always = true},
    {.key = NULL},
};

/* *out = a member that is a string; NULL if it is absent or empty. */
static enum sp_status read_text(const struct sp_json **out, const struct sp_json *body,
                                const char *key, struct sp_err *err)
{
    size_t len = 0;
    enum sp_status st = sp_serve_read_kind(out, body, key, SP_JSON_STRING, err);

    if (st) return st;
    (void)sp_json_to_string(*out, &len);
    if (len == 0) *out = NULL;
    return SP_OK;
}

/* Reads a prompt with a suffix. A Go template that places suffixes comes first, then the tokens of
 * the model's tokenizer. */
static enum sp_status read_gap(struct sp_serve_request *request, const struct sp_json *prompt,
                               const struct sp_json *suffix, struct sp_err *err)
{
    const struct sp_template *t =
        request->template ? request->template : request->conversation->template;
    enum sp_status st;

    request->suffix = suffix;
    if (sp_serve_model_inserts_by(t)) {
        request->prompt = prompt;
        return SP_OK;
    }
    if ((st = sp_serve_model_check_infill(request->model, "suffix", err))) return st;
    return sp_serve_request_take_text(request, prompt, err);
}

static enum sp_status read_template(struct sp_serve_request *request, const struct sp_json *text,
                                    struct sp_err *err)
{
    size_t size;
    const char *at = sp_json_to_string(text, &size);
    enum sp_status st;

    if (text == NULL) return SP_OK;
    st = sp_template_compile(&request->template, at, size, SP_TEMPLATE_UNKNOWN, err);
    if (st) sp_context(err, "template");
    return st;
}

static enum sp_status read_generate(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_json *prompt = NULL, *system = NULL, *suffix = NULL, *template = NULL;
    struct sp_serve_request *request = m->request;
    bool raw = false;
    enum sp_status st;

    if ((st = read_text(&prompt, m->object, "prompt", err))) return st;
    if ((st = read_text(&system, m->object, "system", err))) return st;
    if ((st = read_text(&suffix, m->object, "suffix", err))) return st;
    if ((st = read_text(&template, m->object, "template", err))) return st;
    if ((st = sp_json_get_bool(m->object, "raw", &raw, err))) return st;
    if (prompt == NULL) return sp_fail(err, SP_E_INPUT, "prompt is empty");
    if (raw && (system || suffix || template))
        return sp_fail(err, SP_E_INPUT, "raw mode does not support template, system, or suffix");
    if ((st = read_template(request, template, err))) return st;
    if ((st = check_reasons(request, err))) return st;
    if (suffix != NULL) return read_gap(request, prompt, suffix, err);
    if (raw || (request->conversation->template == NULL && request->template == NULL)) {
        if (system != NULL) {
            return sp_fail(err, SP_E_UNSUPPORTED,
                           "system requires a chat template, and %s has none",
                           request->model->names[0]);
        }
        return sp_serve_request_take_text(request, prompt, err);
    }
    return sp_serve_read_prompt(request, system, prompt, err);
}

static const struct sp_serve_field text_fields[] = {
    {.members = common},
    {.read = read_generate},
    {.key = NULL},
};

/* ---- answers ---- */

static void fail(struct sp_json_out *out, const struct sp_serve_failure *failure)
{
    sp_json_out_put(out, "{error:%s}", failure->sentence);
}

static void write_call(struct sp_json_out *out, const struct sp_chat_call *call, size_t index)
{
    sp_json_out_put(out, "{id:%s, function:{index:%zu, name:%s", call->id, index, call->name);
    sp_serve_write_arguments(out, "arguments", call);
    sp_json_out_put(out, "}}");
}

/* The contents of a line of output. */
struct sent {
    const char *content, *reasoning;
    size_t n_content, n_reasoning;
    const struct sp_chat_call *calls; /* [n_calls] calls to write */
    size_t n_calls, first_call;       /* first_call: number of calls in earlier lines */
};

static const struct sent none = {.content = NULL};

/* Begins a line. */
static void write_text(struct sp_json_out *out, const char *model, bool chat,
                       const struct sent *sent)
{
    char time[SP_TIME_TEXT];

    sp_json_out_put(out, "{model:%s, created_at:%s", model, sp_serve_time(time, NULL));
    if (chat) sp_json_out_put(out, "message:{role:'assistant'");
    sp_json_out_string(out, chat ? "content" : "response", sent->n_content ? sent->content : "",
                       sent->n_content);
    if (sent->n_reasoning > 0)
        sp_json_out_string(out, "thinking", sent->reasoning, sent->n_reasoning);
    if (!chat) return;
    if (sent->n_calls > 0) {
        sp_json_out_begin(out, "tool_calls", '[');
        for (size_t i = 0; i < sent->n_calls; i++)
            write_call(out, &sent->calls[i], sent->first_call + i);
        sp_json_out_end(out, ']');
    }
    sp_json_out_end(out, '}');
}

static void write_additions(struct sp_serve_response *r)
{
    sp_serve_write_fields(r, false);
    if (r->request->logprobs && r->n_tokens > 0)
        sp_serve_logprobs_write(r, "logprobs", r->tokens, r->n_tokens);
}

static size_t ns(double seconds)
{
    return seconds > 0 ? (size_t)(seconds * 1e9) : 0;
}

/* Writes the last line. load_duration is the time until the answer began: that of opening the
 * model, and of waiting. */
static void last_line(struct sp_serve_response *r, const struct sent *sent,
                      const struct sp_result *result)
{
    struct sp_json_out *out = &r->out;
    bool cut = sp_serve_is_truncated(result);

    write_text(out, sp_serve_model_name(r->request), r->api->is_chat, sent);
    write_additions(r);
    sp_json_out_put(out,
                    "done:true, done_reason:%s, total_duration:%zu, load_duration:%zu, "
                    "prompt_eval_count:%zu, prompt_eval_duration:%zu, eval_count:%zu, "
                    "eval_duration:%zu, prompt_cached_count:%zu, draft_count:%zu, "
                    "draft_accepted_count:%zu}\n",
                    cut ? "length" : "stop", ns(r->seconds), ns(r->waited), result->n_prompt,
                    ns(result->prompt_seconds), result->n_ids, ns(sp_answer_seconds(result)),
                    result->n_reused, result->drafted, result->accepted);
}

static void write_part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    struct sent sent = {.content = NULL};

    if (p->kind == SP_CHAT_TOOL_CALL) {
        sent.first_call = r->message->n_calls - 1;
        sent.calls = &r->message->calls[sent.first_call];
        sent.n_calls = 1;
    } else if (p->kind == SP_CHAT_REASONING) {
        sent.reasoning = p->text;
        sent.n_reasoning = p->size;
    } else {
        sent.content = p->text;
        sent.n_content = p->size;
    }
    write_text(&r->out, sp_serve_model_name(r->request), r->api->is_chat, &sent);
    write_additions(r);
    sp_json_out_put(&r->out, "done:false}\n");
}

static void fail_stream(struct sp_serve_response *r, const struct sp_serve_failure *failure)
{
    fail(&r->out, failure);
    sp_json_out_raw(&r->out, "\n");
}

/* Writes a line without text: its format has no comments. */
static void keep_alive(struct sp_serve_response *r)
{
    write_text(&r->out, sp_serve_model_name(r->request), r->api->is_chat, &none);
    sp_json_out_put(&r->out, "done:false}\n");
}

static void whole(struct sp_serve_response *r, const struct sp_result *result)
{
    const struct sp_chat_answer *message = r->message;
    const struct sent sent = {
        .content = message->content.at,
        .n_content = message->content.len,
        .reasoning = message->reasoning.at,
        .n_reasoning = message->reasoning.len,
        .calls = message->calls,
        .n_calls = message->n_calls,
    };

    last_line(r, &sent, result);
}

static void end(struct sp_serve_response *r, const struct sp_result *result)
{
    last_line(r, &none, result);
}

static bool has_prompt(const struct sp_json *body, bool chat)
{
    const struct sp_json *prompt = sp_json_get(body, chat ? "messages" : "prompt");
    size_t len = 1;

    if (prompt == NULL) return false;
    if (chat && sp_json_kind(prompt) == SP_JSON_ARRAY) return sp_json_len(prompt) > 0;
    return sp_json_to_string(prompt, &len) == NULL || len > 0;
}

static void write_load(struct sp_json_out *out, const char *model, bool chat, bool loaded)
{
    write_text(out, model, chat, &none);
    sp_json_out_put(out, "done:true, done_reason:%s}\n", loaded ? "load" : "unload");
}

#define FUNCTIONS                                                                                  \
    .stream_type = "application/x-ndjson", .keep_alive = keep_alive, .part = write_part,           \
    .end = end, .whole = whole, .fail_stream = fail_stream, .fail = fail,                          \
    .has_prompt = has_prompt, .write_load = write_load

const struct sp_serve_api sp_serve_ollama_chat = {FUNCTIONS, .is_chat = true,
                                                  .fields = chat_fields};
const struct sp_serve_api sp_serve_ollama_text = {FUNCTIONS, .fields = text_fields};
