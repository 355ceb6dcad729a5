/* One job: from its prompt to the session's text, and that into the words of the API it was asked
 * in. Runs on the threads that generate. */
#include "cli/serve/serve_job.h"
#include "cli/serve/serve_logprobs.h"
#include "cli/serve/serve_prompt.h"
#include "format/base/clock.h"
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct answering {
    const struct sp_serve *serve;
    struct sp_serve_job *job;
    struct sp_request request;
    struct sp_serve_response response;
    struct sp_result result;
    struct sp_chat_format format; /* of the request's template */
    struct sp_chat_specials specials;
    struct sp_chat_parser *parser; /* NULL: all is content */
    struct sp_grammar *grammar;    /* of the answer with its thoughts and calls; NULL: the ask's */
    struct sp_message message;
    enum sp_status status;           /* a failure inside a callback */
    struct sp_serve_logprob *tokens; /* [n_tokens], with log-probabilities only */
    size_t n_tokens, cap_tokens;
    size_t n_sent; /* of these */
    size_t n_read,
        n_placed; /* tokens but for an ending one; of these, those of a part that is said */
    size_t n_bytes, n_shown; /* of all tokens; of all text */
    char *text;              /* of `reply.out` */
    size_t size;
    double sent_at;  /* the stream's head, or its last sign of life; 0: neither */
    bool sent;       /* all of the answer */
    bool call_begun; /* and told as it comes */
};

int sp_serve_status_of(enum sp_status st)
{
    switch (st) {
    case SP_E_USAGE:
    case SP_E_INPUT:
    case SP_E_UNSUPPORTED:
        return 400;
    default:
        return 500;
    }
}

bool sp_serve_is_truncated(const struct sp_result *result)
{
    return result->stop == SP_STOP_LENGTH || result->stop == SP_STOP_CONTEXT;
}

const char *sp_serve_id(char id[SP_SERVE_ID_SIZE], const char *prefix,
                        const struct sp_serve_response *r)
{
    snprintf(id, SP_SERVE_ID_SIZE, "%s%" PRIx64 "%09lx%" PRIx64, prefix, (uint64_t)r->began.tv_sec,
             (unsigned long)r->began.tv_nsec, r->number);
    return id;
}

/* Between the two the dialect writes. */
static bool open_out(struct answering *a)
{
    a->response.out = (struct sp_json_out){.file = open_memstream(&a->text, &a->size)};
    a->response.seconds = sp_seconds() - a->job->asked_at;
    return a->response.out.file != NULL;
}

static void send_out(struct answering *a)
{
    if (fclose(a->response.out.file) == 0) {
        sp_serve_queue_write(a->serve->queue, a->job, a->text, a->size);
    }
    free(a->text);
    a->text = NULL;
}

/* All that are kept. */
static void drop_tokens(struct answering *a)
{
    while (a->n_tokens > 0)
        sp_serve_logprob_release(&a->tokens[--a->n_tokens]);
}

/* A failure is the whole answer, or the end of a stream; the first one, where there are several
 * answers. */
static void fail(struct answering *a, int status, const char *sentence)
{
    const struct sp_serve_api *d = a->job->api;
    bool begun;

    if (!sp_serve_queue_claim_failure(a->serve->queue, a->job, &begun) || !open_out(a)) return;
    if (begun) {
        d->broken(&a->response, status, sentence);
    } else {
        d->fail(&a->response.out, status, sentence);
    }
    if (fclose(a->response.out.file) == 0) {
        sp_serve_queue_fail(a->serve->queue, a->job, status, a->text, a->size);
    }
    free(a->text);
    a->text = NULL;
}

static int look(const struct answering *a)
{
    return sp_serve_queue_is_abandoned(a->serve->queue, a->job);
}

/* Nothing is told while the prompt is read: now and then a stream says that it lives. */
static int on_prompt(void *context, size_t done, size_t total)
{
    static const double seconds = 5;
    struct answering *a = context;
    double now = sp_seconds();

    (void)done;
    (void)total;
    if (a->sent_at > 0 && a->job->api->wait && now - a->sent_at >= seconds && open_out(a)) {
        a->sent_at = now;
        a->job->api->wait(&a->response);
        send_out(a);
    }
    return look(a);
}

/* A token that ends the answer is no part of it. */
static bool is_end(const struct answering *a, uint32_t id)
{
    const struct sp_package_info *info = &a->serve->generation->info;

    for (size_t i = 0; i < a->request.n_end_ids; i++) {
        if (a->request.end_ids[i] == id) return true;
    }
    for (size_t i = 0; i < info->n_eos; i++) {
        if (info->eos[i] == id) return true;
    }
    return false;
}

static enum sp_status keep_token(struct answering *a, const struct sp_token *token)
{
    const struct sp_package *package = a->serve->generation->package;
    struct sp_serve_logprob *t;
    enum sp_status st = sp_grow(&a->tokens, &a->cap_tokens, a->n_tokens + 1, sizeof *t, NULL);

    if (st) return st;
    t = &a->tokens[a->n_tokens];
    if ((st = sp_serve_logprob_read(t, package, token))) return st;
    t->at = a->n_bytes;
    a->n_bytes += t->size;
    a->n_tokens++;
    return SP_OK;
}

static int on_token(void *context, const struct sp_token *token)
{
    struct answering *a = context;

    if (!is_end(a, token->id)) {
        a->n_read++;
        if (a->request.logprobs && keep_token(a, token)) return 1;
    }
    return look(a);
}

/* The tokens that go with the text so far: all there are, but for those of a stop text. */
static void choose_tokens(struct answering *a)
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

/* The tokens that were read since the last piece are those of this one's part. */
static void place_tokens(struct answering *a)
{
    a->message.parts[a->message.n_parts - 1].n_tokens += a->n_read - a->n_placed;
    a->n_placed = a->n_read;
}

/* Streams tell a piece, all answers keep it. A call that was told as it came is told. */
static void on_piece(void *context, const struct sp_chat_part *piece)
{
    struct answering *a = context;
    bool stream = a->job->request.stream, whole = piece->kind == SP_CHAT_TOOL_CALL,
         begun = piece->kind == SP_CHAT_TOOL_CALL_START;

    if (whole && a->call_begun) {
        a->call_begun = false;
        return;
    }
    a->call_begun = a->call_begun || begun;
    if (a->status || (a->status = sp_message_add(&a->message, piece, NULL))) return;
    place_tokens(a);
    if (!stream || !open_out(a)) return;
    choose_tokens(a);
    a->job->api->piece(&a->response, piece);
    send_out(a);
}

static int read_text(struct answering *a, const char *text, size_t size, bool special)
{
    const struct sp_chat_part content = {SP_CHAT_CONTENT, text, size, NULL};
    enum sp_status st = SP_OK;

    if (a->parser != NULL) {
        st = sp_chat_parser_feed(a->parser, text, size, special, NULL);
    } else if (size > 0) {
        on_piece(a, &content);
    }
    if (st) a->status = st;
    return a->status ? 1 : look(a);
}

static int on_text(void *context, const char *text, size_t size, bool drafted)
{
    struct answering *a = context;

    (void)drafted;
    a->n_shown += size;
    return read_text(a, text, size, false);
}

static int on_special(void *context, uint32_t id)
{
    struct answering *a = context;

    for (size_t i = 0; i < a->specials.n; i++) {
        const struct sp_chat_special *s = &a->specials.at[i];
        if (s->id == id) return read_text(a, s->text, strlen(s->text), true);
    }
    return look(a);
}

/* Where no calls are recognized there are not several. */
static bool holds_calls(const struct answering *a)
{
    const struct sp_serve_request *request = &a->job->request;

    if (request->tools == NULL) return false;
    return request->hold_calls ||
           (request->one_call && sp_chat_format_can_constrain_calls(&a->format));
}

/* Thoughts, and calls where there are tools to call, are told apart in an answer to this prompt;
 * content that is held to a form is not looked at for calls that are not held to theirs. */
static enum sp_status open_parser(struct answering *a, const char *prompt, size_t size,
                                  struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    const struct sp_tokenizer *tokenizer = a->serve->generation->package->tokenizer;
    bool calls = request->tools != NULL && (request->grammar == NULL || holds_calls(a));
    const struct sp_chat_parser_options reading = {
        .format = &a->format,
        .tools = calls ? request->tools : NULL,
        .in_reasoning = sp_chat_format_opens_reasoning(&a->format, prompt, size),
        .held = request->stream && holds_calls(a),
        .piece = on_piece,
        .context = a,
    };
    enum sp_status st = sp_chat_specials_find(&a->specials, &a->format, tokenizer, calls, err);

    return st ? st : sp_chat_parser_open(&a->parser, &reading, err);
}

/* A form and held calls begin behind the thoughts. */
static enum sp_status make_grammar(struct answering *a, const struct sp_generation *g,
                                   const char *prompt, size_t size, struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    struct sp_chat_grammar_options form = {
        .format = &a->format,
        .thinking = sp_reasoning_mode_of(&a->format, prompt, size,
                                         !request->is_think_set || request->think),
        .content = request->grammar,
        .tools = holds_calls(a) ? request->tools : NULL,
        .function = request->function,
        .must_call = request->must_call,
        .one_call = request->one_call,
    };
    enum sp_status st;

    if (form.tools == NULL && (request->grammar == NULL || form.thinking == SP_REASONING_NONE)) {
        return SP_OK;
    }
    st = sp_generation_grammar(&a->grammar, &form, g, &request->settings, err);
    if (st && form.tools) sp_context(err, request->must_call ? "tool_choice" : "tools");
    return st;
}

static enum sp_status read_answers_of(struct answering *a, const struct sp_generation *g,
                                      const char *prompt, size_t size, struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    enum sp_status st = SP_OK;

    a->format = g->conversation.answers;
    if (request->template != NULL) {
        st = sp_chat_format_learn(&a->format, request->template, g->package->tokenizer, err);
    }
    if (st) return st;
    if (request->begun.len > 0 && sp_chat_format_opens_reasoning(&a->format, prompt, size)) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "the last message is a partial answer, which a model that always reasons "
                       "first cannot continue");
    }
    if ((st = make_grammar(a, g, prompt, size, err))) return st;
    /* What is held to a form alone is content from its first byte. */
    return request->grammar && a->grammar == NULL ? SP_OK : open_parser(a, prompt, size, err);
}

/* The prompt, and what is to be known of its answer. */
static enum sp_status read_prompt(struct sp_serve_prompt *prompt, struct answering *a,
                                  struct sp_generation *g, struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    size_t which = a->response.answer / sp_serve_request_n_each(request);
    enum sp_status st = sp_serve_prompt_read(prompt, request, which, g, err);

    if (st || request->messages == NULL) return st;
    return read_answers_of(a, g, prompt->text, prompt->size, err);
}

/* Is the answer the first to its prompt? */
static bool is_first(const struct answering *a)
{
    return a->response.answer % sp_serve_request_n_each(&a->job->request) == 0;
}

static void describe(struct answering *a, const struct sp_serve_usage *usage)
{
    char text[SP_SERVE_USAGE_TEXT];

    sp_serve_queue_describe(a->serve->queue, a->job,
                            sp_serve_usage_describe(text, usage, a->job->n_answers, &a->result));
}

/* Of several answers the last one that ends. */
static void close_all(struct answering *a)
{
    struct sp_serve_job *job = a->job;

    a->response.usage = &job->usage;
    a->response.wholes = job->answers;
    a->response.n_answers = job->n_answers;
    describe(a, &job->usage);
    if (job->api->close == NULL || !open_out(a)) return;
    job->api->close(&a->response, &a->result);
    send_out(a);
}

/* The whole answer, which others may be put beside. */
static void tell_whole(struct answering *a)
{
    struct sp_strbuf *to = a->job->answers ? &a->job->answers[a->response.answer] : NULL;

    a->job->api->whole(&a->response, &a->result);
    if (to == NULL) {
        send_out(a);
        return;
    }
    fclose(a->response.out.file);
    *to = (struct sp_strbuf){.at = a->text, .len = a->size, .cap = a->size};
    a->text = NULL;
}

static void tell(struct answering *a)
{
    if (!open_out(a)) return;
    choose_tokens(a);
    if (a->job->request.stream) {
        a->job->api->end(&a->response, &a->result);
        send_out(a);
    } else {
        tell_whole(a);
    }
    a->sent = true;
    if (!sp_serve_queue_add(a->serve->queue, a->job, &a->result, &a->message, is_first(a))) return;
    close_all(a);
    sp_serve_queue_begin(a->serve->queue, a->job, NULL, 0);
}

/* The first answer to begin tells the heads of all, in their order: there are clients that take
 * them as they come for the first, the second, and so on. */
static void begin_stream(struct answering *a)
{
    const size_t answer = a->response.answer;

    if (!open_out(a)) return;
    for (size_t i = 0; i < a->job->n_answers; i++) {
        a->response.answer = i;
        a->job->api->begin(&a->response);
    }
    a->response.answer = answer;
    if (fclose(a->response.out.file) == 0) {
        sp_serve_queue_begin(a->serve->queue, a->job, a->text, a->size);
    }
    free(a->text);
    a->text = NULL;
    a->sent_at = sp_seconds();
}

static enum sp_status generate(struct answering *a, const struct sp_generation *g,
                               const struct sp_ids *ids, struct sp_err *err)
{
    const struct sp_serve_request *request = &a->job->request;
    struct sp_sampling sampling;
    uint32_t end_ids[SP_MAX_STOPS + 1], *special_ids;
    enum sp_status st;

    sp_generation_request(&a->request, &sampling, end_ids, g, &request->settings, ids);
    sampling.seed += a->response.answer % sp_serve_request_n_each(request);
    a->request.logprobs = request->logprobs;
    a->request.grammar = a->grammar ? a->grammar : request->grammar;
    a->request.n_top = request->n_top;
    a->request.context = a;
    a->request.prompt_progress = on_prompt;
    a->request.token = on_token;
    a->request.text = on_text;
    a->request.special = on_special;
    if ((st = sp_new(&special_ids, a->specials.n, sizeof *special_ids, err))) return st;
    for (size_t i = 0; i < a->specials.n; i++)
        special_ids[i] = a->specials.at[i].id;
    a->request.special_ids = special_ids;
    a->request.n_special_ids = a->specials.n;
    a->response.n_prompt = ids->n;
    a->response.n_reused = sp_session_match_prefix(g->session, ids->at, ids->n);
    if (request->stream) begin_stream(a);
    st = sp_session_generate(g->session, &a->request, &a->result, err);
    if (!st && a->parser != NULL && a->result.stop != SP_STOP_CANCELLED) {
        st = sp_chat_parser_finish(a->parser, err);
    }
    free(special_ids);
    if (!st && a->status) st = sp_fail(err, a->status, "out of memory for the answer");
    return st;
}

/* No answer: the server stops, the client has left, or `err` says why. */
static void give_up(struct answering *a, const struct sp_err *err)
{
    if (sp_serve_queue_is_stopped(a->serve->queue)) {
        fail(a, 503, "the server is shutting down");
    } else if (err->status != SP_OK && err->status != SP_E_CHECK) {
        fail(a, sp_serve_status_of(err->status), err->text);
    }
}

void sp_serve_job_run(const struct sp_serve *serve, struct sp_serve_job *job, size_t answer)
{
    struct answering a = {.serve = serve,
                          .job = job,
                          .response = {.serve = serve,
                                       .request = &job->request,
                                       .number = job->number,
                                       .answer = answer,
                                       .began = job->began}};
    struct sp_generation g = *serve->generation; /* but for the session */
    struct sp_serve_prompt prompt = {.text = NULL};
    struct sp_err err = {0};
    enum sp_status st;

    a.response.waited = sp_seconds() - job->asked_at;
    a.response.message = &a.message;
    a.message.key = ((uint64_t)a.response.began.tv_sec << 32) + (job->number << 16) + (answer << 8);
    if (look(&a)) goto done;
    pthread_mutex_lock(serve->reading);
    st = read_prompt(&prompt, &a, &g, &err);
    pthread_mutex_unlock(serve->reading);
    if (st) goto done;
    if ((st = sp_generation_check_context(&g, prompt.ids.n, &err))) {
        if (job->api->too_long) sp_context(&err, "%s", job->api->too_long);
        goto done;
    }
    g.session = sp_session_pool_take(serve->sessions, prompt.ids.at, prompt.ids.n);
    st = generate(&a, &g, &prompt.ids, &err);
    sp_session_pool_give(serve->sessions, g.session);
    if (st) goto done;
    if (a.result.stop != SP_STOP_CANCELLED) {
        tell(&a);
    } else if (job->n_answers == 1) {
        struct sp_serve_usage usage = {0};
        sp_serve_usage_add(&usage, &a.result, &a.message, true);
        describe(&a, &usage);
    }
done:
    if (!a.sent) give_up(&a, &err);
    drop_tokens(&a);
    free(a.tokens);
    sp_chat_parser_close(a.parser);
    sp_grammar_close(a.grammar);
    sp_chat_specials_release(&a.specials);
    sp_message_release(&a.message);
    sp_result_release(&a.result);
    sp_serve_prompt_release(&prompt);
}
