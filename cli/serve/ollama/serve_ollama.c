#include "cli/serve/jobs/serve.h"
#include "cli/serve/request/serve_request.h"

#include <stdlib.h>

static const char no_images[] = "images are not supported";

static const struct sp_serve_refusal refusals[] = {
    {"images", "[]", no_images},
    {"context", "[]", "deprecated and not supported, use /api/chat for conversations"},
    {NULL, NULL, NULL},
};

/* Reads `think`: a boolean, or a level, which also turns reasoning on. */
static enum sp_status read_think(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *think = sp_json_get(request->body, "think");
    const char *level = sp_json_to_string(think, NULL);

    if (think == NULL) return SP_OK;
    request->is_think_set = true;
    if (level != NULL) return sp_serve_set_think_level(request, "think", level, err);
    if (sp_json_to_bool(think, &request->think)) return SP_OK;
    return sp_request_wrong("think", think, "true, false or a level", err);
}

static enum sp_status read_logprobs(struct sp_serve_request *request, struct sp_err *err)
{
    int64_t n = 0;
    enum sp_status st;

    if ((st = sp_json_get_bool(request->body, "logprobs", &request->logprobs, err))) return st;
    if ((st = sp_json_get_i64(request->body, "top_logprobs", 0, SP_SERVE_MAX_TOP, &n, err)))
        return st;
    request->n_top = request->logprobs ? (unsigned)n : 0;
    return SP_OK;
}

/* A request for reasoning of a model without it is refused, as ollama does. */
static enum sp_status check_reasons(const struct sp_serve_request *request, struct sp_err *err)
{
    if (!sp_serve_lacks_reasoning(request)) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "\"%s\" does not support thinking",
                   request->model->names[0]);
}

static enum sp_status read_common(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *options = NULL;
    const char *key;
    enum sp_status st;

    request->stream = true;
    if ((st = sp_serve_read_kind(&options, request->body, "options", SP_JSON_OBJECT, err)))
        return st;
    if ((st = sp_serve_refuse(request->body, refusals, err))) return st;
    if ((st = sp_json_get_bool(request->body, "stream", &request->stream, err))) return st;
    if ((st = read_think(request, err))) return st;
    if ((st = read_logprobs(request, err))) return st;
    if ((st = sp_serve_ollama_read_response_format(request, err))) return st;
    /* These options configure ollama's server, and its clients send them by default. */
    sp_serve_read_hints(options, "num_ctx num_batch num_gpu num_keep num_thread main_gpu low_vram "
                                 "numa use_mmap use_mlock");
    if ((st = sp_request_settings_read_named(&request->settings, options, SP_SETTING_SAMPLING, &key,
                                             err)) ||
        (st = sp_request_settings_read_named(&request->settings, options, SP_SETTING_LENGTH, &key,
                                             err)) ||
        (st = sp_serve_read_reasoning_budget(request, options, "reasoning_budget", err)) ||
        (st = sp_request_settings_read_breakers(&request->settings, options, err)) ||
        (st = sp_request_settings_read_stops(&request->settings, sp_json_get(options, "stop"),
                                             err))) {
        sp_context(err, "options");
        return st;
    }
    return SP_OK;
}

static enum sp_status read_chat(struct sp_serve_request *request, struct sp_err *err)
{
    enum sp_status st;

    if ((st = read_common(request, err))) return st;
    if (request->conversation->template == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s has no chat template: use /api/generate",
                       request->model->names[0]);
    }
    if ((st = check_reasons(request, err))) return st;
    if ((st = sp_serve_read_functions(request, err))) return st;
    return sp_serve_read_messages(request, sp_json_get(request->body, "messages"), err);
}

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
    if ((st = sp_serve_request_take_prompts(request, 1, err))) return st;
    request->prompts[0].text = sp_json_to_string(prompt, &request->prompts[0].size);
    return SP_OK;
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

static enum sp_status read_generate(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *prompt = NULL, *system = NULL, *suffix = NULL, *template = NULL;
    bool raw = false;
    enum sp_status st;

    if ((st = read_common(request, err))) return st;
    if ((st = read_text(&prompt, request->body, "prompt", err))) return st;
    if ((st = read_text(&system, request->body, "system", err))) return st;
    if ((st = read_text(&suffix, request->body, "suffix", err))) return st;
    if ((st = read_text(&template, request->body, "template", err))) return st;
    if ((st = sp_json_get_bool(request->body, "raw", &raw, err))) return st;
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
        if ((st = sp_serve_request_take_prompts(request, 1, err))) return st;
        request->prompts[0].text = sp_json_to_string(prompt, &request->prompts[0].size);
        return SP_OK;
    }
    return sp_serve_read_prompt(request, system, prompt, err);
}

/* ---- answers ---- */

static void fail(struct sp_json_out *out, const struct sp_serve_failure *failure)
{
    sp_json_out_put(out, "{error:%s}", failure->sentence);
}

/* Writes a tool call, whose arguments are a JSON value; those that were cut off are an empty
 * object.
 */
static void write_call(struct sp_json_out *out, const struct sp_chat_call *call, size_t index)
{
    struct sp_json *arguments = NULL;

    (void)!sp_json_parse(&arguments, call->arguments, call->size, SP_JSON_LENIENT, NULL);
    sp_json_out_put(out, "{id:%s, function:{index:%zu, name:%s", call->id, index, call->name);
    if (arguments)
        sp_json_out_value(out, "arguments", arguments);
    else
        sp_json_out_written(out, "arguments", "{}", 2);
    sp_json_out_put(out, "}}");
    sp_json_free(arguments);
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

static void write_logprobs(struct sp_serve_response *r)
{
    if (!r->request->logprobs || r->n_tokens == 0) return;
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
    write_logprobs(r);
    sp_json_out_put(out,
                    "done:true, done_reason:%s, total_duration:%zu, load_duration:%zu, "
                    "prompt_eval_count:%zu, prompt_eval_duration:%zu, eval_count:%zu, "
                    "eval_duration:%zu, prompt_cached_count:%zu, draft_count:%zu, "
                    "draft_accepted_count:%zu}\n",
                    cut ? "length" : "stop", ns(r->seconds), ns(r->waited), result->n_prompt,
                    ns(result->prompt_seconds), result->n_ids,
                    ns(result->draft_seconds + result->verify_seconds + result->plain_seconds),
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
    write_logprobs(r);
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

const struct sp_serve_api sp_serve_ollama_chat = {
    .stream_type = "application/x-ndjson",
    .is_chat = true,
    .read = read_chat,
    .keep_alive = keep_alive,
    .part = write_part,
    .end = end,
    .whole = whole,
    .fail_stream = fail_stream,
    .fail = fail,
    .has_prompt = has_prompt,
    .write_load = write_load,
};

const struct sp_serve_api sp_serve_ollama_text = {
    .stream_type = "application/x-ndjson",
    .read = read_generate,
    .keep_alive = keep_alive,
    .part = write_part,
    .end = end,
    .whole = whole,
    .fail_stream = fail_stream,
    .fail = fail,
    .has_prompt = has_prompt,
    .write_load = write_load,
};
