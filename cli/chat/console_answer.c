#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/chat/loaded_model.h"
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/system/energy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Prompts shorter than this are processed too fast for a progress line. */
enum { LONG_PROMPT = 512, LONG_ANSWER = 1000 };

struct stream {
    struct sp_console_style *style;
    size_t n_left; /* tokens until an answer without a limit is called long; 0: it has one */
    bool logprobs;
    bool progress_drawn, colored, dim;
    char last; /* the last character shown */
    struct sp_word_wrap wrap;
    struct sp_chat_reader *reader; /* separates reasoning; borrowed; NULL: all text is content */
    struct sp_repetition repetition;
    double prompt_at;            /* when the prompt began, by sp_seconds(); 0: not yet */
    size_t n_reused;             /* tokens of it that were processed before */
    double started, first_token; /* sp_seconds(); first_token 0: none yet */
    struct sp_energy energy;     /* since the first token */
    bool greedy;
    bool separate;  /* reasoning is shown separately or hidden */
    bool reasoning; /* the last text shown is reasoning */
    enum sp_status status;
    int write_errno; /* of standard output; 0: every write succeeded */
};

/* Shows how much of the prompt is processed and, once the speed is known, when all will be. */
static void draw_progress(struct stream *s, size_t done, size_t total)
{
    size_t n = done - s->n_reused;

    if (done == total) {
        if (s->progress_drawn) fputs("\r\x1b[K", stderr);
    } else {
        fprintf(stderr, "\rprocessing prompt: %zu of %zu tokens", done, total);
        if (n > 0) {
            double each = (sp_seconds() - s->prompt_at) / (double)n;
            fprintf(stderr, ", %.0f s left", each * (double)(total - done));
        }
        fputs("\x1b[K", stderr);
    }
    s->progress_drawn = done < total;
}

static int show_prompt_progress(void *context, size_t done, size_t total)
{
    struct stream *s = context;

    if (s->prompt_at <= 0) {
        s->prompt_at = sp_seconds();
        s->n_reused = done;
    }
    if (total >= LONG_PROMPT && sp_out_is_screen(stderr)) draw_progress(s, done, total);
    return sp_signals_caught();
}

static void color(struct stream *s, bool on)
{
    if (s->colored == on) return;
    fputs(on ? "\x1b[32m" : "\x1b[0m", stdout);
    s->colored = on;
}

static void write_text(struct stream *s, const char *text, size_t size)
{
    if (size == 0) return;
    sp_word_wrap_text(&s->wrap, text, size);
    s->last = text[size - 1];
}

static void dim(struct stream *s, bool on)
{
    if (s->dim == on) return;
    fputs(on ? "\x1b[2m" : "\x1b[0m", stdout);
    s->dim = on;
}

/* Writes the output so far; returns what callbacks return: if it cannot be written, answers end. */
static int flush(struct stream *s)
{
    if (fflush(stdout) && errno != EINTR && s->write_errno == 0) s->write_errno = errno;
    return s->write_errno != 0 || sp_signals_caught();
}

/* Shows a part of the answer: reasoning is dim, and an empty line follows it. */
static int show_part(void *context, const struct sp_chat_part *part)
{
    struct stream *s = context;
    bool reasoning = part->kind == SP_CHAT_REASONING;

    if (!s->separate || (reasoning && s->style->hide_reasoning)) return sp_signals_caught();
    dim(s, reasoning);
    if (s->reasoning && !reasoning) write_text(s, "\n\n", 2);
    s->reasoning = reasoning;
    write_text(s, part->text, part->size);
    return flush(s);
}

static int show_text(void *context, const char *text, size_t size, bool drafted)
{
    struct stream *s = context;

    if (size == 0) return sp_signals_caught();
    if (s->separate) return sp_signals_caught();
    if (s->style->json) {
        struct sp_json_out out = {.file = stdout};
        sp_json_out_begin(&out, NULL, '{');
        sp_json_out_string(&out, "text", text, size);
        sp_json_out_put(&out, "drafted:%d}\n", drafted);
    } else {
        if (s->style->show_draft) color(s, drafted);
        write_text(s, text, size);
    }
    return flush(s);
}

static void note_loop(struct stream *s)
{
    sp_note("run", "the answer repeats its last %zu token%s again and again; %s",
            s->repetition.period, s->repetition.period == 1 ? "" : "s",
            s->style->session ? "/set temperature 0.7 or /set repeat_penalty 1.1 may avoid it"
                              : "--num-predict ends it, --temperature or --repeat-penalty may "
                                "avoid it");
    s->style->reported_loop = true;
}

/* Watches a greedy answer for a loop. On a terminal the note waits for the end of the answer. */
static void watch_for_loop(struct stream *s, uint32_t id)
{
    bool mute = s->style->quiet || s->style->reported_loop;

    if (mute || !s->greedy || !sp_repetition_add(&s->repetition, id)) return;
    if (!sp_out_is_terminal(stdout) || !sp_out_is_terminal(stderr)) note_loop(s);
}

static int show_token(void *context, const struct sp_token *token)
{
    struct stream *s = context;
    struct sp_json_out out = {.file = stdout};

    if (s->first_token == 0) {
        s->first_token = sp_seconds();
        if (s->style->verbose) sp_energy_start(&s->energy, NULL);
    }
    if (s->style->verbose) sp_energy_keep_up(&s->energy, sp_seconds());
    watch_for_loop(s, token->id);
    /* Tells a script once that its answer goes on to the end of the context. */
    if (s->n_left > 0 && --s->n_left == 0)
        sp_note("run",
                "the answer is long and has no limit but the context; --num-predict sets one");
    if (s->style->ids && !s->style->json) {
        if (s->last != '\n') putchar(',');
        if (s->style->show_draft) color(s, token->drafted);
        printf("%" PRIu32, token->id);
        s->last = '0';
        return flush(s);
    }
    if (!s->style->json) return sp_signals_caught();
    sp_json_out_put(&out, "{id:%u, drafted:%d", token->id, token->drafted);
    if (s->logprobs) sp_json_out_double(&out, "logprob", (double)token->logprob);
    if (token->n_top > 0) {
        sp_json_out_begin(&out, "top_logprobs", '[');
        for (size_t i = 0; i < token->n_top; i++) {
            sp_json_out_put(&out, "{id:%u, logprob:%g}", token->top[i].id,
                            (double)token->top[i].logprob);
        }
        sp_json_out_end(&out, ']');
    }
    sp_json_out_end_line(&out);
    return sp_signals_caught();
}

static double share(size_t part, size_t all)
{
    return all ? (double)part / (double)all : 0;
}

double sp_answer_seconds(const struct sp_result *r)
{
    return r->draft_seconds + r->verify_seconds + r->plain_seconds;
}

/* Returns the number of tokens per pass of the target. The first token is not counted, since the
 * prompt's pass generates it. */
static double tokens_per_pass(const struct sp_result *r)
{
    return r->n_rounds ? (double)(r->n_ids - 1) / (double)r->n_rounds : 0;
}

static double rate(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void rounds_to_json(struct sp_json_out *out, const struct sp_result *r,
                           const struct sp_console_style *style)
{
    sp_json_out_begin(out, "rounds", '[');
    for (size_t i = 0; !style->plain && i < r->n_rounds; i++) {
        const struct sp_round_count *round = &r->rounds[i];
        sp_json_out_put(out, "{drafted:%u, accepted:%u", round->drafted, round->accepted);
        if (style->verbose) {
            sp_json_out_put(out, "asked:%u, made:%u, reason:%s", round->asked, round->made,
                            sp_round_reason_name(round->reason));
        }
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}

void sp_console_write_json(struct sp_json_out *out, const struct sp_result *r,
                           const struct sp_chat_answer *answer, const struct sp_package_info *info,
                           uint64_t seed, const struct sp_console_style *style)
{
    char digest[17];

    sp_json_out_begin(out, NULL, '{');
    if (style->custom_id) sp_json_out_text(out, "custom_id", style->custom_id);
    sp_ids_to_json(out, "ids", r->ids, r->n_ids);
    if (r->text)
        sp_json_out_string(out, "text", r->text, r->text_size);
    else
        sp_json_out_text(out, "text", NULL);
    if (answer != NULL) {
        sp_json_out_string(out, "content", answer->content.at, answer->content.len);
        sp_json_out_string(out, "thinking", answer->reasoning.at, answer->reasoning.len);
    }
    sp_json_out_text(out, "stop", sp_stop_name(r->stop));
    if (style->rounds) rounds_to_json(out, r, style);
    if (style->digest) {
        snprintf(digest, sizeof digest, "%016" PRIx64, r->logits_digest);
        sp_json_out_text(out, "logits_xxh3", digest);
    }
    sp_json_out_put(out,
                    "prompt_tokens:%zu, reused_tokens:%zu, guessed:%zu, drafted:%zu, "
                    "accepted:%zu, lookup_drafted:%zu, lookup_accepted:%zu, forced_drafted:%zu, "
                    "forced_accepted:%zu, all_accepted:%zu, mismatches:%zu, acceptance:%g, "
                    "tokens_per_pass:%g, acceptance_by_position:[",
                    r->n_prompt, r->n_reused, r->n_proposed, r->drafted, r->accepted,
                    r->ngram_drafted, r->ngram_accepted, r->grammar_drafted, r->grammar_accepted,
                    r->all_accepted, r->mismatches, share(r->accepted, r->drafted),
                    tokens_per_pass(r));
    for (size_t i = 0; i < r->n_draft_positions; i++) {
        sp_json_out_double(out, NULL,
                           share(r->draft_positions[i].accepted, r->draft_positions[i].tried));
    }
    sp_json_out_put(out,
                    "], prompt_seconds:%g, first_token_seconds:%g, draft_seconds:%g, "
                    "verify_seconds:%g, plain_seconds:%g, plain_rounds:%zu, plain_step_seconds:%g, "
                    "speed_up:%g, seed:%zu, kernels:%s, threads:%u, draft:%s}\n",
                    r->prompt_seconds, style->first_token_seconds, r->draft_seconds,
                    r->verify_seconds, r->plain_seconds, r->plain_rounds, r->plain_step_seconds,
                    r->speed_up, (size_t)seed, info->kernels, info->n_threads, info->draft);
}

static bool uses_ngrams(const struct sp_package_info *info)
{
    return info->draft != NULL && strncmp(info->draft, "lookup", strlen("lookup")) == 0;
}

/* *name = "n-gram drafting", "KIND drafting", or "n-gram and KIND drafting". Returns name. */
static const char *name_drafting(char *name, size_t size, const struct sp_package_info *info)
{
    const char *others = uses_ngrams(info) ? info->draft + strlen("lookup") : info->draft;

    snprintf(name, size, "%s%s drafting", uses_ngrams(info) ? "n-gram" : "", others);
    return name;
}

/* Speeds are compared only in answers of at least this many tokens, which took this long: with
 * shorter times the estimate is noise. So is a smaller speed-up, in which the first passes read the
 * weights from the disk. */
enum { ENOUGH_TO_COMPARE = 32 };
static const double seconds_to_compare = 0.25, least_speed_up = 0.1;

static void write_short(FILE *out, const struct sp_result *r, const struct sp_package_info *info,
                        const struct sp_console_style *style)
{
    size_t n = r->n_ids ? r->n_ids - 1 : 0;
    char name[64];

    fprintf(out, "%zu token%s", r->n_ids, r->n_ids == 1 ? "" : "s");
    if (n > 0) fprintf(out, ", %.1f tokens/s", rate(n, sp_answer_seconds(r)));
    fprintf(out, "; prompt of %zu", r->n_prompt);
    if (r->n_reused > 0) fprintf(out, " (%zu cached)", r->n_reused);
    fprintf(out, " in %.2f s, first token after %.2f s", r->prompt_seconds,
            style->first_token_seconds);
    if (info->draft != NULL && r->drafted > 0) {
        fprintf(out, "; %s: %zu of %zu draft tokens accepted (%.0f%%), %.2f tokens per target pass",
                name_drafting(name, sizeof name, info), r->accepted, r->drafted,
                100 * share(r->accepted, r->drafted), tokens_per_pass(r));
    }
    if (r->speed_up >= least_speed_up && r->drafted > 0 && r->n_ids >= ENOUGH_TO_COMPARE &&
        sp_answer_seconds(r) >= seconds_to_compare)
        fprintf(out, ", about %.1fx as fast as without drafting", r->speed_up);
}

/* Prints a note if the draft does not help: its first draft tokens are hardly ever accepted, or
 * most rounds ran without it because its proposals were too unlikely to pay. N-grams are never
 * reported, since they cost nothing. */
static bool report_useless(const struct sp_result *r, const struct sp_package_info *info)
{
    static const double low = 0.1;
    static const size_t min_rounds = 8;
    struct sp_position_count first = {0};

    if (uses_ngrams(info)) return false;
    if (r->n_draft_positions > 0) first = r->draft_positions[0];
    if (first.tried >= min_rounds && share(first.accepted, first.tried) < low) {
        sp_word_wrap_print(
            stderr, 0, "the draft does not help here: %zu of %zu first draft tokens were accepted",
            first.accepted, first.tried);
        return true;
    }
    if (r->n_proposed == 0 || r->plain_rounds < 2 * min_rounds ||
        r->plain_rounds <= r->n_rounds / 2)
        return false;
    sp_word_wrap_print(stderr, 0, "drafting does not pay here: %zu of %zu rounds ran without it",
                       r->plain_rounds, r->n_rounds);
    return true;
}

/* Writes the sources of the draft tokens if there was more than one. */
static void write_sources(FILE *out, const struct sp_result *r, const struct sp_package_info *info)
{
    bool other_draft = strcmp(info->draft, "lookup") != 0;

    if (uses_ngrams(info) && (other_draft || r->grammar_drafted > 0)) {
        fprintf(out, "by n-grams    %zu, accepted %zu, acceptance %.1f%%\n", r->ngram_drafted,
                r->ngram_accepted, 100 * share(r->ngram_accepted, r->ngram_drafted));
    }
    if (r->grammar_drafted > 0) {
        fprintf(out, "by grammar    %zu, accepted %zu, acceptance %.1f%%\n", r->grammar_drafted,
                r->grammar_accepted, 100 * share(r->grammar_accepted, r->grammar_drafted));
    }
}

/* The rate of prompt processing is shown for at least this many tokens, which took this long. */
enum { ENOUGH_FOR_RATE = 16 };
static const double seconds_for_rate = 0.05;

static void write_long(FILE *out, const struct sp_result *r, const struct sp_package_info *info,
                       const struct sp_console_style *style)
{
    size_t n = r->n_ids ? r->n_ids - 1 : 0, drafting = r->n_rounds - r->plain_rounds;
    size_t n_new = r->n_prompt - r->n_reused;

    fprintf(out, "stopped by    %s\n", sp_stop_name(r->stop));
    fprintf(out, "machine       %u thread%s, %s kernels\n", info->n_threads,
            info->n_threads == 1 ? "" : "s", info->kernels);
    fprintf(out, "prompt        %zu tokens (%zu cached) in %.3f s", r->n_prompt, r->n_reused,
            r->prompt_seconds);
    if (n_new >= ENOUGH_FOR_RATE && r->prompt_seconds >= seconds_for_rate)
        fprintf(out, ", %.1f tokens/s", rate(n_new, r->prompt_seconds));
    putc('\n', out);
    fprintf(out, "answer        %zu tokens in %.3f s, %.1f tokens/s\n", r->n_ids,
            sp_answer_seconds(r), rate(n, sp_answer_seconds(r)));
    fprintf(out, "first token   after %.3f s\n", style->first_token_seconds);
    if (n > 0 && style->joules > 0)
        fprintf(out, "energy        %.3g J/token of the processors\n", style->joules / (double)n);
    fprintf(out, "draft         %s", style->plain || info->draft == NULL ? "none" : info->draft);
    if (drafting > 0) {
        fprintf(
            out,
            "\nrounds        %zu with drafting (%zu accepted in full, %zu with a mismatch), %zu "
            "without\n",
            drafting, r->all_accepted, r->mismatches, r->plain_rounds);
        fprintf(
            out,
            "draft tokens  %zu, accepted %zu, acceptance %.1f%%; %zu more proposed, not verified\n",
            r->drafted, r->accepted, 100 * share(r->accepted, r->drafted),
            r->n_proposed - r->drafted);
        write_sources(out, r, info);
        fprintf(out, "per pass      %.2f tokens per target pass\n", tokens_per_pass(r));
        fputs("by position  ", out);
        for (size_t i = 0; i < r->n_draft_positions; i++) {
            fprintf(out, " %.0f%%",
                    100 * share(r->draft_positions[i].accepted, r->draft_positions[i].tried));
        }
        fputs(" of the first, second, ... draft tokens accepted", out);
        fprintf(out, "\ntime          %.3f s drafting, %.3f s verifying, %.3f s without drafting",
                r->draft_seconds, r->verify_seconds, r->plain_seconds);
    }
    if (r->speed_up > 0) {
        fprintf(out, "\nspeed-up      %.2fx; a step without drafting takes %.2f ms", r->speed_up,
                r->plain_step_seconds * 1e3);
    }
}

enum { LABEL_COLUMNS = 14 };

/* Prints statistics to stderr. */
static void report_text(const struct sp_result *r, const struct sp_package_info *info,
                        const struct sp_console_style *style)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) return;
    if (style->verbose)
        write_long(out, r, info, style);
    else
        write_short(out, r, info, style);
    if (sp_close_text(out, &text, NULL) == SP_OK)
        sp_word_wrap_print(stderr, style->verbose ? LABEL_COLUMNS : 0, "%s", text);
    free(text);
}

/* Prints the figures to stderr, or the last JSON object to stdout. reader: may be NULL */
static void report(const struct sp_result *result, const struct sp_chat_reader *reader,
                   const struct sp_package_info *info, uint64_t seed,
                   struct sp_console_style *style)
{
    struct sp_json_out out = {.file = stdout};
    struct sp_chat_answer answer = {.size = sizeof answer};

    if (reader) sp_chat_reader_answer(reader, &answer);
    if (style->json)
        sp_console_write_json(&out, result, reader ? &answer : NULL, info, seed, style);
    else if (!style->quiet)
        report_text(result, info, style);
    if (!style->reported_useless && !style->quiet)
        style->reported_useless = report_useless(result, info);
}

/* ---- an answer ---- */

static enum sp_status open_reader(struct stream *s, const struct sp_chat_prompt *prompt,
                                  struct sp_err *err)
{
    const struct sp_chat_reader_options options = {
        .size = sizeof options, .part = show_part, .context = s};

    s->separate = !s->style->json &&
                  (s->style->hide_reasoning || (sp_out_is_screen(stdout) && !s->style->show_draft));
    return sp_chat_reader_open(&s->reader, prompt, &options, err);
}

enum sp_status sp_console_answer(struct sp_result *result, struct sp_chat_reader **reader,
                                 struct sp_session *session, const struct sp_request *request,
                                 const struct sp_chat_prompt *prompt,
                                 const struct sp_package_info *info, struct sp_console_style *style,
                                 struct sp_err *err)
{
    struct stream stream = {
        .style = style,
        .logprobs = request->logprobs,
        .started = style->started > 0 ? style->started : sp_seconds(),
        .greedy = request->sampling == NULL || request->sampling->temperature <= 0,
        .last = '\n',
        .wrap = {.file = stdout},
    };
    struct sp_request r = *request;
    enum sp_status st;

    if (r.max_tokens == 0 && !style->quiet && !style->session &&
        !(sp_out_is_terminal(stdout) && sp_out_is_terminal(stderr)))
        stream.n_left = LONG_ANSWER;
    if (style->wrap && !style->show_draft) sp_word_wrap_begin(&stream.wrap, stdout);
    if (prompt != NULL && (st = open_reader(&stream, prompt, err))) return st;
    *reader = stream.reader;
    r.context = &stream;
    r.prompt_progress = show_prompt_progress;
    r.token = show_token;
    r.text = show_text;
    r.reader = stream.reader;
    st = sp_session_generate(session, &r, result, err);
    style->joules = sp_energy_joules(&stream.energy);
    if (!st && stream.write_errno)
        st = sp_fail(err, SP_E_IO, "standard output: %s", strerror(stream.write_errno));
    dim(&stream, false);
    color(&stream, false);
    if (stream.progress_drawn) fputs("\r\x1b[K", stderr);
    /* On a terminal a line end is added only if the answer lacks one; elsewhere one is always added
     * to a complete answer, so that a program gets the exact text by dropping the last byte. */
    if (!style->json && (stream.last != '\n' || (st == SP_OK && !sp_out_is_terminal(stdout))))
        putchar('\n');
    fflush(stdout);
    if (stream.repetition.period > 0 && !style->reported_loop) note_loop(&stream);
    style->first_token_seconds = stream.first_token > 0 ? stream.first_token - stream.started : 0;
    if (!st) report(result, stream.reader, info, request->sampling->seed, style);
    return st;
}
