#include "cli/verify_prompts.h"
#include "cli/chat/conversation.h"
#include "cli/chat/response_format.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"

#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char built_in_prompt[] = "Once upon a time";

enum { N_MODES = SP_REFERENCE_CHECKED + 1 };

/* A comparison: its options, the open packages, and the progress of a prompt, which several threads
 * count. */
struct check {
    const struct sp_verify_options *options;
    const char *path;
    struct sp_package *package;
    struct sp_package *references[N_MODES]; /* with --reference: one for each mode */
    struct sp_package_info info;
    struct sp_grammar *grammar; /* constrains the text; NULL: no constraint */
    struct sp_progress progress;
    pthread_mutex_t progress_lock;
    uint64_t n_done, n_total; /* tokens */
    struct sp_err *err;
};

/* ---- the reference ---- */

static enum sp_status open_reference(struct check *c)
{
    enum sp_status st = SP_OK;

    for (unsigned mode = 0; mode < N_MODES && !st; mode++)
        st = sp_backend_open_reference(&c->references[mode], c->path, (enum sp_reference_mode)mode,
                                       c->err);
    return st;
}

static void print_reference_json(const struct sp_reference_check *r, size_t prompt)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_put(&out,
                    "{prompt:%zu, tokens:%zu, error:%g, rounding_error:%g, product_error:%g, "
                    "kl:%g",
                    prompt, r->n_rows, r->error, r->rounding_error, r->product_error,
                    r->divergence);
    if (r->differs) {
        sp_json_out_put(&out, "first_different:%zu, token:%u, reference_token:%u",
                        r->first_different, r->token, r->reference_token);
    }
    sp_json_out_end_line(&out);
}

static void print_reference(const struct sp_reference_check *r, const char *kv_type, size_t prompt)
{
    char different[96] = "every token is the reference's";

    if (r->differs) {
        snprintf(different, sizeof different, "token %zu is %u, the reference's is %u",
                 r->first_different, r->token, r->reference_token);
    }
    sp_word_wrap_print(
        stdout, 0,
        "prompt %zu: %zu token%s: relative error of the logits %.1e, of which "
        "activations in 8 bits and the %s cache %.1e; KL divergence %.1e; %s; error of "
        "the products %.1e",
        prompt, r->n_rows, r->n_rows == 1 ? "" : "s", r->error, kv_type, r->rounding_error,
        r->divergence, different, r->product_error);
}

static enum sp_status judge_reference(const struct sp_reference_check *r, size_t prompt,
                                      struct sp_err *err)
{
    if (!r->products_agree) {
        return sp_fail(
            err, SP_E_CHECK,
            "prompt %zu: a product of the scalar kernels differs from that of OpenBLAS by "
            "%.1e, more than rounding explains",
            prompt, r->product_error);
    }
    if (r->n_equal == r->n_rows) return SP_OK;
    return sp_fail(err, SP_E_CHECK,
                   "prompt %zu: the logits of token %zu have other bits than with scalar kernels",
                   prompt, r->n_equal);
}

static int show_reference_progress(void *context, size_t done, size_t total)
{
    sp_progress_show(context, done, total);
    return sp_signals_caught();
}

/* Compares the logits that chose the ids of `answer`, and prints a line. SP_E_CHECK: a
 * kernel computes something else. */
static enum sp_status check_reference(const struct check *c, const struct sp_ids *ids,
                                      const struct sp_result *answer, size_t prompt)
{
    const struct sp_backend_opts *backend = &c->options->backend;
    struct sp_reference_check check = SP_REFERENCE_CHECK_INIT;
    struct sp_progress progress;
    struct sp_ids all = {0};
    char label[48];
    enum sp_status st;

    /* the prompt and what was generated, without the last token */
    if ((st = sp_ids_append(&all, ids->at, ids->n, c->err)) ||
        (st = sp_ids_append(&all, answer->ids, answer->n_ids, c->err))) {
        sp_ids_release(&all);
        return st;
    }
    all.n--;
    const struct sp_reference_check_request request = {.size = sizeof request,
                                                       .references = c->references,
                                                       .ids = all.at,
                                                       .n = all.n,
                                                       .n_rows = answer->n_ids,
                                                       .cache = sp_backend_cache_type(backend),
                                                       .context = &progress,
                                                       .progress = show_reference_progress};
    snprintf(label, sizeof label, "prompt %zu, reference", prompt);
    sp_progress_begin(&progress, label, "tokens");
    st = sp_package_check_reference(c->package, &request, &check, c->err);
    sp_progress_end(&progress);
    sp_ids_release(&all);
    if (st) return st;
    if (c->options->json)
        print_reference_json(&check, prompt);
    else
        print_reference(&check, backend->kv_type ? backend->kv_type : sp_backend_kv_types[0],
                        prompt);
    fflush(stdout);
    return judge_reference(&check, prompt, c->err);
}

/* ---- drafting ---- */

/* Shows the progress of a prompt, of which each run generates at most n_tokens. */
static void show_progress(struct check *c, size_t n_tokens)
{
    c->n_total = (uint64_t)n_tokens * (2 + (uint64_t)c->options->sessions);
    sp_progress_show(&c->progress, c->n_done, c->n_total);
}

static int count_token(void *context, const struct sp_token *token)
{
    struct check *c = context;

    (void)token;
    pthread_mutex_lock(&c->progress_lock);
    sp_progress_show(&c->progress, ++c->n_done, c->n_total);
    pthread_mutex_unlock(&c->progress_lock);
    return sp_signals_caught();
}

static enum sp_status generate_in(struct sp_session *session, struct sp_result *result,
                                  struct check *c, const struct sp_ids *ids, bool plain,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_request request = {
        .size = sizeof request,
        .prompt = ids->at,
        .n_prompt = ids->n,
        .max_tokens = (size_t)c->options->n_predict,
        .draft_len = plain ? 0 : (int)c->options->backend.draft_len,
        .digest = true,
        .grammar = c->grammar,
        .token = count_token,
        .context = c,
    };

    /* Automatic drafting may decide not to draft, so a fixed draft length is used. */
    if (request.draft_len == SP_DRAFT_LENGTH_AUTO) request.draft_len = (int)c->info.max_draft_len;
    st = sp_session_generate(session, &request, result, err);
    if (st == SP_OK && result->stop == SP_STOP_CANCELLED) {
        sp_result_release(result);
        st = sp_fail(err, SP_E_CANCELLED, "interrupted");
    }
    return st;
}

/* Generates in a new session for each run, so that no cache carries over from one run to the
 * other. */
static enum sp_status generate(struct sp_result *result, struct check *c, const struct sp_ids *ids,
                               bool plain)
{
    struct sp_session *session = NULL;
    enum sp_status st =
        sp_backend_open_session(&session, c->package, &c->options->backend, plain, 0, c->err);

    if (st) return st;
    st = generate_in(session, result, c, ids, plain, c->err);
    sp_session_close(session);
    return st;
}

static enum sp_status compare(const struct sp_result *plain, const struct sp_result *drafted,
                              size_t prompt, struct sp_err *err)
{
    size_t n = plain->n_ids < drafted->n_ids ? plain->n_ids : drafted->n_ids;

    for (size_t i = 0; i < n; i++) {
        if (plain->ids[i] == drafted->ids[i]) continue;
        return sp_fail(err, SP_E_CHECK, "prompt %zu: token %zu is %u with drafting, %u without",
                       prompt, i, drafted->ids[i], plain->ids[i]);
    }
    if (plain->n_ids != drafted->n_ids) {
        return sp_fail(err, SP_E_CHECK, "prompt %zu: %zu tokens with drafting, %zu without", prompt,
                       drafted->n_ids, plain->n_ids);
    }
    if (plain->logits_digest != drafted->logits_digest) {
        return sp_fail(err, SP_E_CHECK,
                       "prompt %zu: %zu equal tokens, but logits with digest %016" PRIx64
                       ", without draft %016" PRIx64,
                       prompt, n, drafted->logits_digest, plain->logits_digest);
    }
    return SP_OK;
}

/* ---- concurrent sessions ---- */

/* A session with a thread of its own; every second one, starting with the first, drafts. */
struct concurrent_run {
    struct check *check;
    const struct sp_ids *ids;
    struct sp_session *session;
    pthread_t thread;
    size_t number;
    bool began;
    struct sp_result result;
    struct sp_err err;
};

static void *generate_concurrently(void *context)
{
    struct concurrent_run *b = context;

    if (generate_in(b->session, &b->result, b->check, b->ids, b->number % 2 == 1, &b->err))
        return NULL;
    return b;
}

/* Opens the sessions; the first has buffers for batched passes of all. */
static enum sp_status open_all(struct concurrent_run *all, size_t n, struct check *c,
                               const struct sp_ids *ids)
{
    struct sp_backend_opts backend = c->options->backend;
    enum sp_status st;

    backend.max_batch = n;
    st = sp_backend_open_session(&all[0].session, c->package, &backend, false, 0, c->err);
    for (size_t i = 0; i < n && st == SP_OK; i++) {
        if (i > 0) st = sp_session_open_shared(&all[i].session, all[0].session, c->err);
        all[i].check = c;
        all[i].ids = ids;
        all[i].number = i;
        all[i].result = (struct sp_result)SP_RESULT_INIT;
    }
    return st;
}

static enum sp_status run_all(struct concurrent_run *all, size_t n, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n; i++) {
        all[i].began = pthread_create(&all[i].thread, NULL, generate_concurrently, &all[i]) == 0;
        if (!all[i].began) st = sp_fail(err, SP_E_NOMEM, "no thread for session %zu", i + 1);
    }
    for (size_t i = 0; i < n; i++) {
        void *done;
        if (!all[i].began) continue;
        pthread_join(all[i].thread, &done);
        if (done == NULL && st == SP_OK) st = sp_fail_as(err, &all[i].err);
    }
    return st;
}

static enum sp_status check_together(struct check *c, const struct sp_ids *ids,
                                     const struct sp_result *plain, size_t prompt)
{
    size_t n = (size_t)c->options->sessions;
    struct concurrent_run *all = NULL;
    enum sp_status st;

    if (n == 0) return SP_OK;
    if ((st = sp_new(&all, n, sizeof *all, c->err))) return st;
    st = open_all(all, n, c, ids);
    if (st == SP_OK) st = run_all(all, n, c->err);
    for (size_t i = 0; i < n && st == SP_OK; i++) {
        st = compare(plain, &all[i].result, prompt, c->err);
        if (st) sp_context(c->err, "sequence %zu in a batch of %zu", i + 1, n);
    }
    for (size_t i = 0; i < n; i++) {
        sp_result_release(&all[i].result);
        sp_session_close(all[i].session);
    }
    free(all);
    return st;
}

/* ---- prompts ---- */

static void report(const struct check *c, const struct sp_result *r, size_t prompt)
{
    struct sp_json_out out = {.file = stdout};
    char digest[17], together[48] = " and";

    snprintf(digest, sizeof digest, "%016" PRIx64, r->logits_digest);
    if (c->options->json) {
        sp_json_out_put(&out,
                        "{prompt:%zu, tokens:%zu, rounds:%zu, drafted:%zu, "
                        "accepted:%zu, logits_xxh3:%s",
                        prompt, r->n_ids, r->n_rounds, r->drafted, r->accepted, digest);
        if (c->options->sessions > 0)
            sp_json_out_u64(&out, "sessions", (uint64_t)c->options->sessions);
        sp_json_out_put(&out, "lossless:true}\n");
        return;
    }
    if (c->options->sessions > 0)
        snprintf(together, sizeof together, ", batch of %d and", (int)c->options->sessions);
    sp_word_wrap_print(stdout, 0,
                       "prompt %zu: %zu token%s: plain%s drafted output are bit-identical (logits "
                       "%s)",
                       prompt, r->n_ids, r->n_ids == 1 ? "" : "s", together, digest);
}

/* Compares with drafted generation; plain: the result without drafting. */
static enum sp_status check_drafting(struct check *c, const struct sp_ids *ids,
                                     const struct sp_result *plain, size_t prompt)
{
    struct sp_result drafted = SP_RESULT_INIT;
    enum sp_status st;

    show_progress(c, plain->n_ids);
    if ((st = generate(&drafted, c, ids, false))) goto done;
    if ((st = compare(plain, &drafted, prompt, c->err))) goto done;
    if ((st = check_together(c, ids, plain, prompt))) goto done;
    sp_progress_end(&c->progress);
    report(c, &drafted, prompt);
    fflush(stdout);
    /* If no draft token was proposed the comparison proves nothing. */
    if (drafted.drafted == 0 && drafted.n_rounds > 0)
        sp_note("verify", "prompt %zu: nothing proved, as the %s proposed no draft tokens", prompt,
                c->info.draft);
done:
    sp_result_release(&drafted);
    return st;
}

static enum sp_status check_prompt(struct check *c, const struct sp_ids *ids, size_t prompt)
{
    const struct sp_verify_options *o = c->options;
    struct sp_result plain = SP_RESULT_INIT;
    char label[32];
    enum sp_status st;

    snprintf(label, sizeof label, "prompt %zu", prompt);
    sp_progress_begin(&c->progress, label, "tokens");
    c->n_done = 0;
    show_progress(c, (size_t)o->n_predict);
    if ((st = generate(&plain, c, ids, true))) goto done;
    if (o->lossless && (st = check_drafting(c, ids, &plain, prompt))) goto done;
    sp_progress_end(&c->progress);
    if (o->reference) st = check_reference(c, ids, &plain, prompt);
done:
    sp_progress_end(&c->progress);
    sp_result_release(&plain);
    return st;
}

/* Checks a prompt given as text. As in `run` it becomes a message if the file has a template. */
static enum sp_status check_text(struct check *c, const char *text, size_t prompt)
{
    enum sp_status st;
    struct sp_conversation conversation = {0};
    struct sp_file_settings *file = NULL;

    if ((st = sp_file_settings_open(&file, c->path, c->err))) return st;
    st = sp_conversation_open(&conversation, file, c->path, false, NULL, c->err);
    if (st == SP_OK) st = sp_conversation_attach(&conversation, c->package, c->err);
    if (st == SP_OK) st = sp_conversation_add_user(&conversation, text, strlen(text), c->err);
    if (st == SP_OK) st = check_prompt(c, &conversation.prompt, prompt);
    sp_conversation_release(&conversation);
    sp_file_settings_close(file);
    return st;
}

static enum sp_status check_all(struct check *c, const struct sp_args *args)
{
    enum sp_status st = SP_OK;
    const struct sp_opt_list *lists = &c->options->ids;
    size_t n = 0;

    for (size_t i = 0; i < lists->n && st == SP_OK; i++) {
        struct sp_ids ids = {0};
        if ((st = sp_ids_parse(&ids, lists->items[i], c->err))) return st;
        st = check_prompt(c, &ids, ++n);
        sp_ids_release(&ids);
    }
    for (size_t i = 1; i < args->n_operands && st == SP_OK; i++)
        st = check_text(c, args->operands[i], ++n);
    return n || st ? st : check_text(c, built_in_prompt, 1);
}

enum sp_status sp_verify_prompts(const char *path, const struct sp_args *args, struct sp_err *err)
{
    enum sp_status st;
    const char *name = args->operands[0];
    struct check c = {.options = args->options,
                      .path = path,
                      .progress_lock = PTHREAD_MUTEX_INITIALIZER,
                      .err = err};

    sp_signals_catch();
    if ((st = sp_response_format_read(&c.grammar, c.options->format, err))) goto done;
    if ((st = sp_backend_open_package(&c.package, path, &c.options->backend, err))) goto done;
    if (c.options->reference && (st = open_reference(&c))) goto done;
    sp_backend_describe(&c.info, c.package, &c.options->backend);
    if (c.options->lossless && c.info.draft == NULL) {
        st =
            sp_fail(err, SP_E_USAGE, "%s has no draft model, so there is nothing to compare", name);
    } else if ((st = check_all(&c, args))) {
        sp_context(err, "%s", name);
    }
done:
    for (unsigned mode = 0; mode < N_MODES; mode++)
        sp_package_close(c.references[mode]);
    sp_package_close(c.package);
    sp_grammar_close(c.grammar);
    pthread_mutex_destroy(&c.progress_lock);
    return st;
}
