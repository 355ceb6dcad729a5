#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"

static const struct sp_request_setting limits[] = {{"n_predict", "num_predict"}, {NULL, NULL}};
static const struct sp_request_setting no_limits[] = {{NULL, NULL}};

static enum sp_status read_extra(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *extra = NULL, *unused;
    enum sp_status st =
        sp_serve_read_kind(&extra, request->body, "input_extra", SP_JSON_ARRAY, err);

    if (st) return st;
    for (size_t i = 0; i < sp_json_len(extra); i++) {
        const struct sp_json *at = sp_json_at(extra, i);
        if (sp_json_kind(at) != SP_JSON_OBJECT || sp_json_get(at, "text") == NULL)
            return sp_fail(err, SP_E_INPUT, "input_extra[%zu]: expected an object with text", i);
        if ((st = sp_serve_read_kind(&unused, at, "text", SP_JSON_STRING, err)) ||
            (st = sp_serve_read_kind(&unused, at, "filename", SP_JSON_STRING, err))) {
            sp_context(err, "input_extra[%zu]", i);
            return st;
        }
    }
    request->extra = extra;
    return SP_OK;
}

/* Reads the length limit; 0 asks for the prompt alone, by which editors fill the cache. */
static enum sp_status read_settings(struct sp_serve_request *request, struct sp_err *err)
{
    int64_t n = -1;

    (void)sp_json_to_i64(sp_json_get(request->body, "n_predict"), &n);
    request->prompt_only = n == 0;
    return sp_serve_openai_read_settings(request, n == 0 ? no_limits : limits, err);
}

static enum sp_status read_infill(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *prefix = NULL;
    enum sp_status st;

    sp_serve_read_hints(request->body, "cache_prompt");
    if ((st = sp_serve_model_check_infill(request->model, "/infill", err))) return st;
    if ((st = read_settings(request, err))) return st;
    if ((st = sp_request_settings_read_stops(&request->settings, sp_json_get(request->body, "stop"),
                                             err)))
        return st;
    if ((st = sp_json_get_bool(request->body, "stream", &request->stream, err))) return st;
    if ((st = sp_serve_openai_read_lora(request, err))) return st;
    if ((st = sp_serve_read_kind(&prefix, request->body, "input_prefix", SP_JSON_STRING, err)))
        return st;
    if ((st = sp_serve_read_kind(&request->suffix, request->body, "input_suffix", SP_JSON_STRING,
                                 err)))
        return st;
    if ((st = sp_serve_read_kind(&request->begun, request->body, "prompt", SP_JSON_STRING, err)))
        return st;
    if ((st = read_extra(request, err))) return st;
    if (prefix == NULL || request->suffix == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s is missing",
                       prefix == NULL ? "input_prefix" : "input_suffix");
    }
    if ((st = sp_serve_request_take_prompts(request, 1, err))) return st;
    request->prompts[0].text = sp_json_to_string(prefix, &request->prompts[0].size);
    request->cut_prompt = true;
    return SP_OK;
}

/* ---- answers ---- */

static void begin_object(struct sp_serve_response *r, const char *text, size_t size)
{
    sp_json_out_put(&r->out, "{index:0");
    sp_json_out_string(&r->out, "content", size ? text : "", size);
}

static void write_end(struct sp_serve_response *r, const struct sp_result *result)
{
    const struct sp_settings *s = &r->request->settings;
    bool word = result->stop == SP_STOP_TEXT, limit = sp_serve_is_truncated(result);
    struct sp_json_out *out = &r->out;

    sp_json_out_put(out,
                    "stop:true, model:%s, stop_type:%s, stopping_word:%s, tokens_predicted:%zu, "
                    "tokens_evaluated:%zu, tokens_cached:%zu, truncated:false",
                    sp_serve_model_name(r->request),
                    word    ? "word"
                    : limit ? "limit"
                            : "eos",
                    word ? s->stops.at[result->stop_index] : "",
                    r->request->prompt_only ? 0 : result->n_ids, result->n_prompt,
                    result->n_reused);
    sp_serve_openai_write_timings(out, result);
}

static void keep_alive(struct sp_serve_response *r)
{
    sp_json_out_raw(&r->out, ": reading the prompt\n\n");
}

static void part(struct sp_serve_response *r, const struct sp_chat_part *p)
{
    sp_json_out_raw(&r->out, "data: ");
    begin_object(r, p->text, p->size);
    sp_json_out_bool(&r->out, "stop", false);
    sp_serve_end_event(r);
}

static void end(struct sp_serve_response *r, const struct sp_result *result)
{
    sp_json_out_raw(&r->out, "data: ");
    begin_object(r, "", 0);
    write_end(r, result);
    sp_serve_end_event(r);
}

static void whole(struct sp_serve_response *r, const struct sp_result *result)
{
    begin_object(r, r->message->content.at, r->message->content.len);
    write_end(r, result);
    sp_json_out_end(&r->out, '}');
    sp_json_out_raw(&r->out, "\n");
}

const struct sp_serve_api sp_serve_infill = {
    .stream_type = "text/event-stream",
    .read = read_infill,
    .keep_alive = keep_alive,
    .part = part,
    .end = end,
    .whole = whole,
    .fail_stream = sp_serve_openai_fail_stream,
    .fail = sp_serve_openai_fail,
};
