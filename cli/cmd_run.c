/* spectool run: generates from a packed file, once or in a session. */
#include "cli/commands.h"
#include "cli/generation.h"
#include "cli/out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_settings settings;
    struct sp_engine_opts engine; /* but for what the settings hold too */
    const char *ids, *system;
    bool raw, no_draft, ignore_eos, show_draft, verbose, json, logprobs, digest;
    int64_t n_top;
};

static const char *const accepts[] = {"coupled", "rejection", NULL};

/* What says how to draft. */
static const char *const drafting[] = {"draft-depth", "accept", "show-draft", NULL};
static const char *const by_whom[] = {"draft-by", NULL};

#define AT(member) .offset = offsetof(struct options, member)
#define SET(member) .offset = offsetof(struct options, settings.member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Prompt"},
    {SP_OPT_FLAG, 0, "raw", NULL, NULL, AT(raw),
     .help = "The prompt as it is, no template; special tokens written in it are recognised"},
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids),
     .help = "The prompt as token ids; no template, nothing added"},
    {SP_OPT_STRING, 0, "system", NULL, "TEXT", AT(system),
     .help = "System message, in place of the file's"},
    {SP_OPT_INT, 0, "num-ctx", NULL, "N", SET(n_context), .min = 1, .max = 1 << 30,
     .shown = "the model's maximum, at most 4096", .help = "Tokens of context"},
    {SP_OPT_HEADING, .help = "Ending"},
    {SP_OPT_INT, 0, "num-predict", NULL, "N", SET(n_predict), .min = 1, .max = 1 << 30,
     .word = "-1", .shown = "-1, until a stop or the context's end",
     .help = "Most tokens to generate"},
    {SP_OPT_LIST, 0, "stop", NULL, "TEXT", SET(stop_options),
     .help = "End the answer before this text; may be given several times"},
    {SP_OPT_FLAG, 0, "ignore-eos", NULL, NULL, AT(ignore_eos),
     .help = "Go on after an end-of-sequence token"},
    {SP_OPT_HEADING, .help = "Drafting"},
    {SP_OPT_FLAG, 0, "no-draft", NULL, NULL, AT(no_draft), .help = "Do not draft"},
    {SP_OPT_INT, 0, "draft-depth", NULL, "N", SET(depth), .max = 1 << 16, .word = "auto",
     .word_value = SP_DEPTH_AUTO, .shown = "auto",
     .help = "Most tokens to draft in a round, 0: as --no-draft; the text does not depend on it"},
    SP_OPT_DRAFT_BY(struct options, engine, "model where the file has one, else lookup"),
    {SP_OPT_FLAG, 0, "show-draft", NULL, NULL, AT(show_draft),
     .help = "Colour the text that the draft had guessed"},
    {SP_OPT_CHOICE, 0, "accept", NULL, "HOW", SET(accept), .choices = accepts, .shown = "coupled",
     .help = "How drafts are checked while sampling"},
    {SP_OPT_HEADING, .help = "Sampling"},
    {SP_OPT_NUMBER, 0, "temperature", NULL, "T", SET(temperature), .max = 100, .shown = "0, greedy",
     .help = "Divides the logits"},
    {SP_OPT_INT, 0, "top-k", NULL, "K", SET(top_k), .max = 1 << 30, .shown = "0, off",
     .help = "Only the K most likely tokens"},
    {SP_OPT_NUMBER, 0, "top-p", NULL, "P", SET(top_p), .max = 1, .shown = "1, off",
     .help = "Only the most likely tokens up to this probability"},
    {SP_OPT_NUMBER, 0, "min-p", NULL, "P", SET(min_p), .max = 1, .shown = "0, off",
     .help = "Only tokens at least this fraction as likely as the most likely"},
    {SP_OPT_NUMBER, 0, "typical-p", NULL, "P", SET(typical_p), .max = 1, .shown = "1, off",
     .help = "Only tokens of typical surprise up to this probability"},
    {SP_OPT_INT, 0, "repeat-last-n", NULL, "N", SET(repeat_last_n), .min = -1, .max = 1 << 30,
     .shown = "64", .help = "How far back penalties look; 0 is off, -1 the whole context"},
    {SP_OPT_NUMBER, 0, "repeat-penalty", NULL, "R", SET(repeat_penalty), .min = 0.01, .max = 100,
     .shown = "1, off", .help = "Makes recent tokens less likely"},
    {SP_OPT_NUMBER, 0, "presence-penalty", NULL, "P", SET(presence_penalty), .min = -100,
     .max = 100, .shown = "0, off", .help = "Taken off the logit of every recent token"},
    {SP_OPT_NUMBER, 0, "frequency-penalty", NULL, "F", SET(frequency_penalty), .min = -100,
     .max = 100, .shown = "0, off",
     .help = "Taken off the logit of a recent token for each time it occurred"},
    {SP_OPT_LIST, 0, "logit-bias", NULL, "ID=B", SET(bias_options),
     .help = "Added to the logit of a token; may be given several times"},
    {SP_OPT_INT, 0, "seed", NULL, "N", SET(seed), .max = 9223372036854774784.0, .word = "-1",
     .word_value = SP_SEED_FRESH, .shown = "-1, a fresh one", .help = "Seed of the sampling"},
    {SP_OPT_HEADING, .help = "Output"},
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
    {SP_OPT_INT, 0, "threads", NULL, "N", SET(n_threads), .min = 1, .max = SP_POOL_MAX,
     .shown = "one per core", .help = "Threads; results do not depend on it"},
    SP_OPT_KERNELS(struct options, engine),
    SP_OPT_KV_TYPE(struct options, engine),
    SP_OPT_HUGE_PAGES(struct options, engine),
    {.kind = SP_OPT_END},
};

/* The tokens that end an answer beside those that the checkpoint names: the template's own end of a
 * turn, and special tokens given as stop texts, which no text ever shows. */
static size_t find_end_ids(uint32_t ids[SP_MAX_STOPS + 1], const struct sp_generation *g)
{
    const struct sp_settings *s = g->settings;
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

enum sp_status sp_generation_answer(struct sp_result *result, struct sp_generation *g,
                                    const struct sp_ids *ids, struct sp_err *err)
{
    enum sp_status st;
    struct sp_sampling sampling;
    uint32_t end_ids[SP_MAX_STOPS + 1];
    struct sp_request request = {
        .prompt = ids->at,
        .n_prompt = ids->n,
        .max_tokens = g->settings->n_predict > 0 ? (size_t)g->settings->n_predict : 0,
        .ignore_eos = g->ignore_eos,
        .end_ids = end_ids,
        .n_end_ids = find_end_ids(end_ids, g),
        .plain = g->no_draft || g->settings->depth == 0,
        .depth = (int)g->settings->depth,
        .measure = !g->no_draft && g->info.draft != NULL,
        .sampling = &sampling,
        .stops = g->settings->stops,
        .n_stops = g->settings->n_stops,
        .logprobs = g->logprobs,
        .n_top = g->n_top,
    };

    sp_settings_sampling(&sampling, g->settings);
    if ((st = sp_answer(result, g->session, &request, &g->style, err))) return st;
    sp_answer_report(result, &g->info, &sampling, &g->style);
    return SP_OK;
}

/* The one question of a one-shot run: the argument, or standard input. The line end that closes
 * standard input is no part of a message. */
static enum sp_status ask(struct sp_conversation *c, const struct sp_args *args, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const char *text = args->n_operands > 1 ? args->operands[1] : NULL;
    char *input = NULL;
    size_t size = text ? strlen(text) : 0;

    if (text == NULL) {
        if ((st = sp_read_stream(&input, &size, stdin, err))) return st;
        while (c->template != NULL && size > 0 && strchr("\r\n", input[size - 1]) &&
               input[size - 1])
            size--;
        text = input;
    }
    if (size > 0) st = sp_conversation_ask(c, text, size, err);
    free(input);
    return st;
}

/* Says what to do about a prompt that is too long. */
static enum sp_status check_room(const struct sp_generation *g, size_t n, struct sp_err *err)
{
    size_t context = sp_session_n_context(g->session), max = g->info.max_positions;

    if (n <= context) return SP_OK;
    if (n > max) {
        return sp_fail(err, SP_E_USAGE, "the prompt has %zu tokens, and the model takes %zu", n,
                       max);
    }
    return sp_fail(err, SP_E_USAGE,
                   "the prompt has %zu tokens and the context %zu; --num-ctx makes it larger, up "
                   "to %zu",
                   n, context, max);
}

static enum sp_status run_once(struct sp_generation *g, const struct options *o,
                               const struct sp_args *args, struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    struct sp_result result = {0};

    st = o->ids ? sp_ids_parse(&ids, o->ids, err) : ask(&g->conversation, args, err);
    if (st) goto done;
    if ((o->ids ? ids.n : g->conversation.prompt.n) == 0) {
        st = sp_fail(err, SP_E_USAGE, "the prompt is empty");
        goto done;
    }
    if ((st = check_room(g, o->ids ? ids.n : g->conversation.prompt.n, err))) goto done;
    if ((st = sp_generation_answer(&result, g, o->ids ? &ids : &g->conversation.prompt, err))) {
        goto done;
    }
    if (result.stop == SP_STOP_CONTEXT && !o->json) {
        fprintf(stderr, "the context of %zu tokens is full, so the answer ends here%s\n",
                sp_session_n_context(g->session),
                sp_session_n_context(g->session) < g->info.max_positions
                    ? "; --num-ctx makes it larger"
                    : "");
    }
    if (result.stop == SP_STOP_CANCELLED) st = sp_fail(err, SP_E_CHECK, "interrupted");
done:
    sp_result_release(&result);
    sp_ids_release(&ids);
    return st;
}

/* Settings need the file's records before the engine is opened: threads are one of them. */
static enum sp_status read_file(struct sp_generation *g, const struct options *o,
                                const struct sp_args *args, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    bool unused;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, g->path, err))) return st;
    if ((st = sp_settings_complete(g->settings, args, pack, err))) goto done;
    st = sp_conversation_open(&g->conversation, pack, o->raw || o->ids, o->system, &unused, err);
    if (st) goto done;
    if (unused) {
        sp_out_note("run", "the file has no chat template: its SYSTEM and MESSAGE have no effect");
    }
done:
    sp_pack_close(pack);
    return st;
}

/* A context that the file asks for is cut to what its model has; one on the command line is not. */
static enum sp_status open_session(struct sp_generation *g, struct sp_engine_opts *engine,
                                   const struct sp_args *args, struct sp_err *err)
{
    int64_t max = (int64_t)g->info.max_positions;
    char sentence[128];

    if (engine->n_context > max && !sp_args_given(args, "num-ctx")) {
        snprintf(sentence, sizeof sentence,
                 "num_ctx of %" PRId64 " in the Modelfile is cut to the model's %" PRId64,
                 engine->n_context, max);
        sp_out_note(args->command->name, sentence);
        engine->n_context = max;
    }
    return sp_engine_open_session(&g->session, g->package, engine, g->no_draft, 0, err);
}

static void note_depth(const struct sp_generation *g)
{
    int64_t depth = g->settings->depth;

    if (!g->style.verbose || g->no_draft || g->info.draft == NULL) return;
    if (depth <= (int64_t)g->info.max_depth) return;
    fprintf(stderr, "draft depth %lld: the draft proposes at most %zu\n", (long long)depth,
            g->info.max_depth);
}

/* Commands are compared with and without --no-draft: what says how to draft may stay. */
static void note_vain(const struct options *o, const struct sp_args *args,
                      const struct sp_package_info *info)
{
    if (o->settings.depth == 0) return;
    if (o->no_draft) {
        sp_engine_note_vain(args, "--no-draft", drafting);
        sp_engine_note_vain(args, "--no-draft", by_whom);
    } else {
        sp_engine_note_draftless(args, info, drafting);
    }
}

static enum sp_status check_options(const struct options *o, const struct sp_args *args,
                                    struct sp_err *err)
{
    if (o->ids != NULL && args->n_operands > 1) {
        return sp_fail(err, SP_E_USAGE, "both --ids and a prompt are given");
    }
    if (!o->json && (o->logprobs || o->n_top || o->digest)) {
        return sp_fail(err, SP_E_USAGE,
                       "--logprobs, --top-logprobs and --logits-digest go with --json");
    }
    if (o->system != NULL && (o->raw || o->ids)) {
        return sp_fail(err, SP_E_USAGE, "--system goes into a chat template, and %s uses none",
                       o->raw ? "--raw" : "--ids");
    }
    if (o->json && o->show_draft) {
        return sp_fail(err, SP_E_USAGE, "--show-draft does not go with --json");
    }
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_settings settings = o->settings;
    bool session = o->ids == NULL && args->n_operands == 1 && sp_out_is_terminal(stdin) &&
                   sp_out_is_terminal(stdout);
    struct sp_engine_opts engine = o->engine;
    struct sp_generation g = {
        .path = args->operands[0],
        .settings = &settings,
        .style = {.json = o->json,
                  .show_draft = o->show_draft,
                  .verbose = o->verbose,
                  .digest = o->digest,
                  .plain = o->no_draft},
        .no_draft = o->no_draft,
        .ignore_eos = o->ignore_eos,
        .logprobs = o->logprobs || o->n_top > 0,
        .n_top = (unsigned)o->n_top,
    };
    enum sp_status st;

    if ((st = check_options(o, args, err))) goto done;
    if ((st = read_file(&g, o, args, err))) goto done;
    /* A session may still set another depth. */
    if (!session && settings.depth == 0) g.no_draft = g.style.plain = true;
    engine.n_threads = settings.n_threads;
    engine.n_context = settings.n_context;
    if ((st = sp_engine_open_package(&g.package, g.path, &engine, err))) goto done;
    sp_package_describe(g.package, &g.info);
    sp_engine_settle_draft(&g.info, g.package, sp_engine_draft_by_of(&engine));
    note_vain(o, args, &g.info);
    g.style.ids = !g.info.has_tokenizer;
    if (o->ids == NULL && !g.info.has_tokenizer) {
        st = sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer: its prompts are --ids ID,ID,...",
                     g.path);
        goto done;
    }
    sp_conversation_attach(&g.conversation, g.package);
    if ((st = open_session(&g, &engine, args, err))) goto done;
    if (o->verbose && !o->json) sp_settings_print(stderr, &settings);
    note_depth(&g);
    sp_signals_catch();
    st = session ? sp_chat(&g, err) : run_once(&g, o, args, err);
done:
    sp_conversation_release(&g.conversation);
    sp_session_close(g.session);
    sp_package_close(g.package);
    sp_settings_release(&settings);
    return st;
}

static const struct options defaults = {.settings = SP_SETTINGS_DEFAULTS};

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
               "begins, where /? helps. Where the file has a chat template, the prompt is a user's "
               "message in it.\n\n"
               "Settings come from the command line, else from the file's PARAMETER records, else "
               "from the checkpoint's generation_config.json, else they are built in.",
    .run = run,
};
