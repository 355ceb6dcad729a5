/* A line becomes a job of the queue that the server has, too: a prompt by the reader and the writer
 * of this file, a request by those of its API. */
#include "cli/serve/batch.h"
#include "cli/base/out.h"
#include "format/base/affix.h"
#include "format/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool sp_batch_is_line_error(enum sp_status st)
{
    return st == SP_E_USAGE || st == SP_E_INPUT || st == SP_E_UNSUPPORTED || st == SP_E_NOMEM;
}

static bool begins_value(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && strchr(" \t\r", text[i]) != NULL)
        i++;
    return i < size && (text[i] == '"' || text[i] == '[' || text[i] == '{');
}

enum sp_status sp_batch_line_parse(struct sp_batch_line *line, const char *text, size_t size,
                                   struct sp_err *err)
{
    enum sp_status st;

    if (!begins_value(text, size)) {
        return sp_fail(err, SP_E_INPUT,
                       "expected a string in quotes, an array of token IDs or an object, in JSON");
    }
    if ((st = sp_json_parse(&line->json, text, size, SP_JSON_STRICT, err))) return st;
    return sp_json_get_string(line->json, "custom_id", &line->custom_id, err);
}

/* ---- prompts ---- */

/* Checks that all members are known, since a misspelt member would silently change nothing. */
static enum sp_status check_members(const struct sp_serve_member *line, struct sp_err *err)
{
    static const char known[] = "custom_id prompt messages think format stop dry_sequence_breakers";
    struct sp_json_iter it = {0};

    while (sp_json_next(line->object, &it)) {
        enum sp_setting_kind kind = sp_settings_kind(it.key);
        const bool is_request = sp_is_among(it.key, "model max_tokens max_completion_tokens");
        if (kind == SP_SETTING_SAMPLING || kind == SP_SETTING_LENGTH || sp_is_among(it.key, known))
            continue;
        return sp_fail(err, SP_E_INPUT, "unknown member %s%s", it.key,
                       strcmp(it.key, "id") == 0 ? ", did you mean custom_id?"
                       : is_request ? "; the body of a request stands in a member body, beside "
                                      "custom_id, method and url"
                                    : "");
    }
    if (sp_json_get(line->object, "prompt") && sp_json_get(line->object, "messages"))
        return sp_fail(err, SP_E_INPUT, "prompt and messages cannot be combined");
    return SP_OK;
}

/* Reads the member think, or takes what --think says. */
static enum sp_status read_thinking(const struct sp_serve_member *m, struct sp_err *err)
{
    struct sp_serve_request *r = m->request;
    const struct sp_conversation *c = r->conversation;
    const char *word = sp_json_to_string(m->value, NULL), *level = c->thinking.level;
    struct sp_thinking own = c->thinking;
    bool on;
    enum sp_status st;

    if (m->value && c->template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "think requires a chat template");
    if (m->value) {
        if (sp_json_to_bool(m->value, &on)) word = on ? "true" : "false";
        if (word == NULL) return sp_fail(err, SP_E_INPUT, "think: expected true, false or a level");
        if ((st = sp_thinking_read(&own, word, &c->chat_info, err))) return st;
        level = word;
    }
    r->is_think_set = own.mode != SP_THINK_DEFAULT;
    r->think = own.mode == SP_THINK_ON;
    r->think_level = *own.level ? level : NULL;
    return SP_OK;
}

static enum sp_status check_message(const struct sp_json *message, struct sp_err *err)
{
    size_t size;
    const char *role = sp_json_get_text(message, "role");
    const char *text = sp_json_to_string(sp_json_get(message, "content"), &size);

    if (role == NULL || text == NULL || sp_json_len(message) != 2) {
        return sp_fail(err, SP_E_INPUT,
                       "a message is not an object with a role and a content, both strings");
    }
    if (memchr(text, '\0', size) != NULL)
        return sp_fail(err, SP_E_INPUT, "a message contains a NUL");
    if (sp_is_among(role, "system user assistant")) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "role %s: expected system, user or assistant", role);
}

static enum sp_status read_messages(struct sp_serve_request *r, const struct sp_json *messages,
                                    struct sp_err *err)
{
    const size_t n = sp_json_len(messages);
    enum sp_status st;

    if (r->conversation->template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "messages require a chat template");
    if (sp_json_kind(messages) != SP_JSON_ARRAY || n == 0)
        return sp_fail(err, SP_E_INPUT, "messages is not an array");
    for (size_t i = 0; i < n; i++) {
        if ((st = check_message(sp_json_at(messages, i), err))) {
            sp_context(err, "messages[%zu]", i);
            return st;
        }
    }
    return sp_serve_set_messages(r, messages, n, err);
}

/* Reads the prompt: a text, token IDs, or a conversation. */
static enum sp_status read_prompt(const struct sp_serve_member *line, struct sp_err *err)
{
    struct sp_serve_request *r = line->request;
    const struct sp_json *messages = sp_json_get(r->body, "messages"), *prompt = r->body;
    const char *text;
    size_t size;
    enum sp_status st;

    r->now = &r->conversation->now;
    if (messages) return read_messages(r, messages, err);
    if (sp_json_kind(prompt) == SP_JSON_OBJECT) prompt = sp_json_get(prompt, "prompt");
    text = sp_json_to_string(prompt, &size);
    if (text == NULL && sp_json_kind(prompt) != SP_JSON_ARRAY) {
        return sp_fail(
            err, SP_E_INPUT,
            "expected a string, an array of token IDs, or an object with prompt or messages");
    }
    if (text ? size == 0 : sp_json_len(prompt) == 0)
        return sp_fail(err, SP_E_INPUT, "the prompt is empty");
    if (text && r->conversation->template) {
        if (memchr(text, '\0', size) != NULL)
            return sp_fail(err, SP_E_INPUT, "the prompt contains a NUL, which only --raw accepts");
        return sp_serve_read_prompt(r, NULL, prompt, err);
    }
    if (text) return sp_serve_request_take_text(r, prompt, err);
    if ((st = sp_serve_request_take_prompts(r, 1, err))) return st;
    r->chat_ids = r->conversation->chat != NULL;
    return sp_ids_of_json(&r->prompts[0].ids, prompt, err);
}

static enum sp_status read_format(const struct sp_serve_member *m, struct sp_err *err)
{
    if (m->request->model->loaded->ignore_eos)
        return sp_fail(err, SP_E_USAGE, "format cannot be combined with --ignore-eos");
    return sp_response_format_of_json(&m->request->grammar, m->value, NULL, err);
}

static enum sp_status read_budget(const struct sp_serve_member *m, struct sp_err *err)
{
    if (m->request->conversation->template) return sp_serve_read_reasoning_budget(m, err);
    return sp_fail(err, SP_E_UNSUPPORTED, "reasoning_budget requires a chat template");
}

static const struct sp_serve_field fields[] = {
    {.read = check_members},
    {.read = sp_serve_read_sampling},
    {.read = sp_serve_read_lengths},
    {"stop", .read = sp_serve_read_stops},
    {"format", .read = read_format},
    {"think", .read = read_thinking, .always = true},
    {"reasoning_budget", .read = read_budget},
    {.read = read_prompt},
    {.key = NULL},
};

/* Writes the answer as `run --json` prints it last. */
static void write_answer(struct sp_serve_response *r, const struct sp_result *result)
{
    const struct sp_loaded_model *m = r->request->model->loaded;
    const bool separates =
        r->rendered && sp_conversation_separates_reasoning(&m->conversation, r->rendered);
    struct sp_console_style style = m->style;

    style.custom_id = sp_json_get_text(r->request->body, "custom_id");
    style.first_token_seconds = r->first_token_seconds;
    sp_console_write_json(&r->out, result, separates ? r->message : NULL, &m->info, r->seed,
                          &style);
}

static const struct sp_serve_api prompt_api = {.fields = fields, .whole = write_answer};

/* ---- requests ---- */

/* Finds the API of OpenAI's line. */
static enum sp_status find_api(const struct sp_serve_api **api, const struct sp_json *line,
                               struct sp_err *err)
{
    static const struct {
        const char *url;
        const struct sp_serve_api *api;
    } apis[] = {{"/v1/chat/completions", &sp_serve_openai_chat},
                {"/v1/completions", &sp_serve_openai_text},
                {"/v1/responses", &sp_serve_responses}};
    const char *method = sp_json_get_text(line, "method"), *url = sp_json_get_text(line, "url");

    if (method == NULL || strcmp(method, "POST") != 0)
        return sp_fail(err, SP_E_INPUT, "method: expected \"POST\"");
    for (size_t i = 0; url && i < sizeof apis / sizeof *apis; i++) {
        if (strcmp(url, apis[i].url) != 0) continue;
        *api = apis[i].api;
        return SP_OK;
    }
    return sp_fail(err, SP_E_INPUT,
                   "url: expected /v1/chat/completions, /v1/completions or /v1/responses");
}

/* Reads the request that a line describes, without the members of its body. */
static enum sp_status find_request(struct sp_batch_line *line, const struct sp_batch_server *b,
                                   struct sp_err *err)
{
    const char *key = line->is_anthropic ? "params" : "body";
    const struct sp_json *body = sp_json_get(line->json, key);
    bool stream = false;
    enum sp_status st;

    if (line->custom_id == NULL) return sp_fail(err, SP_E_INPUT, "custom_id is missing");
    line->job.api = &sp_serve_anthropic;
    if (line->is_openai && (st = find_api(&line->job.api, line->json, err))) return st;
    if (sp_json_kind(body) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "%s: expected an object", key);
    if (sp_json_to_bool(sp_json_get(body, "stream"), &stream) && stream)
        return sp_fail(err, SP_E_INPUT, "stream: a batch cannot be streamed");
    if (!b->model.loaded->info.has_tokenizer)
        return sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer", b->model.given);
    if (b->refused)
        return sp_fail(err, SP_E_USAGE, "%s has no effect on requests of this API", b->refused);
    line->job.request.body = (struct sp_json *)(uintptr_t)body;
    return SP_OK;
}

/* Writes the failure of a request that has no job as its response. */
static void refuse(struct sp_serve_job *job, const struct sp_err *err)
{
    const struct sp_serve_failure failure =
        sp_serve_failure_of(&job->request, sp_serve_status_of(err->status), err->text);
    struct sp_json_out out = {.comma = false};

    job->api->fail(&out, &failure);
    if (out.no_memory)
        sp_strbuf_release(&out.text);
    else
        job->status = failure.status;
    job->out = out.text;
}

/* Writes the sentence as OpenAI's or Anthropic's error of a line without a response. */
static void write_line_error(struct sp_json_out *out, bool anthropic, const char *sentence)
{
    if (anthropic)
        sp_json_out_put(out, "result:{type:'errored', error:{type:'error'");
    else
        sp_json_out_text(out, "response", NULL);
    sp_json_out_begin(out, "error", '{');
    sp_json_out_text(out, anthropic ? "type" : "code",
                     anthropic ? "invalid_request_error" : "invalid_request");
    sp_json_out_put(out, "message:%s}", sentence);
    if (anthropic) sp_json_out_put(out, "}}");
}

/* Writes the response to a request. err: why it failed, or SP_OK */
static void write_response(struct sp_json_out *out, const struct sp_batch_server *b,
                           const struct sp_batch_line *line, const struct sp_err *err)
{
    const int status = line->job.status;
    const struct sp_strbuf *body = &line->job.out;
    char id[SP_SERVE_ID_SIZE];
    size_t len = body->len;

    snprintf(id, sizeof id, "batch_req_%" PRIx64 "%08zx", b->began_at, line->number);
    while (len > 0 && body->at[len - 1] == '\n') /* the line goes on after it */
        len--;
    sp_json_out_begin(out, NULL, '{');
    if (line->is_openai) sp_json_out_text(out, "id", id);
    sp_json_out_text(out, "custom_id", line->custom_id);
    if (status == 0) {
        write_line_error(out, line->is_anthropic, err->text);
    } else if (line->is_anthropic) {
        sp_json_out_put(out, "result:{type:%s", status == 200 ? "succeeded" : "errored");
        sp_json_out_written(out, status == 200 ? "message" : "error", body->at, len);
        sp_json_out_end(out, '}');
    } else {
        sp_json_out_put(out, "response:{status_code:%zu, request_id:%s", (size_t)status,
                        id + strlen("batch_"));
        sp_json_out_written(out, "body", body->at, len);
        sp_json_out_put(out, "}, error:null");
    }
    sp_json_out_end_line(out);
}

/* ---- all lines ---- */

static enum sp_status begin(struct sp_batch_server *b, struct sp_batch_line *line, const char *text,
                            size_t size, struct sp_err *err)
{
    struct sp_serve_job *job = &line->job;
    const char *model = NULL; /* any name is taken */
    enum sp_status st = sp_batch_line_parse(line, text, size, err);
    bool is_request;

    line->is_anthropic = sp_json_has(line->json, "params");
    line->is_openai =
        !line->is_anthropic && (sp_json_has(line->json, "body") || sp_json_has(line->json, "url") ||
                                sp_json_has(line->json, "method"));
    *job = (struct sp_serve_job){.api = &prompt_api,
                                 .request = {.model = &b->model, .body = line->json},
                                 .arrived_at = sp_seconds()};
    if (st) return st;
    is_request = line->is_openai || line->is_anthropic;
    if (is_request && (st = find_request(line, b, err))) return st;
    if ((is_request && (st = sp_json_get_string(job->request.body, "model", &model, err))) ||
        (st = sp_serve_job_read(job, err))) {
        if (job->api->fail) refuse(job, err);
        return st;
    }
    if (sp_serve_queue_put(b->serve.queue, job) == SP_SERVE_IN) return SP_OK;
    return sp_fail(err, SP_E_CANCELLED, "interrupted");
}

void sp_batch_line_begin(struct sp_batch_server *b, struct sp_batch_line *line, const char *text,
                         size_t size)
{
    line->size = size;
    (void)!begin(b, line, text, size, &line->err);
}

/* Waits for the job of a line. */
static enum sp_status wait_for(struct sp_batch_server *b, struct sp_batch_line *line,
                               struct sp_err *err)
{
    const struct sp_serve_job *job = &line->job;

    if (line->err.status) return sp_fail_as(err, &line->err);
    if (!sp_serve_queue_wait(b->serve.queue, &line->job, true))
        return sp_fail(err, SP_E_CANCELLED, "interrupted");
    if (job->failure.status) return sp_fail_as(err, &job->failure);
    return job->out.len ? SP_OK : sp_fail(err, SP_E_NOMEM, "out of memory for an answer");
}

enum sp_status sp_batch_line_end(struct sp_json_out *out, struct sp_batch_server *b,
                                 struct sp_batch_line *line, struct sp_err *err)
{
    enum sp_status st = wait_for(b, line, err);

    if (line->is_openai || line->is_anthropic) {
        if (st == SP_E_CANCELLED) return st;
        if (st && line->job.status) {
            sp_context(err, "status %d", line->job.status);
            st = err->status = SP_E_INPUT;
        }
        sp_context(err, "line %zu", line->number);
        write_response(out, b, line, err);
    } else if (st == SP_OK) {
        sp_json_out_bytes(out, line->job.out.at, line->job.out.len);
    } else if (sp_batch_is_line_error(st)) {
        sp_context(err, "line %zu", line->number);
        sp_advise(err);
        sp_json_out_begin(out, NULL, '{');
        if (line->custom_id) sp_json_out_text(out, "custom_id", line->custom_id);
        sp_json_out_put(out, "error:%s}\n", err->text);
    }
    return st;
}

void sp_batch_line_free(struct sp_batch_server *b, struct sp_batch_line *line)
{
    if (line->err.status == SP_OK) sp_serve_queue_leave(b->serve.queue, &line->job);
    line->job.request.body = NULL; /* is a part of line->json */
    sp_serve_job_release(&line->job);
    sp_json_free(line->json);
    free(line);
}
