/* spectool run: generates an answer to one prompt, or runs an interactive session. */
#include "cli/commands.h"
#include "cli/chat/response_format.h"
#include "cli/chat/loaded_model.h"
#include "cli/chat/repl.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/serve/batch.h"
#include "cli/base/settings_opts.h"
#include "cli/packed_checkpoint.h"
#include "format/base/clock.h"
#include "format/base/file.h"
#include "format/base/strbuf.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_settings settings;
    struct sp_backend_opts backend; /* `backend` without the fields that the settings have */
    const char *ids, *system, *adapter, *format, *record, *think, *context_full, *output, *part,
        *type;
    bool raw, no_draft, ignore_eos, show_draft, hide_thinking, verbose, json, logprobs, digest;
    bool batch, quiet, no_cache, no_word_wrap;
    int64_t n_top, sessions;
};

static const char *const context_full[] = {"stop", "shift", NULL};

/* The options that control drafting. */
static const char *const draft_options[] = {"draft-depth", "accept", "show-draft", NULL};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Prompt"},
    {SP_OPT_STRING, 0, "system", NULL, "TEXT", AT(system),
     .help = "System message, instead of the file's"},
    SP_OPT_THINK(struct options, think),
    SP_OPT_FORMAT(struct options, format),
    SP_OPT_ADAPTER(struct options, adapter),
    {SP_OPT_FLAG, 0, "raw", NULL, NULL, AT(raw),
     .help = "Use the prompt without a chat template; special tokens in it are recognized"},
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids),
     .help = "The prompt as token IDs, without a chat template"},
    {SP_OPT_HEADING, .help = "Stopping"},
    SP_OPT_SET_ENDING(struct options, settings),
    {SP_OPT_FLAG, 0, "ignore-eos", NULL, NULL, AT(ignore_eos),
     .help = "Continue after an end-of-sequence token"},
    {SP_OPT_HEADING, .help = "Sampling"},
    SP_OPT_SET_SAMPLING(struct options, settings),
    {SP_OPT_HEADING, .help = "Drafting"},
    {SP_OPT_FLAG, 0, "no-draft", NULL, NULL, AT(no_draft), .help = "Turn drafting off"},
    SP_OPT_SET_DEPTH(struct options, settings),
    SP_OPT_DRAFT_BY(struct options, backend, "both, or model with a given draft depth"),
    {SP_OPT_FLAG, 0, "show-draft", NULL, NULL, AT(show_draft),
     .help = "Color accepted draft tokens"},
    SP_OPT_SET_ACCEPT(struct options, settings),
    {SP_OPT_HEADING, .help = "Output"},
    {SP_OPT_FLAG, 0, "hide-thinking", "hidethinking", NULL, AT(hide_thinking),
     .help = "Do not show the model's reasoning"},
    {SP_OPT_FLAG, 0, "quiet", NULL, NULL, AT(quiet),
     .help = "Print no statistics and no notes, only the answer and errors"},
    {SP_OPT_FLAG, 0, "nowordwrap", NULL, NULL, AT(no_word_wrap),
     .help = "Do not break an answer's lines between words at the terminal's width"},
    {SP_OPT_FLAG, 0, "verbose", NULL, NULL, AT(verbose),
     .help = "Print speed, all drafting statistics, and where each setting came from"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json),
     .help = "Print one JSON object per line; the last one has ids, text and statistics"},
    {SP_OPT_FLAG, 0, "logprobs", NULL, NULL, AT(logprobs),
     .help = "With --json: the log-probability of each token"},
    {SP_OPT_INT, 0, "top-logprobs", NULL, "K", AT(n_top), .min = 1, .max = 1000,
     .help = "With --json: the K most likely tokens of each position"},
    {SP_OPT_STRING, 0, "record", NULL, "LOG", AT(record), .path = true,
     .help = "Append to LOG what spectool replay computes the answers again from; no text"},
    {SP_OPT_FLAG, 0, "logits-digest", NULL, NULL, AT(digest),
     .help = "With --json: a digest of the logits that chose each token"},
    {SP_OPT_HEADING, .help = "Batches"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help =
         "Read one prompt per line from standard input as JSON: a string, an array of token IDs, "
         "an object with prompt or messages, and settings, or a request of OpenAI's or Anthropic's "
         "batch API; write one JSON object per answer"},
    {SP_OPT_STRING, 'o', "output", NULL, "FILE", AT(output), .path = true,
     .shown = "standard output",
     .help = "With --batch: file for the answers; answers already in it are kept, so that an "
             "interrupted batch continues"},
    {SP_OPT_STRING, 0, "part", NULL, "I/N", AT(part),
     .help =
         "With --batch: answer only part I of N (I from 1) of the lines of standard input, which "
         "must be a file"},
    {SP_OPT_INT, 0, "sessions", NULL, "N", AT(sessions), .min = 1, .max = 64, .shown = "8",
     .help =
         "With --batch: number of answers generated at the same time; does not affect the text"},
    {SP_OPT_HEADING, .help = "Machine"},
    SP_OPT_NUM_CTX(struct options, settings),
    SP_OPT_MEMORY(struct options, backend),
    {SP_OPT_CHOICE, 0, "context-full", NULL, "ACTION", AT(context_full), .choices = context_full,
     .shown = "stop",
     .help = "In a session, when the context is full: stop, or drop the oldest messages (shift)"},
    SP_OPT_PROMPT_CACHE(struct options, backend),
    {SP_OPT_FLAG, 0, "no-cache", NULL, NULL, AT(no_cache),
     .help = "Use no cache folder: do not pack a checkpoint, keep nothing of this run"},
    SP_OPT_PACK_TYPE(struct options, type),
    SP_OPT_THREADS(struct options, settings),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    SP_OPT_HUGE_PAGES(struct options, backend),
    {.kind = SP_OPT_END},
};

/* Reads standard input. The line end that closes it is not part of a message. */
static enum sp_status read_input(struct sp_strbuf *message, bool keep_line_end, struct sp_err *err)
{
    struct sp_text input;
    enum sp_status st;

    if ((st = sp_input_text(&input, NULL, "a prompt", SP_INPUT_MOST, err))) return st;
    while (!keep_line_end && input.size > 0 &&
           (input.at[input.size - 1] == '\r' || input.at[input.size - 1] == '\n'))
        input.size--;
    st = sp_strbuf_append(message, input.at, input.size, err);
    free(input.at);
    return st;
}

/* Makes the prompt of a single run: text that is piped in, a blank line, and PROMPT, or one of the
 * two. *reading = the seconds that standard input took, in which a user may have typed. */
static enum sp_status request(struct sp_conversation *c, double *reading, const struct options *o,
                              const struct sp_args *args, struct sp_err *err)
{
    const double begun = sp_seconds();
    const char *text = sp_args_text(args);
    bool format_input = o->format && strcmp(o->format, "-") == 0;
    struct sp_strbuf message = {0};
    enum sp_status st = SP_OK;

    if (text == NULL || (!format_input && sp_input_is_piped()))
        st = read_input(&message, text == NULL && c->template == NULL, err);
    *reading = sp_seconds() - begun;
    if (!st && text && *text && message.len > 0) st = sp_strbuf_append(&message, "\n\n", 2, err);
    if (!st && text) st = sp_strbuf_append(&message, text, strlen(text), err);
    if (!st && message.len > 0) st = sp_conversation_add_user(c, message.at, message.len, err);
    sp_strbuf_release(&message);
    return st;
}

/* Says that the context or the memory ended an answer. */
static void report_limit(const struct sp_loaded_model *m, enum sp_stop stop)
{
    size_t n = sp_session_n_context(m->session);

    if (stop == SP_STOP_CONTEXT) {
        fprintf(stderr, "the context of %zu tokens is full, so the answer ends here%s\n", n,
                n < m->info.max_positions ? "; --num-ctx N enlarges it" : "");
    } else if (stop == SP_STOP_MEMORY) {
        fprintf(stderr,
                "the memory for KV caches is used up after %zu tokens, so the answer ends "
                "here; --kv-type q8 needs less, --memory sets the limit\n",
                sp_session_n_cached(m->session));
    }
}

static enum sp_status run_once(struct sp_loaded_model *m, const struct options *o,
                               const struct sp_args *args, struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    double reading = 0;

    st = o->ids ? sp_ids_parse(&ids, o->ids, err)
                : request(&m->conversation, &reading, o, args, err);
    if (st) goto done;
    m->style.started += reading;
    if ((o->ids ? ids.n : m->conversation.prompt.n) == 0) {
        st = sp_fail(err, SP_E_USAGE, "the prompt is empty");
        goto done;
    }
    st = sp_loaded_model_check_context(m, o->ids ? ids.n : m->conversation.prompt.n, err);
    if (st) goto done;
    st = sp_loaded_model_answer(&result, &reader, m, o->ids ? &ids : &m->conversation.prompt,
                                m->conversation.rendered, err);
    if (st) goto done;
    if (!o->json && !o->quiet) report_limit(m, result.stop);
    if (result.stop == SP_STOP_CANCELLED) st = sp_fail(err, SP_E_CANCELLED, "interrupted");
done:
    sp_chat_reader_close(reader);
    sp_result_release(&result);
    sp_ids_release(&ids);
    return st;
}

static void note_draft_len(const struct sp_loaded_model *m)
{
    int64_t draft_len = m->settings->draft_len;

    if (!m->style.verbose || m->no_draft || m->info.draft == NULL) return;
    if (draft_len <= (int64_t)m->info.max_draft_len) return;
    fprintf(stderr, "draft depth %lld: the draft proposes at most %zu tokens\n",
            (long long)draft_len, m->info.max_draft_len);
}

/* Says which types --kv-type auto has chosen. */
static void note_caches(const struct sp_loaded_model *m)
{
    const char *separator = "KV caches: ";

    if (!m->style.verbose || sp_backend_cache_type(&m->backend) != SP_CACHE_AUTO) return;
    for (size_t i = 0; i < SP_CACHE_AUTO; i++) {
        if (m->info.n_auto_caches[i] == 0) continue;
        fprintf(stderr, "%s%u %s", separator, m->info.n_auto_caches[i], sp_backend_kv_types[i]);
        separator = ", ";
    }
    fprintf(stderr, "; KL divergence %.4f by the calibration\n", m->info.auto_divergence);
}

/* Reads "2/8"; NULL: all lines, which is part 0. */
static enum sp_status read_part(size_t *part, size_t *n_parts, const char *text, struct sp_err *err)
{
    enum { MOST = 1 << 20 };
    char *end = NULL;

    *part = *n_parts = 0;
    if (text == NULL) return SP_OK;
    *part = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '/' && end[1] >= '0' && end[1] <= '9')
        *n_parts = strtoul(end + 1, &end, 10);
    if (*end != '\0' || *part < 1 || *part > *n_parts || *n_parts > MOST)
        return sp_fail(err, SP_E_USAGE, "--part: \"%s\", expected I/N with I from 1 to N", text);
    return SP_OK;
}

static enum sp_status check_options(const struct options *o, const struct sp_args *args,
                                    struct sp_err *err)
{
    size_t part, n_parts;

    if (o->ids != NULL && args->n_operands > 1)
        return sp_fail(err, SP_E_USAGE, "--ids and PROMPT cannot be combined");
    if (!o->json && !o->batch && (o->logprobs || o->n_top || o->digest)) {
        return sp_fail(err, SP_E_USAGE,
                       "--logprobs, --top-logprobs and --logits-digest require --json");
    }
    if (o->system != NULL && (o->raw || o->ids)) {
        return sp_fail(err, SP_E_USAGE, "--system requires a chat template, and %s uses none",
                       o->raw ? "--raw" : "--ids");
    }
    if (o->format && o->ignore_eos)
        return sp_fail(err, SP_E_USAGE, "--ignore-eos cannot be combined with --format");
    if (o->think != NULL && (o->raw || o->ids)) {
        return sp_fail(err, SP_E_USAGE, "--think requires a chat template, and %s uses none",
                       o->raw ? "--raw" : "--ids");
    }
    if (o->hide_thinking && (o->json || o->show_draft)) {
        return sp_fail(err, SP_E_USAGE, "--hide-thinking cannot be combined with --%s",
                       o->json ? "json" : "show-draft");
    }
    if (o->type && o->no_cache)
        return sp_fail(err, SP_E_USAGE, "--quantize cannot be combined with --no-cache");
    if (o->quiet && o->verbose)
        return sp_fail(err, SP_E_USAGE, "--quiet cannot be combined with --verbose");
    if (o->batch && args->n_operands > 1) {
        return sp_fail(err, SP_E_USAGE,
                       "--batch reads the prompts from standard input: spectool run %s --batch <%s",
                       args->operands[0],
                       sp_file_exists(args->operands[1]) ? args->operands[1] : "FILE");
    }
    if (o->batch && (o->ids || o->show_draft || o->hide_thinking || o->logprobs || o->n_top)) {
        return sp_fail(err, SP_E_USAGE,
                       "--batch cannot be combined with --ids, --show-draft, --hide-thinking, "
                       "--logprobs or --top-logprobs");
    }
    if (o->context_full && (o->batch || o->ids || args->n_operands > 1)) {
        return sp_fail(err, SP_E_USAGE,
                       "--context-full requires a session: no PROMPT, --ids or --batch");
    }
    if (o->context_full && o->raw)
        return sp_fail(err, SP_E_USAGE, "--context-full requires a chat template, --raw uses none");
    if (!o->batch && sp_args_given(args, "sessions"))
        return sp_fail(err, SP_E_USAGE, "--sessions requires --batch");
    if (!o->batch && o->part) return sp_fail(err, SP_E_USAGE, "--part requires --batch");
    if (!o->batch && o->output) return sp_fail(err, SP_E_USAGE, "--output requires --batch");
    if (o->json && o->show_draft)
        return sp_fail(err, SP_E_USAGE, "--show-draft cannot be combined with --json");
    return read_part(&part, &n_parts, o->part, err);
}

/* Returns an option that the requests of an API in a batch would ignore; NULL: none. */
static const char *option_of_prompts(const struct options *o)
{
    return o->raw          ? "--raw"
           : o->format     ? "--format"
           : o->think      ? "--think"
           : o->ignore_eos ? "--ignore-eos"
           : o->digest     ? "--logits-digest"
                           : NULL;
}

static enum sp_status run_batch(struct sp_loaded_model *m, const struct options *o,
                                struct sp_err *err)
{
    struct sp_batch_options batch = {.n_sessions = (size_t)o->sessions,
                                     .refused = option_of_prompts(o),
                                     .output = o->output,
                                     .quiet = o->quiet};
    enum sp_status st = read_part(&batch.part, &batch.n_parts, o->part, err);

    return st ? st : sp_batch(m, &batch, err);
}

/* True if reasoning is hidden: with --format and output to a file or pipe only the formatted
 * answer is printed. */
static bool hides_reasoning(const struct options *o)
{
    return o->format && !o->json && !o->show_draft && !sp_out_is_terminal(stdout);
}

/* True if this run begins with what earlier runs learned of drafting, and adds to it. */
static bool caches_drafting(const struct sp_loaded_model *m, const struct options *o)
{
    return m->package && m->info.draft && !m->no_draft && !o->no_cache;
}

/* Opens the file. session: an interactive one, which may still set another draft length. */
static enum sp_status open_file(struct sp_loaded_model *m, const struct sp_args *args, bool session,
                                struct sp_prompt_cache *prompts, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_backend_opts backend = o->backend;
    const char *type = o->type;
    enum sp_status st;

    backend.prompt_cache = prompts;
    if (!o->no_cache) {
        if (m->name != args->operands[0] && !sp_packed_checkpoint_is_needed(m->name))
            type = NULL; /* of a packed file that a session loads */
        if ((st = sp_packed_checkpoint_find(&m->own_path, m->name, type, args->command->name, err)))
            return st;
        m->path = m->own_path;
        m->style.started = sp_seconds();
    }
    if ((st = sp_loaded_model_read(m, args, o->raw || o->ids, o->system, err))) return st;
    if (!session && m->settings->draft_len == 0) m->no_draft = m->style.plain = true;
    if (o->batch) backend.max_batch = (size_t)o->sessions;
    if ((st = sp_loaded_model_open(m, args, &backend, err))) return st;
    if (m->n_adapters) m->lora = m->loras[0];
    if ((st = sp_session_set_lora(m->session, m->lora, 1, err))) return st;
    if (caches_drafting(m, o)) sp_drafting_cache_load(m->package);
    if (o->think && (st = sp_conversation_set_thinking(&m->conversation, o->think, err))) return st;
    if ((st = sp_loaded_model_check_reasoning_budget(m, args, err))) return st;
    if (o->settings.draft_len != 0)
        sp_loaded_model_note_no_effect(m, args, o->no_draft, draft_options);
    m->style.ids = !m->info.has_tokenizer;
    if (o->ids || o->batch || m->info.has_tokenizer) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer: give the prompt as --ids ID,ID,...",
                   m->name);
}

/* What another model of a session needs to be opened. */
struct opener {
    const struct sp_args *args;
    struct sp_prompt_cache *prompts;
};

/* As sp_repl_opener has it. The conversation goes through a saved session. */
static enum sp_status open_other(void *context, struct sp_loaded_model *m, const char *name,
                                 struct sp_err *err)
{
    const struct opener *opener = context;
    const struct options *o = opener->args->options;
    struct sp_settings settings = o->settings, kept;
    struct sp_loaded_model next = {.settings = &settings,
                                   .style = m->style,
                                   .adapters = m->adapters,
                                   .n_adapters = m->n_adapters,
                                   .record = m->record,
                                   .grammar = m->grammar,
                                   .no_draft = m->no_draft,
                                   .ignore_eos = m->ignore_eos,
                                   .shift = m->shift};
    struct sp_loaded_model before = *m;
    struct sp_temp_file saved = {0};
    struct sp_err why = {0};
    char *other = NULL;
    enum sp_status st;

    if (o->backend.group || sp_args_given(opener->args, "ranks"))
        return sp_fail(err, SP_E_UNSUPPORTED, "several processes keep the model that they have");
    if ((st = sp_copy_text(&next.own_name, name, strlen(name), err))) return st;
    next.name = next.path = next.own_name;
    if ((st = sp_temp_file_open(&saved, "session", err))) goto done;
    if (m->conversation.template && (st = sp_saved_session_write(saved.path, m, err))) goto done;
    if ((st = open_file(&next, opener->args, true, opener->prompts, err))) goto done;
    if (caches_drafting(m, o)) sp_drafting_cache_save(m->package);
    *m = next;
    m->settings = before.settings;
    m->conversation.settings = m->settings;
    kept = *m->settings;
    *m->settings = settings;
    settings = kept;
    next = before; /* is closed below */
    next.settings = &settings;
    if (sp_file_exists(saved.path) && sp_saved_session_read(saved.path, m, &other, &why))
        sp_repl_reply("The conversation begins anew: %s.", why.text);
done:
    sp_loaded_model_close(&next);
    sp_temp_file_remove(&saved);
    free(other);
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_settings settings = o->settings;
    bool session = !o->batch && o->ids == NULL && args->n_operands == 1 &&
                   sp_out_is_terminal(stdin) && sp_out_is_terminal(stdout);
    struct sp_loaded_model m = {
        .name = args->operands[0],
        .path = args->operands[0],
        .adapters = &o->adapter,
        .n_adapters = o->adapter ? 1 : 0,
        .settings = &settings,
        .style = {.json = o->json || o->batch,
                  .show_draft = o->show_draft,
                  .hide_reasoning = o->hide_thinking || hides_reasoning(o),
                  .verbose = o->verbose,
                  .rounds = !o->batch || o->verbose,
                  .session = session,
                  .wrap = !o->no_word_wrap && (session || !(o->raw || o->format)),
                  .quiet = o->quiet,
                  .started = sp_seconds(),
                  .digest = o->digest,
                  .plain = o->no_draft},
        .no_draft = o->no_draft,
        .ignore_eos = o->ignore_eos,
        .shift = o->context_full && strcmp(o->context_full, "shift") == 0,
        .logprobs = o->logprobs || o->n_top > 0,
        .n_top = (unsigned)o->n_top,
    };
    struct sp_grammar *grammar = NULL;
    struct sp_prompt_cache *prompts = NULL;
    char *folder = NULL;
    struct opener opener = {.args = args};
    const struct sp_repl_opener repl_opener = {open_other, &opener};
    enum sp_status st;

    if ((st = check_options(o, args, err))) goto done;
    if ((st = sp_response_format_read(&grammar, o->format, err))) goto done;
    m.grammar = grammar;
    if (o->record && (st = sp_record_open(&m.record, o->record, err))) goto done;
    if (!o->no_cache &&
        (st = sp_prompt_folder_open(&prompts, &folder, &o->backend, args->command->name, err)))
        goto done;
    opener.prompts = prompts;
    if ((st = open_file(&m, args, session, prompts, err))) goto done;
    if (!session && m.conversation.template == NULL) m.style.wrap = false;
    if (o->verbose && !m.style.json) sp_settings_print(stderr, &settings);
    note_draft_len(&m);
    note_caches(&m);
    sp_signals_catch();
    st = session    ? sp_repl_run(&m, &repl_opener, err)
         : o->batch ? run_batch(&m, o, err)
                    : run_once(&m, o, args, err);
done:
    if (caches_drafting(&m, o)) sp_drafting_cache_save(m.package);
    sp_loaded_model_close(&m);
    sp_prompt_cache_close(prompts);
    sp_record_close(m.record);
    sp_grammar_close(grammar);
    free(folder);
    return st;
}

static const struct options defaults = {.settings = SP_SETTINGS_DEFAULTS, .sessions = 8};

const struct sp_command sp_cmd_run = {
    .name = "run",
    .summary = "Generate text from a packed file or a checkpoint",
    .operands = "FILE [PROMPT]",
    .min_operands = 1,
    .max_operands = 2,
    .text_operand = "PROMPT",
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details =
        "Without PROMPT and --ids the prompt is read from standard input; on a terminal an "
        "interactive session starts (/? for help). Piped text is placed before PROMPT, "
        "separated by a blank line. If the file has a chat template, the prompt becomes a user "
        "message.\n\nSettings are taken "
        "from the command line, else from the file's PARAMETER records, else from the checkpoint's "
        "generation_config.json, else from built-in defaults.",
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
