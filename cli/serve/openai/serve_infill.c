#include "cli/serve/jobs/serve.h"
#include "cli/serve/openai/serve_openai.h"

static enum sp_status check_infill(const struct sp_serve_member *m, struct sp_err *err)
{
    return sp_serve_model_check_infill(m->request->model, "/infill", err);
}

/* Reads the length limit; 0 asks for the prompt alone, by which editors fill the cache. */
static enum sp_status read_n_predict(const struct sp_serve_member *m, struct sp_err *err)
{
    int64_t n = -1;

    m->request->prompt_only = sp_json_to_i64(m->value, &n) && n == 0;
    return m->request->prompt_only ? SP_OK : sp_serve_openai_read_limit(m, err);
}

static enum sp_status check_extra(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_json *unused;
    enum sp_status st;

    for (size_t i = 0; i < sp_json_len(m->value); i++) {
        const struct sp_json *at = sp_json_at(m->value, i);
        if (sp_json_kind(at) != SP_JSON_OBJECT || sp_json_get(at, "text") == NULL)
            return sp_fail(err, SP_E_INPUT, "input_extra[%zu]: expected an object with text", i);
        if ((st = sp_serve_read_kind(&unused, at, "text", SP_JSON_STRING, err)) ||
            (st = sp_serve_read_kind(&unused, at, "filename", SP_JSON_STRING, err))) {
            sp_context(err, "input_extra[%zu]", i);
            return st;
        }
    }
    return SP_OK;
}

/* Reads the text before the gap; must be called after the text behind it is read. */
static enum sp_status read_prefix(const struct sp_serve_member *m, struct sp_err *err)
{
    if (m->value == NULL || m->request->suffix == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s is missing",
                       m->value == NULL ? "input_prefix" : "input_suffix");
    }
    m->request->cut_prompt = true;
    return sp_serve_request_take_text(m->request, m->value, err);
}

static const struct sp_serve_field fields[] = {
    {.names = "cache_prompt"},
    {.read = check_infill},
    {.read = sp_serve_read_sampling},
    {"n_predict", .read = read_n_predict, .parameter = "num_predict"},
    {"stop", .read = sp_serve_read_stops},
    {"lora", SP_JSON_ARRAY, .read = sp_serve_openai_read_lora},
    {"input_suffix", SP_JSON_STRING, SP_SERVE_AT(suffix)},
    {"prompt", SP_JSON_STRING, SP_SERVE_AT(begun)},
    {"input_extra", SP_JSON_ARRAY, SP_SERVE_AT(extra), .read = check_extra},
    {"input_prefix", SP_JSON_STRING, .read = read_prefix, .always = true},
    {.key = NULL},
};

/* ---- answers ---- */

static void begin_object(struct sp_serve_response *r, const char *text, size_t size)
{
    sp_json_out_put(&r->out, "{index:0");
    sp_serve_write_fields(r, false);
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
    .fields = fields,
    .keep_alive = keep_alive,
    .part = part,
    .end = end,
    .whole = whole,
    .fail_stream = sp_serve_openai_fail_stream,
    .fail = sp_serve_openai_fail,
};
