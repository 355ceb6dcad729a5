#include "cli/chat/generation.h"
#include "cli/base/out.h"
#include "format/base/mem.h"
#include "runtime/session/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_generation_read(struct sp_generation *g, const struct sp_args *args, bool raw,
                                  const char *system, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    bool unused;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, g->path, err))) return st;
    if ((st = sp_settings_complete(g->settings, args, pack, err))) goto done;
    if ((st = sp_conversation_open(&g->conversation, pack, raw, system, &unused, err))) goto done;
    if (unused) {
        sp_out_note(args->command->name,
                    "the file has no chat template, so its SYSTEM and MESSAGE have no effect");
    }
done:
    sp_pack_close(pack);
    return st;
}

static enum sp_status open_session(struct sp_generation *g, const struct sp_args *args,
                                   struct sp_backend_opts *backend, struct sp_err *err)
{
    int64_t max = (int64_t)g->info.max_positions;
    char sentence[128];

    if (backend->n_context > max && !sp_args_given(args, "num-ctx")) {
        snprintf(sentence, sizeof sentence,
                 "num_ctx of %" PRId64 " in the Modelfile is cut to the model's %" PRId64,
                 backend->n_context, max);
        sp_out_note(args->command->name, sentence);
        backend->n_context = max;
    }
    return sp_backend_open_session(&g->session, g->package, backend, g->no_draft, 0, err);
}

enum sp_status sp_generation_open(struct sp_generation *g, const struct sp_args *args,
                                  const struct sp_backend_opts *backend, struct sp_err *err)
{
    struct sp_backend_opts opts = *backend;
    enum sp_status st;

    opts.n_threads = g->settings->n_threads;
    opts.n_context = g->settings->n_context;
    if ((st = sp_backend_open_package(&g->package, g->path, &opts, err))) return st;
    sp_package_describe(g->package, &g->info);
    sp_backend_resolve_draft(&g->info, g->package, sp_backend_draft_by_of(&opts));
    if (g->info.has_tokenizer) sp_conversation_attach(&g->conversation, g->package);
    return open_session(g, args, &opts, err);
}

void sp_generation_close(struct sp_generation *g)
{
    sp_conversation_release(&g->conversation);
    sp_session_close(g->session);
    sp_package_close(g->package);
    sp_settings_release(g->settings);
}

/* Commands are compared with and without --no-draft: what says how to draft may stay. */
void sp_generation_note_no_gain(const struct sp_generation *g, const struct sp_args *args,
                                bool no_draft, const char *const *drafting)
{
    static const char *const by_whom[] = {"draft-by", NULL};

    if (no_draft) {
        sp_backend_note_no_gain(args, "--no-draft", drafting);
        sp_backend_note_no_gain(args, "--no-draft", by_whom);
    } else {
        sp_backend_note_no_draft(args, &g->info, drafting);
        sp_backend_note_no_draft(args, &g->info, by_whom);
    }
}

enum sp_status sp_generation_check_context(const struct sp_generation *g, size_t n,
                                           struct sp_err *err)
{
    size_t context = sp_session_n_context(g->session), max = g->info.max_positions;

    if (n <= context) return SP_OK;
    if (n > max) {
        return sp_fail(err, SP_E_USAGE, "the prompt has %zu tokens and the model's context %zu", n,
                       max);
    }
    return sp_fail(
        err, SP_E_USAGE,
        "the prompt has %zu tokens and the context %zu; --num-ctx N enlarges it, up to %zu", n,
        context, max);
}

/* The tokens that end an answer beside those that the checkpoint names: the template's own end of a
 * turn, and special tokens given as stop texts, which no text ever shows. */
static size_t find_end_ids(uint32_t ids[SP_MAX_STOPS + 1], const struct sp_generation *g,
                           const struct sp_settings *s)
{
    size_t n = 0, size;

    if (!g->info.has_tokenizer) return 0;
    if (g->conversation.has_end_id && !g->ignore_eos) ids[n++] = g->conversation.end_id;
    for (size_t i = 0; i < s->n_stops; i++) {
        if (sp_prompt_special(&ids[n], &size, g->package, s->stops[i])) {
            n += size == strlen(s->stops[i]);
        }
    }
    return n;
}

enum sp_status sp_generation_grammar(struct sp_grammar **out,
                                     const struct sp_chat_grammar_options *form,
                                     const struct sp_generation *g,
                                     const struct sp_settings *settings, struct sp_err *err)
{
    struct sp_chat_grammar_options whole = *form;
    uint32_t end_ids[SP_MAX_STOPS + 1], *ends = NULL;
    size_t n = find_end_ids(end_ids, g, settings), n_eos = g->info.n_eos;
    enum sp_status st = sp_new(&ends, n_eos + n, sizeof *ends, err);

    if (st) return st;
    if (n_eos) memcpy(ends, g->info.eos, n_eos * sizeof *ends);
    if (n) memcpy(ends + n_eos, end_ids, n * sizeof *ends);
    whole.tokenizer = g->package->tokenizer;
    whole.ends = ends;
    whole.n_ends = n_eos + n;
    st = sp_chat_grammar(out, &whole, err);
    free(ends);
    return st;
}

void sp_generation_request(struct sp_request *out, struct sp_sampling *sampling,
                           uint32_t end_ids[SP_MAX_STOPS + 1], const struct sp_generation *g,
                           const struct sp_settings *s, const struct sp_ids *prompt)
{
    sp_settings_sampling(sampling, s);
    *out = (struct sp_request){
        .prompt = prompt->at,
        .n_prompt = prompt->n,
        .max_tokens = s->n_predict > 0 ? (size_t)s->n_predict : 0,
        .ignore_eos = g->ignore_eos,
        .end_ids = end_ids,
        .n_end_ids = find_end_ids(end_ids, g, s),
        .plain = g->no_draft || s->draft_len == 0,
        .draft_len = (int)s->draft_len,
        .sampling = sampling,
        .stops = s->stops,
        .n_stops = s->n_stops,
        .grammar = g->grammar,
    };
}

/* Constrained output without reasoning before it is all content. */
bool sp_generation_separates_reasoning(const struct sp_generation *g)
{
    const struct sp_conversation *c = &g->conversation;

    return c->template != NULL && (g->grammar == NULL || c->thinks != SP_REASONING_NONE) &&
           sp_chat_format_has_reasoning(&c->answers);
}

/* *out = the grammar of structured output after reasoning, owned by the caller; unchanged where the
 * answer is not constrained or has no reasoning. */
static enum sp_status open_grammar(struct sp_grammar **out, const struct sp_generation *g,
                                   struct sp_err *err)
{
    const struct sp_conversation *c = &g->conversation;
    const struct sp_chat_grammar_options form = {
        .format = &c->answers, .thinking = c->thinks, .content = g->grammar};

    if (g->grammar == NULL || !sp_generation_separates_reasoning(g)) return SP_OK;
    return sp_generation_grammar(out, &form, g, g->settings, err);
}

enum sp_status sp_generation_answer(struct sp_result *result, struct sp_message *message,
                                    struct sp_generation *g, const struct sp_ids *ids,
                                    struct sp_err *err)
{
    const struct sp_conversation *c = &g->conversation;
    const struct sp_chat_format_tags tags = {&c->answers, &c->specials,
                                             c->thinks == SP_REASONING_OPEN};
    bool apart = sp_generation_separates_reasoning(g);
    enum sp_status st;
    struct sp_grammar *grammar = NULL;
    struct sp_sampling sampling;
    uint32_t end_ids[SP_MAX_STOPS + 1];
    struct sp_request request;

    if ((st = open_grammar(&grammar, g, err))) return st;
    sp_generation_request(&request, &sampling, end_ids, g, g->settings, ids);
    request.measure = !g->no_draft && g->info.draft != NULL && g->style.whole == NULL;
    request.logprobs = g->logprobs;
    request.n_top = g->n_top;
    if (grammar) request.grammar = grammar;
    st = sp_console_answer(result, message, g->session, &request, apart ? &tags : NULL, &g->style,
                           err);
    if (!st) sp_console_report(result, apart ? message : NULL, &g->info, &sampling, &g->style);
    sp_grammar_close(grammar);
    return st;
}
