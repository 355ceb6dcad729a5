/* Runs one answer of a job on a generating thread: reads the prompt, generates, and writes the
 * text through the functions of the request's API. */
#include "cli/serve/jobs/serve.h"
#include "cli/base/out.h"
#include "cli/chat/loaded_model.h"
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct answer_run {
    const struct sp_serve *serve;
    struct sp_serve_job *job;
    struct sp_request request;
    struct sp_serve_response response;
    struct sp_result result;
    struct sp_session *session;
    struct sp_chat_reader *reader;
    struct sp_chat_answer message;
    struct sp_err failure;           /* inside a callback */
    struct sp_serve_logprob *tokens; /* [n_tokens] kept for log-probabilities only */
    size_t n_tokens, cap_tokens;
    size_t n_sent;                   /* tokens sent */
    size_t n_bytes, n_shown;         /* bytes of the kept tokens; bytes of the text received */
    struct sp_strbuf echo;           /* if the prompt is echoed: its text, then the answer's */
    struct sp_repetition repetition; /* of a greedy answer */
    double prompt_at;                /* time when the prompt began, by sp_seconds; 0: not yet */
    double token_at;                 /* time of the last token, by sp_seconds; 0: none came */
    double sent_at; /* time of the stream's head or last keep-alive; 0: none was sent */
    bool sent;      /* the whole answer was sent */
    bool too_long;  /* the prompt does not fit into the context */
};

/* Empties response.out for the API to write to. */
static void open_out(struct answer_run *a)
{
    a->response.out.text.len = 0;
    a->response.out.comma = false;
    a->response.seconds = sp_seconds() - a->job->arrived_at;
}

/* Sends what was written; `status` as in sp_serve_queue_write. */
static void send_out(struct answer_run *a, int status)
{
    sp_serve_queue_write(a->serve->queue, a->job, status, &a->response.out);
}

/* Sends a failure as the response or as the end of a stream. If several answers fail only the
 * first failure is sent. */
static void fail(struct answer_run *a, int status, const struct sp_err *why)
{
    const struct sp_serve_api *d = a->job->api;
    struct sp_serve_failure failure;
    bool started;

    if (!sp_serve_queue_claim_failure(a->serve->queue, a->job, why, &started)) return;
    if (a->too_long) a->job->request.fault.code = "context_length_exceeded";
    failure = sp_serve_failure_of(&a->job->request, status, why->text);
    open_out(a);
    if (started)
        d->fail_stream(&a->response, &failure);
    else if (d->fail)
        d->fail(&a->response.out, &failure);
    send_out(a, status);
}

static int is_abandoned(const struct answer_run *a)
{
    return sp_serve_queue_is_abandoned(a->serve->queue, a->job);
}

/* Begins the stream of an answer for which there is memory, unless it has begun. Sends the heads of
 * all answers, in their order, when the first answer starts: some clients number the answers by the
 * order in which the heads arrive. */
static void begin_stream(struct answer_run *a)
{
    const size_t answer = a->response.answer;

    if (!a->job->request.stream || a->sent_at > 0) return;
    open_out(a);
    for (size_t i = 0; i < a->job->n_answers; i++) {
        a->response.answer = i;
        if (a->job->api->begin) a->job->api->begin(&a->response);
    }
    a->response.answer = answer;
    send_out(a, 200);
    a->sent_at = sp_seconds();
}

/* Sends a keep-alive from time to time, since a stream has no other output during prompt
 * processing. The first call comes when the caches have memory for the prompt. */
static int on_prompt(void *context, size_t done, size_t total)
{
    struct answer_run *a = context;
    double now = sp_seconds(), seconds = a->job->request.return_progress ? 0 : 5;

    if (a->prompt_at <= 0) { /* what is cached is known, and how long the rest will take */
        a->prompt_at = now;
        a->response.n_reused = done;
        sp_serve_queue_tell(a->serve->queue, a->job, NULL,
                            sp_session_prompt_seconds(a->session, total - done));
    }
    a->response.n_processed = done;
    a->response.prompt_seconds = now - a->prompt_at;
    begin_stream(a);
    if (a->sent_at > 0 && now - a->sent_at >= seconds) {
        open_out(a);
        a->sent_at = now;
        a->job->api->keep_alive(&a->response);
        send_out(a, 0);
    }
    return is_abandoned(a);
}

/* True for a token that ends the answer, which is not part of it. */
static bool is_end(const struct answer_run *a, uint32_t id)
{
    const struct sp_package_info *info = &a->job->request.model->loaded->info;

    return sp_ids_have(a->request.end_ids, a->request.n_end_ids, id) ||
           sp_ids_have(info->eos, info->n_eos, id);
}

/* Takes memory for the log-probabilities of n tokens, and for their JSON. */
static enum sp_status take_memory(const struct sp_serve_request *request, size_t n,
                                  struct sp_err *err)
{
    enum { OF_TOKEN = 160, OF_ALTERNATIVE = 80 }; /* bytes */
    size_t of_token = OF_TOKEN + (size_t)request->n_top * OF_ALTERNATIVE;

    if (!request->logprobs || !request->take_memory) return SP_OK;
    return request->take_memory(request->memory, n * of_token, err);
}

static enum sp_status keep_token(struct answer_run *a, const struct sp_token *token)
{
    const struct sp_package *package = a->job->request.model->loaded->package;
    struct sp_err *err = &a->failure;
    struct sp_serve_logprob *t;
    enum sp_status st;

    if ((st = sp_grow(&a->tokens, &a->cap_tokens, a->n_tokens + 1, sizeof *t, err))) return st;
    t = &a->tokens[a->n_tokens];
    if ((st = sp_serve_logprob_read(t, package, token)))
        return sp_fail(err, st, "out of memory for log-probabilities");
    t->at = a->n_bytes;
    a->n_bytes += t->size;
    a->n_tokens++;
    return SP_OK;
}

static int on_token(void *context, const struct sp_token *token)
{
    struct answer_run *a = context;
    const size_t model = a->job->request.model->number;
    const bool first = a->token_at <= 0;
    double now = sp_seconds();

    sp_serve_metrics_token(a->serve->metrics, model, first,
                           now - (first ? a->job->arrived_at : a->token_at));
    a->token_at = now;
    if (first) a->response.first_token_seconds = now - a->job->arrived_at - a->response.waited;
    if (a->request.sampling->temperature <= 0) sp_repetition_add(&a->repetition, token->id);
    /* With the prompt's tokens come all of the answer, for clients that split them by number. */
    if (a->request.logprobs && (!is_end(a, token->id) || a->job->request.echo) &&
        (take_memory(&a->job->request, 1, &a->failure) || keep_token(a, token)))
        return 1;
    return is_abandoned(a);
}

/* Selects the tokens of the text to be sent now: all that were not sent yet, except those of a
 * matched stop text. */
static void choose_tokens(struct answer_run *a)
{
    size_t n = a->n_tokens;

    while (a->result.stop == SP_STOP_TEXT && n > a->n_sent && a->tokens[n - 1].at >= a->n_shown)
        n--;
    a->response.all_tokens = a->tokens;
    a->response.n_all_tokens = n;
    a->response.tokens = n > a->n_sent ? a->tokens + a->n_sent : NULL;
    a->response.n_tokens = n - a->n_sent;
    a->n_sent = n;
}

/* Sends a part of the answer if the response is a stream. */
static int on_part(void *context, const struct sp_chat_part *part)
{
    struct answer_run *a = context;

    sp_chat_reader_answer(a->reader, &a->message);
    if (!a->job->request.stream) return 0;
    open_out(a);
    choose_tokens(a);
    a->job->api->part(&a->response, part);
    send_out(a, 0);
    return 0;
}

static int on_text(void *context, const char *text, size_t size, bool drafted)
{
    struct answer_run *a = context;

    (void)text;
    a->response.is_drafted = drafted;
    a->n_shown += size;
    return is_abandoned(a);
}

/* Completes the response after the last of its answers has ended. */
static void close_all(struct answer_run *a)
{
    struct sp_serve_job *job = a->job;

    a->response.usage = &job->usage;
    a->response.outputs = job->answers;
    a->response.n_answers = job->n_answers;
    sp_serve_queue_describe(a->serve->queue, job, &job->usage, &a->result, a->serve->log_json);
    if (job->api->close == NULL) return;
    open_out(a);
    job->api->close(&a->response, &a->result);
    send_out(a, 0);
}

/* Sends the whole answer, or stores its output where the API combines several answers. */
static void send_whole(struct answer_run *a)
{
    struct sp_strbuf *to = a->job->answers ? &a->job->answers[a->response.answer] : NULL;

    a->job->api->whole(&a->response, &a->result);
    if (to == NULL || a->response.out.no_memory) {
        send_out(a, 0);
    } else {
        *to = a->response.out.text;
        a->response.out.text = (struct sp_strbuf){0};
    }
}

static void finish(struct answer_run *a)
{
    open_out(a);
    choose_tokens(a);
    if (a->job->request.stream) {
        a->job->api->end(&a->response, &a->result);
        send_out(a, 0);
    } else {
        send_whole(a);
    }
    a->sent = true;
    if (!sp_serve_queue_add(a->serve->queue, a->job, &a->result, &a->message,
                            a->response.answer % sp_serve_request_n_each(&a->job->request) == 0,
                            a->repetition.period))
        return;
    close_all(a);
    open_out(a);
    send_out(a, 200);
}

static enum sp_status open_reader(struct answer_run *a, const struct sp_chat_prompt *prompt,
                                  struct sp_err *err)
{
    const struct timespec *began = &a->response.began;
    const struct sp_chat_reader_options options = {
        .size = sizeof options,
        .stream_calls = a->job->request.stream,
        .call_id_seed =
            ((uint64_t)began->tv_sec << 32) + (a->job->number << 16) + (a->response.answer << 8),
        .part = on_part,
        .context = a,
    };
    enum sp_status st = sp_chat_reader_open(&a->reader, prompt, &options, err);

    if (!st) sp_chat_reader_answer(a->reader, &a->message);
    return st;
}

/* ---- the prompt as part of the answer ---- */

static int on_prompt_token(void *context, size_t index, const struct sp_token *token)
{
    struct answer_run *a = context;

    (void)index;
    return keep_token(a, token) ? 1 : is_abandoned(a);
}

/* Finds the text of the prompt: that of the request, or of its token ids. */
static enum sp_status read_echo(struct answer_run *a, const struct sp_serve_prompt *prompt,
                                struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    const struct sp_serve_raw_prompt *from =
        &request->prompts[a->response.answer / sp_serve_request_n_each(request)];
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    if (from->text) return sp_strbuf_append(&a->echo, from->text, from->size, err);
    st = sp_tokenizer_decode(sp_package_tokenizer(request->model->loaded->package), prompt->ids,
                             prompt->n_ids, false, &text, &size, err);
    if (!st) st = sp_strbuf_append(&a->echo, text, size, err);
    free(text);
    return st;
}

/* Sends the prompt as the first part of the answer, with the log-probabilities of its tokens. */
static enum sp_status echo_prompt(struct answer_run *a, struct sp_session *session,
                                  const struct sp_serve_prompt *prompt, struct sp_err *err)
{
    const struct sp_token first = {.id = prompt->ids[0], .logprob = NAN};
    enum sp_status st = read_echo(a, prompt, err);

    if (!st && a->request.logprobs && !(st = keep_token(a, &first))) {
        st = sp_session_logprobs(session, prompt->ids, prompt->n_ids, a->request.n_top,
                                 on_prompt_token, a, err);
    }
    if (a->failure.status) *err = a->failure; /* the callback stopped with it */
    if (st) return st;
    a->n_shown = a->n_bytes;
    a->response.echo = &a->echo;
    if (a->job->request.stream) {
        const struct sp_chat_part part = {SP_CHAT_CONTENT, a->echo.len ? a->echo.at : "",
                                          a->echo.len, NULL};
        begin_stream(a);
        on_part(a, &part);
    }
    return SP_OK;
}

static enum sp_status generate(struct answer_run *a, const struct sp_loaded_model *loaded,
                               const struct sp_serve_prompt *prompt, struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    uint32_t end_ids[SP_MAX_STOPS + SP_INFILL_MAX_ENDS];
    enum sp_status st;

    if ((st = open_reader(a, prompt->rendered, err))) return st;
    sp_loaded_model_request(&a->request, &sampling, end_ids, loaded, &request->settings,
                            &prompt->raw);
    if (request->suffix && request->n_prompts) {
        memcpy(end_ids + a->request.n_end_ids, loaded->infill.ends,
               loaded->infill.n_ends * sizeof *loaded->infill.ends);
        a->request.n_end_ids += loaded->infill.n_ends;
    }
    if (request->prompt_only) a->request.max_tokens = 1;
    if (request->ignore_eos) a->request.ignore_eos = true;
    a->request.min_tokens = (size_t)request->min_tokens;
    if (request->grammar) a->request.grammar = request->grammar;
    if (prompt->rendered) sp_chat_prompt_apply(prompt->rendered, &a->request);
    sampling.seed += a->response.answer % sp_serve_request_n_each(request);
    a->response.seed = sampling.seed;
    a->request.logprobs = request->logprobs;
    a->request.n_top = (unsigned)request->n_top;
    a->request.context = a;
    a->session = loaded->session;
    a->request.prompt_progress = on_prompt;
    a->request.token = on_token;
    a->request.text = on_text;
    a->request.reader = request->prompt_only ? NULL : a->reader;
    a->response.n_prompt = prompt->n_ids;
    a->response.n_reused = sp_session_match_prefix(loaded->session, prompt->ids, prompt->n_ids);
    if (request->echo && (st = echo_prompt(a, loaded->session, prompt, err))) return st;
    if (request->echo && request->prompt_only) {
        a->result.stop = SP_STOP_LENGTH;
        a->result.n_prompt = prompt->n_ids;
        return SP_OK;
    }
    st = sp_session_generate(loaded->session, &a->request, &a->result, err);
    if (!st) a->response.n_reused = a->result.n_reused;
    if (!st && a->failure.status) st = sp_fail_as(err, &a->failure);
    if (!st) st = sp_loaded_model_record(loaded, &a->request, &a->result, err);
    if (!st && request->echo)
        st = sp_strbuf_append(&a->echo, a->result.text, a->result.text_size, err);
    sp_chat_reader_answer(a->reader, &a->message);
    return st;
}

/* Reports why there is no answer: the server stops, or `err` describes a failure. Nothing is
 * reported to a client that has gone. */
static void report_failure(struct answer_run *a, struct sp_err *err)
{
    static const struct sp_err stopped = {.status = SP_E_CANCELLED,
                                          .text = "the server is shutting down"};

    sp_advise(err);
    if (sp_serve_queue_is_abandoned(a->serve->queue, NULL))
        fail(a, 503, &stopped);
    else if (err->status != SP_OK && err->status != SP_E_CANCELLED)
        fail(a, sp_serve_status_of(err->status), err);
}

/* A prompt that --memory cannot hold even alone is refused for good. */
static enum sp_status check_memory(const struct sp_serve *serve,
                                   const struct sp_loaded_model *loaded, size_t n,
                                   struct sp_err *err)
{
    size_t want = sp_session_cache_memory_for(loaded->session, n);

    if (serve->cache_limit == 0 || want <= serve->cache_limit) return SP_OK;
    return sp_fail(err, SP_E_USAGE,
                   "the KV caches for a prompt of %zu tokens need %.1f MB, and --memory is %.1f MB",
                   n, (double)want / 1e6, (double)serve->cache_limit / 1e6);
}

/* Takes a session, which gets the adapter of the request. */
static struct sp_session *take_session(const struct sp_serve_request *request,
                                       const struct sp_serve_prompt *prompt)
{
    const struct sp_serve_model *model = request->model;
    const struct sp_lora *lora = request->lora;
    float scale = lora ? request->lora_scale : 1;

    if (lora == NULL) lora = sp_serve_model_lora(model, sp_json_get_text(request->body, "model"));
    return sp_session_pool_take(model->sessions, lora, scale, prompt->ids, prompt->n_ids);
}

void sp_serve_answer_run(const struct sp_serve *serve, struct sp_serve_job *job, size_t answer)
{
    struct answer_run a = {.serve = serve,
                           .job = job,
                           .result = SP_RESULT_INIT,
                           .message = SP_CHAT_ANSWER_INIT,
                           .response = {.serve = serve,
                                        .request = &job->request,
                                        .api = job->api,
                                        .number = job->number,
                                        .answer = answer,
                                        .began = job->began}};
    const struct sp_serve_model *model = job->request.model;
    struct sp_loaded_model loaded = *model->loaded; /* the session is replaced below */
    struct sp_serve_prompt prompt = {.n_ids = 0};
    size_t which = answer / sp_serve_request_n_each(&job->request);
    struct sp_err err = {0};
    enum sp_status st;

    a.response.waited = sp_seconds() - job->arrived_at;
    a.response.message = &a.message;
    if (is_abandoned(&a)) goto done;
    st = sp_serve_prompt_read(&prompt, serve, &job->request, which, &err);
    if (!st) st = sp_loaded_model_check_context(&loaded, prompt.n_ids, &err);
    if (!st) st = check_memory(serve, &loaded, prompt.n_ids, &err);
    if (!st && job->request.echo) st = take_memory(&job->request, prompt.n_ids, &err);
    if (st) {
        a.too_long = st == SP_E_USAGE;
        if (a.too_long && job->api->too_long) sp_context(&err, "%s", job->api->too_long);
        goto done;
    }
    a.response.rendered = prompt.rendered;
    if (prompt.rendered) {
        struct sp_chat_prompt_info info = SP_CHAT_PROMPT_INFO_INIT;
        sp_chat_prompt_describe(prompt.rendered, &info);
        sp_serve_queue_tell(serve->queue, job, info.changes, 0);
    }
    loaded.session = take_session(&job->request, &prompt);
    st = generate(&a, &loaded, &prompt, &err);
    sp_session_pool_give(model->sessions, loaded.session);
    if (st) goto done;
    sp_serve_metrics_answer(serve->metrics, model->number, &a.result,
                            sp_seconds() - job->arrived_at);
    if (a.result.stop != SP_STOP_CANCELLED) {
        finish(&a);
    } else if (job->n_answers == 1) {
        struct sp_serve_usage usage = {0};
        sp_serve_usage_add(&usage, &a.result, &a.message, true, a.repetition.period);
        sp_serve_queue_describe(serve->queue, job, &usage, &a.result, serve->log_json);
    }
done:
    if (!a.sent) report_failure(&a, &err);
    while (a.n_tokens > 0)
        sp_serve_logprob_release(&a.tokens[--a.n_tokens]);
    sp_strbuf_release(&a.response.out.text);
    sp_strbuf_release(&a.echo);
    free(a.tokens);
    sp_chat_reader_close(a.reader);
    sp_result_release(&a.result);
    sp_serve_prompt_release(&prompt);
}
