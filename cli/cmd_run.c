/* spectool run: generates from a packed file, once or in a session. */
#include "cli/chat/batch.h"
#include "cli/commands.h"
#include "cli/chat/response_format.h"
#include "cli/chat/generation.h"
#include "cli/chat/repl.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/chat/prompt_cache.h"
#include "cli/base/settings_opts.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_settings settings;
    struct sp_backend_opts backend; /* but for what the settings hold too */
    const char *ids, *system, *prompt_cache, *format, *think;
    bool raw, no_draft, ignore_eos, show_draft, hide_thinking, verbose, json, logprobs, digest;
    bool batch;
    int64_t n_top, sessions;
};

/* What says how to draft. */
static const char *const drafting[] = {"draft-depth", "accept", "show-draft", NULL};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Prompt"},
    {SP_OPT_FLAG, 0, "raw", NULL, NULL, AT(raw),
     .help = "The prompt as it is, no template; special tokens written in it are recognised"},
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids),
     .help = "The prompt as token ids; no template, nothing added"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help =
         "A prompt a line on standard input, as JSON: a text, an array of ids, or an object with "
         "prompt or messages, and settings of its own; an object with the answer a line on "
         "standard output"},
    {SP_OPT_INT, 0, "sessions", NULL, "N", AT(sessions), .min = 1, .max = 64, .shown = "8",
     .help =
         "With --batch: answers at a time, in passes that they share; they do not depend on it"},
    {SP_OPT_STRING, 0, "system", NULL, "TEXT", AT(system),
     .help = "System message, in place of the file's"},
    {SP_OPT_STRING, 0, "think", NULL, "true|false|LEVEL", AT(think),
     .shown = "as the template likes",
     .help = "Ask for thinking, or for none, or for a level of it"},
    SP_OPT_NUM_CTX(struct options, settings),
    {SP_OPT_STRING, 0, "prompt-cache", NULL, "FILE", AT(prompt_cache), .path = true,
     .help = "Keep what was read of the prompt in FILE, and read it no more the next time"},
    SP_OPT_FORMAT(struct options, format),
    {SP_OPT_HEADING, .help = "Ending"},
    SP_OPT_SET_ENDING(struct options, settings),
    {SP_OPT_FLAG, 0, "ignore-eos", NULL, NULL, AT(ignore_eos),
     .help = "Go on after an end-of-sequence token"},
    {SP_OPT_HEADING, .help = "Drafting"},
    {SP_OPT_FLAG, 0, "no-draft", NULL, NULL, AT(no_draft), .help = "Do not draft"},
    SP_OPT_SET_DEPTH(struct options, settings),
    SP_OPT_DRAFT_BY(struct options, backend, "model where the file has one, else lookup"),
    {SP_OPT_FLAG, 0, "show-draft", NULL, NULL, AT(show_draft),
     .help = "Colour the text that the draft had guessed"},
    SP_OPT_SET_ACCEPT(struct options, settings),
    {SP_OPT_HEADING, .help = "Sampling"},
    SP_OPT_SET_SAMPLING(struct options, settings),
    {SP_OPT_HEADING, .help = "Output"},
    {SP_OPT_FLAG, 0, "hide-thinking", "hidethinking", NULL, AT(hide_thinking),
     .help = "Do not show what the model thinks before it answers"},
    {SP_OPT_FLAG, 0, "verbose", NULL, NULL, AT(verbose),
     .help = "Rates, everything about drafting, and where each setting came from"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json),
     .help = "One JSON object a line; the last one holds ids, text, and all figures"},
    {SP_OPT_FLAG, 0, "logprobs", NULL, NULL, AT(logprobs),
     .help = "The log-probability of each token, with --json"},
    {SP_OPT_INT, 0, "top-logprobs", NULL, "K", AT(n_top), .min = 1, .max = 1000,
     .help = "The K most likely tokens of each position with theirs, with --json"},
    {SP_OPT_FLAG, 0, "logits-digest", NULL, NULL, AT(digest),
     .help = "Add the digest of the logits that chose each token, with --json"},
    {SP_OPT_HEADING, .help = "Machine"},
    SP_OPT_THREADS(struct options, settings),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    SP_OPT_HUGE_PAGES(struct options, backend),
    {.kind = SP_OPT_END},
};

/* The one question of a one-shot run: the argument, or standard input. The line end that closes
 * standard input is no part of a message. */
static enum sp_status request(struct sp_conversation *c, const struct sp_args *args,
                              struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const char *text = sp_args_text(args);
    char *input = NULL;
    size_t size = text ? strlen(text) : 0;

    if (text == NULL) {
        if ((st = sp_input_text(&input, &size, NULL, SP_INPUT_MOST, err))) return st;
        while (c->template != NULL && size > 0 && strchr("\r\n", input[size - 1]) &&
               input[size - 1])
            size--;
        text = input;
    }
    if (size > 0) st = sp_conversation_ask(c, text, size, err);
    free(input);
    return st;
}

static enum sp_status run_once(struct sp_generation *g, const struct options *o,
                               const struct sp_args *args, struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    struct sp_result result = {0};
    struct sp_message message = {0};

    st = o->ids ? sp_ids_parse(&ids, o->ids, err) : request(&g->conversation, args, err);
    if (st) goto done;
    if ((o->ids ? ids.n : g->conversation.prompt.n) == 0) {
        st = sp_fail(err, SP_E_USAGE, "the prompt is empty");
        goto done;
    }
    st = sp_generation_check_context(g, o->ids ? ids.n : g->conversation.prompt.n, err);
    if (st) goto done;
    st = sp_generation_answer(&result, &message, g, o->ids ? &ids : &g->conversation.prompt, err);
    if (st) goto done;
    if (result.stop == SP_STOP_CONTEXT && !o->json) {
        fprintf(stderr, "the context of %zu tokens is full, so the answer ends here%s\n",
                sp_session_n_context(g->session),
                sp_session_n_context(g->session) < g->info.max_positions
                    ? "; --num-ctx makes it larger"
                    : "");
    }
    if (result.stop == SP_STOP_CANCELLED) st = sp_fail(err, SP_E_CHECK, "interrupted");
done:
    sp_message_release(&message);
    sp_result_release(&result);
    sp_ids_release(&ids);
    return st;
}

static void note_depth(const struct sp_generation *g)
{
    int64_t draft_len = g->settings->draft_len;

    if (!g->style.verbose || g->no_draft || g->info.draft == NULL) return;
    if (draft_len <= (int64_t)g->info.max_draft_len) return;
    fprintf(stderr, "draft depth %lld: the draft proposes at most %zu\n", (long long)draft_len,
            g->info.max_draft_len);
}

static enum sp_status check_options(const struct options *o, const struct sp_args *args,
                                    struct sp_err *err)
{
    if (o->ids != NULL && args->n_operands > 1) {
        return sp_fail(err, SP_E_USAGE, "both --ids and a prompt are given");
    }
    if (!o->json && !o->batch && (o->logprobs || o->n_top || o->digest)) {
        return sp_fail(err, SP_E_USAGE,
                       "--logprobs, --top-logprobs and --logits-digest go with --json");
    }
    if (o->system != NULL && (o->raw || o->ids)) {
        return sp_fail(err, SP_E_USAGE, "--system goes into a chat template, and %s uses none",
                       o->raw ? "--raw" : "--ids");
    }
    if (o->format && o->ignore_eos) {
        return sp_fail(err, SP_E_USAGE,
                       "--ignore-eos does not go with --format: what is complete "
                       "has to end");
    }
    if (o->think != NULL && (o->raw || o->ids)) {
        return sp_fail(err, SP_E_USAGE, "--think goes into a chat template, and %s uses none",
                       o->raw ? "--raw" : "--ids");
    }
    if (o->hide_thinking && (o->json || o->show_draft)) {
        return sp_fail(err, SP_E_USAGE, "--hide-thinking does not go with --%s",
                       o->json ? "json" : "show-draft");
    }
    if (o->batch && (o->ids || args->n_operands > 1 || o->prompt_cache || o->show_draft ||
                     o->hide_thinking || o->logprobs || o->n_top)) {
        return sp_fail(err, SP_E_USAGE,
                       "--batch reads prompts from standard input and writes whole answers: no "
                       "PROMPT, --ids, --prompt-cache, --show-draft, --hide-thinking, --logprobs, "
                       "--top-logprobs");
    }
    if (!o->batch && sp_args_given(args, "sessions")) {
        return sp_fail(err, SP_E_USAGE, "--sessions goes with --batch");
    }
    if (o->json && o->show_draft) {
        return sp_fail(err, SP_E_USAGE, "--show-draft does not go with --json");
    }
    return SP_OK;
}

/* Who asks for a form in a pipe gets nothing else. */
static bool hides_reasoning(const struct options *o)
{
    return o->format && !o->json && !o->show_draft && !sp_out_is_terminal(stdout);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_settings settings = o->settings;
    struct sp_backend_opts backend = o->backend;
    bool session = !o->batch && o->ids == NULL && args->n_operands == 1 &&
                   sp_out_is_terminal(stdin) && sp_out_is_terminal(stdout);
    struct sp_generation g = {
        .path = args->operands[0],
        .settings = &settings,
        .style = {.json = o->json || o->batch,
                  .show_draft = o->show_draft,
                  .hide_reasoning = o->hide_thinking || hides_reasoning(o),
                  .verbose = o->verbose,
                  .digest = o->digest,
                  .plain = o->no_draft,
                  .prompt_cache = o->prompt_cache},
        .no_draft = o->no_draft,
        .ignore_eos = o->ignore_eos,
        .logprobs = o->logprobs || o->n_top > 0,
        .n_top = (unsigned)o->n_top,
    };
    struct sp_grammar *grammar = NULL;
    enum sp_status st;

    if ((st = check_options(o, args, err)) ||
        (st = sp_response_format_read(&grammar, o->format, err))) {
        goto done;
    }
    g.grammar = grammar;
    if ((st = sp_generation_read(&g, args, o->raw || o->ids, o->system, err))) goto done;
    if (o->think && (st = sp_conversation_set_thinking(&g.conversation, o->think, err))) goto done;
    if (o->think && g.conversation.template == NULL) {
        sp_out_note(args->command->name, "the file has no chat template: --think has no effect");
    }
    /* A session may still set another depth. */
    if (!session && settings.draft_len == 0) g.no_draft = g.style.plain = true;
    if (o->batch) backend.max_batch = (size_t)o->sessions;
    if ((st = sp_generation_open(&g, args, &backend, err))) goto done;
    if (o->settings.draft_len != 0) sp_generation_note_no_gain(&g, args, o->no_draft, drafting);
    g.style.ids = !g.info.has_tokenizer;
    if (o->ids == NULL && !o->batch && !g.info.has_tokenizer) {
        st = sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer: its prompts are --ids ID,ID,...",
                     g.path);
        goto done;
    }
    if (o->verbose && !g.style.json) sp_settings_print(stderr, &settings);
    note_depth(&g);
    if (o->prompt_cache && (st = sp_prompt_cache_load(g.session, o->prompt_cache, err))) goto done;
    sp_signals_catch();
    st = session    ? sp_repl_run(&g, err)
         : o->batch ? sp_batch(&g, (size_t)o->sessions, err)
                    : run_once(&g, o, args, err);
done:
    sp_generation_close(&g);
    sp_grammar_close(grammar);
    return st;
}

static const struct options defaults = {.settings = SP_SETTINGS_DEFAULTS, .sessions = 8};

const struct sp_command sp_cmd_run = {
    .name = "run",
    .summary = "Generate text from a packed file",
    .operands = "FILE [PROMPT]",
    .min_operands = 1,
    .max_operands = 2,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .details = "Without PROMPT and --ids the prompt is standard input; on a terminal a session "
               "begins, where /? helps. A PROMPT of - is standard input always. Where the file "
               "has a chat template, the prompt is a user's message in it.\n\n"
               "Settings come from the command line, else from the file's PARAMETER records, else "
               "from the checkpoint's generation_config.json, else they are built in.",
    .run = run,
};
