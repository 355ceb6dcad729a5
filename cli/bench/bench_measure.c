/* Measures the figures of bench, each of which is a median. Passes of different numbers of rows,
 * and runs with and without drafting, alternate, so that slow phases of the machine affect all of
 * them equally. The memory bandwidth is sampled next to every figure. */
#include "cli/bench/bench.h"

#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/chat/conversation.h"
#include "format/base/clock.h"
#include "format/base/median.h"
#include "format/base/mem.h"
#include "format/system/energy.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

static const size_t built_in_depths[] = {64, 1024, 4096};
static const char *const built_in_texts[] = {
    "Once upon a time", "The three most important things to know about", "def fibonacci(n):"};
static const size_t built_in_sizes[] = {8, 32,
                                        128}; /* numbers of tokens, for files without a tokenizer */

enum {
    N_BUILT_IN_DEPTHS = sizeof built_in_depths / sizeof *built_in_depths,
    N_BUILT_IN_TEXTS = sizeof built_in_texts / sizeof *built_in_texts,
    N_BUILT_IN_SIZES = sizeof built_in_sizes / sizeof *built_in_sizes,
    PREFILL = 512,
    USUAL_CONTEXT = 4096,
};

struct run {
    struct sp_bench *bench;
    const struct sp_bench_options *options;
    struct sp_package *package;
    struct sp_session *session; /* owned */
    struct sp_machine_speed *speed;
    double *rates, *samples;          /* [2][n_repeat]: plain, drafted; [n_repeat]; owned */
    struct sp_bench_printer *printer; /* NULL: none */
    struct sp_energy energy;          /* since the first token of a generation */
    struct sp_progress progress;      /* of the current step */
    uint64_t n_done, n_total;         /* its units */
    struct sp_err *err;
};

/* ---- progress ---- */

static void begin_step(struct run *r, const char *label, const char *unit, uint64_t n_total)
{
    sp_progress_begin(&r->progress, label, unit);
    r->n_done = 0;
    r->n_total = n_total;
    sp_progress_show(&r->progress, 0, n_total);
}

static void advance(struct run *r)
{
    sp_progress_show(&r->progress, ++r->n_done, r->n_total);
}

/* Ends the progress bar of a step and prints the step if it succeeded. */
static enum sp_status end_step(struct run *r, enum sp_status st, enum sp_bench_step step,
                               size_t index)
{
    sp_progress_end(&r->progress);
    return st || r->printer == NULL ? st : sp_bench_print_step(r->printer, step, index, r->err);
}

static int count_token(void *context, const struct sp_token *token)
{
    struct run *r = context;

    (void)token;
    if (r->energy.root == NULL) sp_energy_start(&r->energy, NULL);
    sp_energy_keep_up(&r->energy, sp_seconds());
    advance(r);
    return 0;
}

/* ---- settings and prompts ---- */

static int compare_depths(const void *left, const void *right)
{
    const struct sp_bench_depth *a = left, *b = right;

    return (a->n_before > b->n_before) - (a->n_before < b->n_before);
}

static enum sp_status read_depths(struct run *r)
{
    struct sp_bench *b = r->bench;
    struct sp_ids ids = {0};
    enum sp_status st;

    if ((st = sp_ids_parse(&ids, r->options->depths, r->err))) {
        sp_context(r->err, "--depths");
        return st;
    }
    if (ids.n == 0 || ids.n > SP_BENCH_MAX_DEPTHS) {
        st = sp_fail(r->err, SP_E_USAGE, "--depths: %zu depths, expected 1 to %d", ids.n,
                     SP_BENCH_MAX_DEPTHS);
    }
    for (size_t i = 0; i < ids.n && !st; i++) {
        b->depths[b->n_depths++].n_before = ids.at[i];
        if (ids.at[i] == 0) st = sp_fail(r->err, SP_E_USAGE, "--depths: 0, expected 1 or more");
    }
    qsort(b->depths, b->n_depths, sizeof *b->depths, compare_depths);
    sp_ids_release(&ids);
    return st;
}

/* Opens the session with a context that holds the deepest passes. */
static enum sp_status open_session(struct run *r)
{
    struct sp_bench *b = r->bench;
    struct sp_backend_opts backend = r->options->backend;
    size_t need = USUAL_CONTEXT + SP_BENCH_MAX_ROWS;
    enum sp_status st;

    if (r->options->depths && (st = read_depths(r))) return st;
    if (b->n_depths && b->depths[b->n_depths - 1].n_before + SP_BENCH_MAX_ROWS > need)
        need = b->depths[b->n_depths - 1].n_before + SP_BENCH_MAX_ROWS;
    if (backend.n_context == 0)
        backend.n_context = (int64_t)(need < b->info.max_positions ? need : b->info.max_positions);
    return sp_backend_open_session(&r->session, r->package, &backend, b->info.draft == NULL, 0,
                                   r->err);
}

static enum sp_status choose_depths(struct run *r)
{
    struct sp_bench *b = r->bench;
    size_t n_context = sp_session_n_context(r->session), room;

    if (n_context <= SP_BENCH_MAX_ROWS) {
        return sp_fail(r->err, SP_E_USAGE, "a context of %zu tokens, expected more than %d",
                       n_context, SP_BENCH_MAX_ROWS);
    }
    room = n_context - SP_BENCH_MAX_ROWS;
    if (b->n_depths && b->depths[b->n_depths - 1].n_before > room) {
        return sp_fail(r->err, SP_E_USAGE,
                       "--depths: %zu, expected at most %zu in a context of %zu",
                       b->depths[b->n_depths - 1].n_before, room, n_context);
    }
    if (r->options->depths) return SP_OK;
    for (size_t i = 0; i < N_BUILT_IN_DEPTHS && built_in_depths[i] <= room; i++)
        b->depths[b->n_depths++].n_before = built_in_depths[i];
    if (b->n_depths == 0) b->depths[b->n_depths++].n_before = 1;
    return SP_OK;
}

static enum sp_status prompt_of_size(struct run *r, struct sp_ids *ids, size_t n)
{
    size_t room = sp_session_n_context(r->session) / 2;
    enum sp_status st;

    if (n > room) n = room;
    if ((st = sp_new(&ids->at, n, sizeof *ids->at, r->err))) return st;
    for (ids->n = 0; ids->n < n; ids->n++)
        ids->at[ids->n] = (uint32_t)((ids->n * 7919 + n) % r->bench->info.n_vocab);
    return SP_OK;
}

/* The prompt of a user's message, by the file's chat template or, if it has none, as it is. */
static enum sp_status prompt_of_text(struct run *r, struct sp_ids *ids, const char *text)
{
    struct sp_conversation c = {.now = sp_template_now()};
    enum sp_status st;

    if (!(st = sp_package_template(r->package, &c.template, r->err)) &&
        !(st = sp_conversation_attach(&c, r->package, r->err)) &&
        !(st = sp_conversation_add_user(&c, text, strlen(text), r->err))) {
        *ids = c.prompt;
        c.prompt = (struct sp_ids){0};
    }
    sp_conversation_release(&c);
    return st;
}

/* Reads prompt i of those given as options. */
static enum sp_status named_prompt(struct run *r, struct sp_ids *ids, size_t i)
{
    const struct sp_bench_options *o = r->options;
    const char *path;
    struct sp_text text;
    enum sp_status st;

    if (i < o->ids.n) return sp_ids_parse(ids, o->ids.items[i], r->err);
    i -= o->ids.n;
    if (i < o->texts.n) return prompt_of_text(r, ids, o->texts.items[i]);
    path = o->files.items[i - o->texts.n];
    if ((st = sp_input_text(&text, path, "a prompt", SP_INPUT_MOST, r->err))) return st;
    if ((st = prompt_of_text(r, ids, text.at))) sp_context(r->err, "%s", path);
    free(text.at);
    return st;
}

static enum sp_status read_prompts(struct run *r)
{
    struct sp_bench *b = r->bench;
    const struct sp_bench_options *o = r->options;
    size_t n_named = o->ids.n + o->texts.n + o->files.n;
    size_t n = n_named ? n_named : b->info.has_tokenizer ? N_BUILT_IN_TEXTS : N_BUILT_IN_SIZES;
    enum sp_status st = SP_OK;

    if (n > SP_BENCH_MAX_PROMPTS) {
        return sp_fail(r->err, SP_E_USAGE, "%zu prompts, expected at most %d", n,
                       SP_BENCH_MAX_PROMPTS);
    }
    for (; b->n_prompts < n && !st; b->n_prompts++) {
        struct sp_ids *ids = &b->prompts[b->n_prompts].ids;
        if (n_named) {
            st = named_prompt(r, ids, b->n_prompts);
        } else if (b->info.has_tokenizer) {
            const char *text = built_in_texts[b->n_prompts];
            st = sp_tokenizer_encode(sp_package_tokenizer(r->package), text, strlen(text),
                                     SP_ENCODE_ADD_SPECIAL, &ids->at, &ids->n, r->err);
        } else {
            st = prompt_of_size(r, ids, built_in_sizes[b->n_prompts]);
        }
    }
    return st;
}

/* ---- prompt and passes ---- */

/* Measures prompt processing. Each run's prompt starts with another token, so nothing is cached. */
static enum sp_status measure_prefill(struct run *r)
{
    struct sp_bench *b = r->bench;
    size_t n = sp_session_n_context(r->session) - 1;
    uint32_t ids[PREFILL];
    enum sp_status st;

    b->n_prefill = n < PREFILL ? n : PREFILL;
    for (size_t run = 0; run < r->options->n_repeat; run++) {
        struct sp_result result = SP_RESULT_INIT;
        struct sp_request request = {
            .size = sizeof request, .prompt = ids, .n_prompt = b->n_prefill, .max_tokens = 1};
        for (size_t i = 0; i < b->n_prefill; i++)
            ids[i] = (uint32_t)((run + 1 + i * 31) % b->info.n_vocab);
        r->samples[run] = sp_machine_speed_memory(r->speed);
        if ((st = sp_session_generate(r->session, &request, &result, r->err))) return st;
        r->rates[run] = result.prompt_seconds;
        sp_result_release(&result);
        advance(r);
    }
    b->prefill_seconds = sp_median(r->rates, r->options->n_repeat);
    b->prefill_bandwidth = sp_median(r->samples, r->options->n_repeat);
    b->prefill_row_products = sp_session_products(r->session, false);
    b->prefill_products = sp_machine_speed_products(r->speed);
    return SP_OK;
}

/* Generates n tokens one by one after the first prompt, whose caches are kept. */
static enum sp_status generate_plain(struct run *r, size_t n, struct sp_rank_info *after)
{
    const struct sp_ids *ids = &r->bench->prompts[0].ids;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_request request = {.size = sizeof request,
                                 .prompt = ids->at,
                                 .n_prompt = ids->n,
                                 .max_tokens = n,
                                 .ignore_eos = true};
    enum sp_status st = sp_session_generate(r->session, &request, &result, r->err);

    sp_result_release(&result);
    *after = (struct sp_rank_info)SP_RANK_INFO_INIT;
    sp_package_describe_ranks(r->package, after);
    return st;
}

/* Measures what ranks exchange, as the difference between generating one token and more. */
static enum sp_status measure_exchange(struct run *r)
{
    enum { PASSES = 16 };
    struct sp_bench_exchange *x = &r->bench->exchange;
    struct sp_rank_info before, first, last;
    double seconds;
    enum sp_status st;

    if ((st = generate_plain(r, 1, &before)) || (st = generate_plain(r, 1, &first))) return st;
    seconds = sp_seconds();
    if ((st = generate_plain(r, 1 + PASSES, &last))) return st;
    seconds = sp_seconds() - seconds;
    /* Without the pass of the prompt's last token, which the generation of one token runs too. */
    x->messages = (double)(last.messages - 2 * first.messages + before.messages);
    x->sent = (double)(last.sent - 2 * first.sent + before.sent);
    x->received = (double)(last.received - 2 * first.received + before.received);
    x->messages /= PASSES;
    x->sent /= PASSES;
    x->received /= PASSES;
    x->share = (last.seconds - first.seconds) / seconds;
    x->pass_seconds = seconds / (PASSES + 1); /* and one of the prompt's last token */
    x->product_seconds = (last.product_seconds - first.product_seconds) / (PASSES + 1);
    x->link = (struct sp_rank_link)SP_RANK_LINK_INIT;
    return sp_package_measure_link(r->package, &x->link, r->err);
}

/* The samples of the passes at a depth: times of passes and drafts, memory bandwidth, products. */
enum { N_SAMPLED = 4 };
struct passes {
    struct run *run; /* borrowed */
    double *samples; /* [N_SAMPLED][SP_BENCH_ROW_COUNTS][n_repeat]; owned */
    size_t n_repeat, n[SP_BENCH_ROW_COUNTS];
};

static int keep_timing(void *context, size_t which, double verify_seconds, double draft_seconds)
{
    struct passes *p = context;
    const double sampled[N_SAMPLED] = {verify_seconds, draft_seconds,
                                       sp_machine_speed_memory(p->run->speed),
                                       sp_machine_speed_products(p->run->speed)};
    size_t at = which * p->n_repeat + p->n[which]++;

    for (size_t i = 0; i < N_SAMPLED; i++)
        p->samples[i * SP_BENCH_ROW_COUNTS * p->n_repeat + at] = sampled[i];
    advance(p->run);
    return 0;
}

static enum sp_status measure_passes(struct run *r, struct sp_bench_depth *depth)
{
    double *const medians[N_SAMPLED] = {depth->verify_seconds, depth->draft_seconds,
                                        depth->bandwidth, depth->products};
    size_t n_repeat = r->options->n_repeat, n = N_SAMPLED * SP_BENCH_ROW_COUNTS;
    struct passes p = {.run = r, .n_repeat = n_repeat};
    enum sp_status st;

    depth->read_size = sp_session_read_size(r->session, depth->n_before, 0);
    depth->row_products = sp_session_products(r->session, true);
    if ((st = sp_new(&p.samples, n * n_repeat, sizeof *p.samples, r->err))) return st;
    st = sp_session_benchmark(r->session, depth->n_before, sp_bench_row_counts, SP_BENCH_ROW_COUNTS,
                              n_repeat, keep_timing, &p, r->err);
    for (size_t i = 0; i < n && !st; i++)
        medians[i / SP_BENCH_ROW_COUNTS][i % SP_BENCH_ROW_COUNTS] =
            sp_median(p.samples + i * n_repeat, n_repeat);
    free(p.samples);
    return st;
}

/* ---- generation with and without drafting ---- */

/* Generates once. The automatic length learns from the rounds of its session. */
static enum sp_status generate(struct run *r, const struct sp_ids *ids, bool drafts, uint64_t run,
                               struct sp_result *result)
{
    struct sp_simulation simulation = {r->options->acceptance, run};
    struct sp_request request = {
        .size = sizeof request,
        .prompt = ids->at,
        .n_prompt = ids->n,
        .max_tokens = r->options->n_predict,
        .ignore_eos = true,
        .draft_len = drafts ? (int)r->options->backend.draft_len : 0,
        .simulation = drafts && sp_bench_simulated(r->bench) ? &simulation : NULL,
        .token = count_token,
        .context = r,
    };

    r->energy = (struct sp_energy){0};
    return sp_session_generate(r->session, &request, result, r->err);
}

/* Fails if a run generated other tokens than the first run, which was without drafting. */
static enum sp_status compare_tokens(const struct run *r, size_t prompt,
                                     const struct sp_result *first, const struct sp_result *other)
{
    size_t n = first->n_ids < other->n_ids ? first->n_ids : other->n_ids;

    for (size_t i = 0; i < n; i++) {
        if (first->ids[i] == other->ids[i]) continue;
        return sp_fail(r->err, SP_E_CHECK, "prompt %zu, token %zu: %u with drafting, %u without",
                       prompt + 1, i + 1, (unsigned)other->ids[i], (unsigned)first->ids[i]);
    }
    if (first->n_ids == other->n_ids) return SP_OK;
    return sp_fail(r->err, SP_E_CHECK, "prompt %zu: %zu tokens with drafting, %zu without",
                   prompt + 1, other->n_ids, first->n_ids);
}

static enum sp_status measure_run(struct run *r, size_t prompt, bool drafts, size_t run,
                                  struct sp_result *first)
{
    struct sp_bench_prompt *p = &r->bench->prompts[prompt];
    struct sp_bench_runs *runs = drafts ? &p->drafted : &p->plain;
    struct sp_result result = SP_RESULT_INIT;
    double seconds;
    enum sp_status st;

    if ((st = generate(r, &p->ids, drafts, run, &result))) return st;
    runs->joules += sp_energy_joules(&r->energy);
    runs->n_tokens += result.n_ids - 1;
    runs->n_passes += result.n_rounds;
    runs->drafted += result.drafted;
    runs->accepted += result.accepted;
    seconds = result.draft_seconds + result.verify_seconds + result.plain_seconds;
    r->rates[drafts * r->options->n_repeat + run] =
        seconds > 0 ? (double)(result.n_ids - 1) / seconds : 0;
    if (first->ids == NULL) {
        *first = result;
        return SP_OK;
    }
    if (!drafts || !sp_bench_simulated(r->bench)) st = compare_tokens(r, prompt, first, &result);
    sp_result_release(&result);
    return st;
}

/* Measures a prompt in rounds of a run without and one with drafting. Each round starts with the
 * other one, the first without drafting, because the first run after a bandwidth sample finds the
 * sample's buffer in the CPU caches. */
static enum sp_status measure_prompt(struct run *r, size_t prompt)
{
    struct sp_bench_prompt *p = &r->bench->prompts[prompt];
    size_t n_repeat = r->options->n_repeat, n = r->bench->info.draft ? 2 : 1;
    struct sp_result first = SP_RESULT_INIT;
    enum sp_status st = SP_OK;

    for (size_t run = 0; run < n_repeat && !st; run++) {
        r->samples[run] = sp_machine_speed_memory(r->speed);
        for (size_t i = 0; i < n && !st; i++)
            st = measure_run(r, prompt, (run + i) % n == 1, run, &first);
    }
    p->n_generated = first.n_ids;
    sp_result_release(&first);
    if (st) return st;
    p->plain.rate = sp_median(r->rates, n_repeat);
    if (n == 2) p->drafted.rate = sp_median(r->rates + n_repeat, n_repeat);
    p->bandwidth = sp_median(r->samples, n_repeat);
    p->read_size = sp_session_read_size(r->session, p->ids.n + p->n_generated / 2, 0);
    return SP_OK;
}

static enum sp_status measure(struct run *r)
{
    const struct sp_bench *b = r->bench;
    size_t n_repeat = r->options->n_repeat;
    char label[48];
    enum sp_status st;

    if ((st = end_step(r, SP_OK, SP_BENCH_OPENED, 0))) return st;
    begin_step(r, "prompt processing", "runs", n_repeat);
    if ((st = end_step(r, measure_prefill(r), SP_BENCH_PREFILL, 0))) return st;
    for (size_t i = 0; i < b->n_depths; i++) {
        snprintf(label, sizeof label, "after %zu tokens", b->depths[i].n_before);
        begin_step(r, label, "passes", SP_BENCH_ROW_COUNTS * n_repeat);
        st = end_step(r, measure_passes(r, &r->bench->depths[i]), SP_BENCH_PASSES, i);
        if (st) return st;
    }
    if (b->info.n_ranks > 1 && (st = end_step(r, measure_exchange(r), SP_BENCH_EXCHANGE, 0)))
        return st;
    for (size_t i = 0; i < b->n_prompts; i++) {
        snprintf(label, sizeof label, "prompt %zu of %zu", i + 1, b->n_prompts);
        begin_step(r, label, "tokens", (b->info.draft ? 2 : 1) * n_repeat * r->options->n_predict);
        if ((st = end_step(r, measure_prompt(r, i), SP_BENCH_PROMPT, i))) return st;
    }
    return end_step(r, SP_OK, SP_BENCH_COMPLETE, 0);
}

enum sp_status sp_bench_measure(struct sp_bench *bench, struct sp_package *package,
                                const struct sp_bench_options *options,
                                struct sp_bench_printer *printer, struct sp_err *err)
{
    struct run r = {
        .bench = bench, .options = options, .package = package, .printer = printer, .err = err};
    size_t n = options->n_repeat;
    enum sp_status st;

    bench->options = options;
    sp_backend_describe(&bench->info, package, &options->backend);
    if (sp_bench_simulated(bench) &&
        sp_backend_draft_by_of(&options->backend) != SP_DRAFT_BY_MODEL) {
        return sp_fail(
            err, SP_E_USAGE,
            "--simulate-acceptance requires --draft-by model: n-gram drafting cannot be simulated");
    }
    if (options->backend.draft_len == 0) bench->info.draft = NULL;
    if (sp_bench_simulated(bench) && bench->info.draft == NULL) {
        return sp_fail(err, SP_E_USAGE, "--simulate-acceptance: %s has no draft model to measure",
                       bench->name);
    }
    if ((st = sp_new(&r.rates, 2 * n, sizeof *r.rates, err))) goto done;
    if ((st = sp_new(&r.samples, n, sizeof *r.samples, err))) goto done;
    if ((st = open_session(&r))) goto done;
    if ((st = choose_depths(&r))) goto done;
    if ((st = read_prompts(&r))) goto done;
    if ((st = sp_machine_speed_open(&r.speed, bench->info.kernels,
                                    bench->info.n_threads * bench->info.n_ranks,
                                    sp_session_read_size(r.session, 0, 0), err)))
        goto done;
    st = measure(&r);
done:
    sp_machine_speed_close(r.speed);
    sp_session_close(r.session);
    free(r.rates);
    free(r.samples);
    return st;
}
