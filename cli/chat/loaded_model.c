#include "cli/chat/loaded_model.h"
#include "cli/base/backend_opts.h"
#include "cli/base/out.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

enum sp_status sp_loaded_model_read(struct sp_loaded_model *m, const struct sp_args *args, bool raw,
                                    const char *system, struct sp_err *err)
{
    struct sp_file_settings *file = NULL;
    enum sp_status st;

    if ((st = sp_file_settings_open(&file, m->path, err))) return st;
    if ((st = sp_settings_complete(m->settings, args, file, err))) goto done;
    if ((st = sp_conversation_open(&m->conversation, file, m->path, raw, system, err))) goto done;
    if (!raw && !m->conversation.template && (file->system || file->n_messages > 0)) {
        sp_note(args->command->name,
                "the file has no chat template, so its SYSTEM and MESSAGE have no effect");
    }
done:
    sp_file_settings_close(file);
    return st;
}

static enum sp_status open_session(struct sp_loaded_model *m, const struct sp_args *args,
                                   struct sp_backend_opts *opts, struct sp_err *err)
{
    int64_t max = (int64_t)m->info.max_positions;

    if (opts->n_context > max && !sp_args_given(args, "num-ctx")) {
        sp_note(args->command->name,
                "num_ctx of %" PRId64 " in the Modelfile is cut to the model's %" PRId64,
                opts->n_context, max);
        opts->n_context = max;
    }
    return sp_backend_open_session(&m->session, m->package, opts, m->no_draft, 0, err);
}

enum sp_status sp_loaded_model_open(struct sp_loaded_model *m, const struct sp_args *args,
                                    const struct sp_backend_opts *backend_opts, struct sp_err *err)
{
    struct sp_backend_opts opts = *backend_opts;
    enum sp_status st;

    opts.n_threads = m->settings->n_threads;
    opts.n_context = m->settings->n_context;
    if ((st = sp_backend_open_package(&m->package, m->path, &opts, err))) return st;
    sp_backend_describe(&m->info, m->package, &opts);
    m->conversation.settings = m->settings;
    m->conversation.response_format = m->grammar;
    m->conversation.ignore_eos = m->ignore_eos;
    if (m->info.has_tokenizer &&
        ((st = sp_conversation_attach(&m->conversation, m->package, err)) ||
         (st = sp_infill_find(&m->infill, sp_package_tokenizer(m->package), err))))
        return st;
    st = sp_new(&m->loras, m->n_adapters, sizeof *m->loras, err);
    for (size_t i = 0; i < m->n_adapters && !st; i++)
        st = sp_lora_file_open(&m->loras[i], m->package, m->path, m->adapters[i],
                               args->command->name, err);
    if (st) return st;
    if ((st = open_session(m, args, &opts, err))) return st;
    m->backend = opts;
    return SP_OK;
}

enum sp_status sp_loaded_model_set_context(struct sp_loaded_model *m, int64_t n_context,
                                           struct sp_err *err)
{
    struct sp_backend_opts opts = m->backend;
    struct sp_session *session = NULL;
    enum sp_status st;

    opts.n_context = n_context;
    if ((st = sp_backend_open_session(&session, m->package, &opts, m->no_draft, 0, err))) return st;
    if ((st = sp_session_set_lora(session, m->lora, 1, err))) {
        sp_session_close(session);
        return st;
    }
    sp_session_close(m->session);
    m->session = session;
    m->backend = opts;
    m->n_used = 0;
    return SP_OK;
}

enum sp_status sp_loaded_model_shift(struct sp_loaded_model *m, size_t *n, struct sp_err *err)
{
    enum { KEPT_FREE = 8, MADE_FREE = 4 };
    struct sp_conversation *c = &m->conversation;
    size_t context = sp_session_n_context(m->session), dropped;
    enum sp_status st;

    *n = 0;
    if (c->prompt.n + context / KEPT_FREE < context) return SP_OK;
    while (c->prompt.n + context / MADE_FREE > context) {
        if ((st = sp_conversation_drop_oldest(c, &dropped, err)) || dropped == 0) return st;
        *n += dropped;
    }
    return SP_OK;
}

void sp_loaded_model_close(struct sp_loaded_model *m)
{
    sp_conversation_release(&m->conversation);
    sp_session_close(m->session);
    for (size_t i = 0; m->loras && i < m->n_adapters; i++)
        sp_lora_close(m->loras[i]);
    free(m->loras);
    sp_package_close(m->package);
    sp_settings_release(m->settings);
    free(m->own_path);
    free(m->own_name);
}

/* Drafting options next to --no-draft are only noted, so that commands can be compared with and
 * without --no-draft. */
void sp_loaded_model_note_no_effect(const struct sp_loaded_model *m, const struct sp_args *args,
                                    bool no_draft, const char *const *drafting)
{
    static const char *const by_whom[] = {"draft-by", NULL};

    if (no_draft) {
        sp_backend_note_no_effect(args, "--no-draft", drafting);
        sp_backend_note_no_effect(args, "--no-draft", by_whom);
    } else {
        sp_backend_note_no_draft(args, &m->info, drafting);
        sp_backend_note_no_draft(args, &m->info, by_whom);
    }
}

enum sp_status sp_loaded_model_check_context(const struct sp_loaded_model *m, size_t n,
                                             struct sp_err *err)
{
    size_t context = sp_session_n_context(m->session), max = m->info.max_positions;

    if (n <= context) return SP_OK;
    if (n > max) {
        return sp_fail(err, SP_E_USAGE,
                       "the prompt has %zu tokens and exceeds the available context size of %zu", n,
                       max);
    }
    return sp_fail(err, SP_E_USAGE,
                   "the prompt has %zu tokens and exceeds the available context size of %zu; "
                   "--num-ctx N enlarges it, up to %zu",
                   n, context, max);
}

enum sp_status sp_loaded_model_check_reasoning_budget(const struct sp_loaded_model *m,
                                                      const struct sp_args *args,
                                                      struct sp_err *err)
{
    const struct sp_conversation *c = &m->conversation;

    if (m->settings->reasoning_budget < 0 || !sp_args_given(args, "reasoning-budget")) return SP_OK;
    if (c->template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "--reasoning-budget requires a chat template");
    if (c->chat_info.can_limit_reasoning) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "--reasoning-budget: the reasoning of %s cannot be limited, since its chat "
                   "template does not show how it ends",
                   m->name);
}

void sp_loaded_model_request(struct sp_request *out, struct sp_sampling *sampling,
                             uint32_t end_ids[SP_MAX_STOPS], const struct sp_loaded_model *m,
                             const struct sp_settings *s, const struct sp_ids *prompt)
{
    sp_settings_sampling(sampling, s);
    *out = (struct sp_request){
        .size = sizeof(struct sp_request),
        .prompt = prompt->at,
        .n_prompt = prompt->n,
        .max_tokens = s->n_predict > 0 ? (size_t)s->n_predict : 0,
        .ignore_eos = m->ignore_eos,
        .end_ids = end_ids,
        .n_end_ids = sp_prompt_stop_ids(end_ids, m->package, s),
        .draft_len = m->no_draft ? 0 : (int)s->draft_len,
        .sampling = sampling,
        .stops = s->stops.at,
        .n_stops = s->stops.n,
        .grammar = m->grammar,
        .digest = m->record || m->style.digest,
    };
}

enum sp_status sp_loaded_model_answer(struct sp_result *result, struct sp_chat_reader **reader,
                                      struct sp_loaded_model *m, const struct sp_ids *ids,
                                      const struct sp_chat_prompt *rendered, struct sp_err *err)
{
    bool separates = rendered && sp_conversation_separates_reasoning(&m->conversation, rendered);
    enum sp_status st;
    struct sp_sampling sampling = SP_SAMPLING_INIT;
    uint32_t end_ids[SP_MAX_STOPS];
    struct sp_request request = SP_REQUEST_INIT;

    *reader = NULL;
    sp_loaded_model_request(&request, &sampling, end_ids, m, m->settings, ids);
    if (rendered) sp_chat_prompt_apply(rendered, &request);
    request.measure = !m->no_draft && m->info.draft != NULL;
    request.logprobs = m->logprobs;
    request.n_top = m->n_top;
    st = sp_console_answer(result, reader, m->session, &request, separates ? rendered : NULL,
                           &m->info, &m->style, err);
    if (st) return st;
    return sp_loaded_model_record(m, &request, result, err);
}
