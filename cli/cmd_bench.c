/* spectool bench: what a packed file does on this machine. Figures are medians; plain and
 * speculative runs alternate, so that a change of the machine's mood meets both. */
#include "cli/commands.h"
#include "cli/engine_opts.h"
#include "cli/ids.h"
#include "cli/out.h"
#include "format/mem.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_opt_list ids;
    int64_t n_predict, n_repeat;
    bool json;
    struct sp_engine_opts engine;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_LIST, 0, "ids", NULL, "ID,ID,...", AT(ids),
     .help = "A prompt as token ids; may be given several times"},
    {SP_OPT_INT, 0, "num-predict", NULL, "N", AT(n_predict), .min = 2, .max = 1 << 20,
     .shown = "128", .help = "Tokens to generate after each prompt"},
    {SP_OPT_INT, 0, "repeat", NULL, "N", AT(n_repeat), .min = 1, .max = 1000, .shown = "5",
     .help = "Runs of each measurement"},
    SP_OPT_NUM_CTX(struct options, engine),
    SP_OPT_DRAFT_DEPTH(struct options, engine),
    SP_OPT_THREADS(struct options, engine),
    SP_OPT_KERNELS(struct options, engine),
    SP_OPT_KV_TYPE(struct options, engine),
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "The figures as JSON"},
    {.kind = SP_OPT_END},
};

static const size_t row_counts[] = {1, 2, 4, 8, 12, 16};
static const char *const built_in_prompts[] = {
    "Once upon a time", "The three most important things to know about", "def fibonacci(n):"};

enum {
    N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts,
    N_BUILT_IN = sizeof built_in_prompts / sizeof *built_in_prompts,
    MAX_PROMPTS = 32,
    PREFILL = 512,
    DEPTH = 64, /* tokens in the caches when passes are timed */
};

struct bench {
    const struct options *options;
    struct sp_package *package;
    struct sp_package_info info;
    struct sp_session *session;
    struct sp_ids prompts[MAX_PROMPTS]; /* owned */
    size_t n_prompts;
    double *times, *other; /* [n_repeat] room for medians; owned */
    struct sp_err *err;
    /* results */
    size_t n_prefill;
    double prefill_seconds;
    double verify_seconds[N_ROW_COUNTS], draft_seconds[N_ROW_COUNTS];
    double plain_rate[MAX_PROMPTS], draft_rate[MAX_PROMPTS]; /* tokens per second */
    double acceptance[MAX_PROMPTS], per_pass[MAX_PROMPTS];
};

static int compare_doubles(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static enum sp_status interrupted(struct bench *b)
{
    return sp_signals_caught() ? sp_fail(b->err, SP_E_CHECK, "interrupted") : SP_OK;
}

static int stop_when_interrupted(void *context, const struct sp_token *token)
{
    (void)context;
    (void)token;
    return sp_signals_caught();
}

static enum sp_status read_prompts(struct bench *b)
{
    const struct sp_opt_list *list = &b->options->ids;
    enum sp_status st;

    if (list->n > MAX_PROMPTS) {
        return sp_fail(b->err, SP_E_USAGE, "%zu prompts, expected at most %d", list->n,
                       MAX_PROMPTS);
    }
    for (; b->n_prompts < list->n; b->n_prompts++) {
        st = sp_ids_parse(&b->prompts[b->n_prompts], list->items[b->n_prompts], b->err);
        if (st) return st;
    }
    for (size_t i = 0; list->n == 0 && i < N_BUILT_IN; i++) {
        struct sp_ids *ids = &b->prompts[i];
        st = sp_package_encode(b->package, built_in_prompts[i], strlen(built_in_prompts[i]),
                               SP_ENCODE_ADD_SPECIAL, &ids->at, &ids->n, b->err);
        if (st) return st;
        b->n_prompts++;
    }
    return SP_OK;
}

/* Each run's prompt begins with another token, so nothing of it is in the caches. */
static enum sp_status measure_prefill(struct bench *b)
{
    enum sp_status st;
    size_t n_repeat = (size_t)b->options->n_repeat;
    uint32_t ids[PREFILL];

    b->n_prefill = sp_session_n_context(b->session) - 1;
    if (b->n_prefill > PREFILL) b->n_prefill = PREFILL;
    for (size_t run = 0; run < n_repeat; run++) {
        struct sp_result result = {0};
        struct sp_request request = {
            .prompt = ids, .n_prompt = b->n_prefill, .max_tokens = 1, .plain = true};
        for (size_t i = 0; i < b->n_prefill; i++) {
            ids[i] = (uint32_t)((run + 1 + i * 31) % b->info.n_vocab);
        }
        if ((st = interrupted(b))) return st;
        if ((st = sp_session_generate(b->session, &request, &result, b->err))) return st;
        b->times[run] = result.prompt_seconds;
        sp_result_release(&result);
    }
    b->prefill_seconds = median(b->times, n_repeat);
    return SP_OK;
}

static enum sp_status measure_passes(struct bench *b)
{
    enum sp_status st;
    size_t before = DEPTH;

    if (before + 16 > sp_session_n_context(b->session)) before = 1;
    for (size_t i = 0; i < N_ROW_COUNTS; i++) {
        if ((st = interrupted(b))) return st;
        st = sp_session_time(b->session, before, row_counts[i], (unsigned)b->options->n_repeat,
                             &b->verify_seconds[i], &b->draft_seconds[i], b->err);
        if (st) return st;
    }
    return SP_OK;
}

/* One run; its rate behind the first token, which is the prompt's. */
static enum sp_status generate(struct bench *b, const struct sp_ids *ids, bool plain, double *rate,
                               struct sp_result *result)
{
    enum sp_status st;
    double seconds;
    struct sp_request request = {
        .prompt = ids->at,
        .n_prompt = ids->n,
        .max_tokens = (size_t)b->options->n_predict,
        .ignore_eos = true,
        .plain = plain,
        .depth = (int)b->options->engine.depth,
        .token = stop_when_interrupted,
    };

    if ((st = sp_session_generate(b->session, &request, result, b->err))) return st;
    if ((st = interrupted(b))) return st;
    seconds = result->draft_seconds + result->verify_seconds + result->plain_seconds;
    *rate = seconds > 0 ? (double)(result->n_ids - 1) / seconds : 0;
    return SP_OK;
}

static enum sp_status measure_prompt(struct bench *b, size_t prompt)
{
    enum sp_status st = SP_OK;
    size_t n_repeat = (size_t)b->options->n_repeat;

    for (size_t run = 0; run < n_repeat && st == SP_OK; run++) {
        struct sp_result plain = {0}, drafted = {0};
        st = generate(b, &b->prompts[prompt], true, &b->times[run], &plain);
        if (st == SP_OK && b->info.draft) {
            st = generate(b, &b->prompts[prompt], false, &b->other[run], &drafted);
            b->acceptance[prompt] =
                drafted.drafted ? (double)drafted.accepted / (double)drafted.drafted : 0;
            b->per_pass[prompt] =
                drafted.n_rounds ? (double)(drafted.n_ids - 1) / (double)drafted.n_rounds : 0;
        }
        sp_result_release(&plain);
        sp_result_release(&drafted);
    }
    if (st) return st;
    b->plain_rate[prompt] = median(b->times, n_repeat);
    if (b->info.draft) b->draft_rate[prompt] = median(b->other, n_repeat);
    return SP_OK;
}

static enum sp_status measure(struct bench *b)
{
    enum sp_status st;

    if ((st = measure_prefill(b))) return st;
    if ((st = measure_passes(b))) return st;
    for (size_t i = 0; i < b->n_prompts; i++) {
        if ((st = measure_prompt(b, i))) return st;
    }
    return SP_OK;
}

static double prefill_rate(const struct bench *b)
{
    return b->prefill_seconds > 0 ? (double)b->n_prefill / b->prefill_seconds : 0;
}

static double speed_up(const struct bench *b, size_t prompt)
{
    return b->plain_rate[prompt] > 0 ? b->draft_rate[prompt] / b->plain_rate[prompt] : 0;
}

static void print_text(const struct bench *b, const char *path)
{
    printf("%s, %u threads, %s kernels, medians of %lld\n\n", path, b->info.n_threads,
           b->info.kernels, (long long)b->options->n_repeat);
    printf("prompt of %zu: %.1f tokens/s\n\n", b->n_prefill, prefill_rate(b));
    puts("rows   pass ms   to one row   draft ms");
    for (size_t i = 0; i < N_ROW_COUNTS; i++) {
        printf("%4zu  %8.2f  %10.2fx", row_counts[i], b->verify_seconds[i] * 1e3,
               b->verify_seconds[i] / b->verify_seconds[0]);
        if (b->draft_seconds[i] > 0) printf("  %9.2f", b->draft_seconds[i] * 1e3);
        putchar('\n');
    }
    printf("\nprompt  plain tokens/s%s\n",
           b->info.draft ? "  drafted tokens/s  speed-up  acceptance  tokens per pass" : "");
    for (size_t i = 0; i < b->n_prompts; i++) {
        printf("%6zu  %14.1f", i + 1, b->plain_rate[i]);
        if (b->info.draft) {
            printf("  %16.1f  %7.2fx  %9.1f%%  %15.2f", b->draft_rate[i], speed_up(b, i),
                   100 * b->acceptance[i], b->per_pass[i]);
        }
        putchar('\n');
    }
}

static void print_json(const struct bench *b, const char *path)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_text(&out, "file", path);
    sp_json_out_u64(&out, "threads", b->info.n_threads);
    sp_json_out_text(&out, "kernels", b->info.kernels);
    sp_json_out_text(&out, "draft", b->info.draft);
    sp_json_out_u64(&out, "prefill_tokens", b->n_prefill);
    sp_json_out_double(&out, "prefill_rate", prefill_rate(b));
    sp_json_out_begin(&out, "passes", '[');
    for (size_t i = 0; i < N_ROW_COUNTS; i++) {
        sp_json_out_begin(&out, NULL, '{');
        sp_json_out_u64(&out, "rows", row_counts[i]);
        sp_json_out_double(&out, "seconds", b->verify_seconds[i]);
        sp_json_out_double(&out, "draft_seconds", b->draft_seconds[i]);
        sp_json_out_end(&out, '}');
    }
    sp_json_out_end(&out, ']');
    sp_json_out_begin(&out, "prompts", '[');
    for (size_t i = 0; i < b->n_prompts; i++) {
        sp_json_out_begin(&out, NULL, '{');
        sp_json_out_u64(&out, "prompt_tokens", b->prompts[i].n);
        sp_json_out_double(&out, "plain_rate", b->plain_rate[i]);
        if (b->info.draft) {
            sp_json_out_double(&out, "drafted_rate", b->draft_rate[i]);
            sp_json_out_double(&out, "speed_up", speed_up(b, i));
            sp_json_out_double(&out, "acceptance", b->acceptance[i]);
            sp_json_out_double(&out, "tokens_per_pass", b->per_pass[i]);
        }
        sp_json_out_end(&out, '}');
    }
    sp_json_out_end(&out, ']');
    sp_json_out_end(&out, '}');
    putchar('\n');
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const char *path = args->operands[0];
    struct bench b = {.options = args->options, .err = err};
    size_t n_repeat = (size_t)b.options->n_repeat;
    enum sp_status st;

    sp_signals_catch();
    if ((st = sp_engine_open_package(&b.package, path, &b.options->engine, err))) goto done;
    sp_package_describe(b.package, &b.info);
    if ((st = sp_new(&b.times, n_repeat, sizeof *b.times, err))) goto done;
    if ((st = sp_new(&b.other, n_repeat, sizeof *b.other, err))) goto done;
    if ((st = read_prompts(&b))) goto done;
    if ((st = sp_engine_open_session(&b.session, b.package, &b.options->engine, false, 0, err))) {
        goto done;
    }
    if ((st = measure(&b))) goto done;
    if (b.options->json)
        print_json(&b, path);
    else
        print_text(&b, path);
done:
    for (size_t i = 0; i < MAX_PROMPTS; i++)
        sp_ids_release(&b.prompts[i]);
    free(b.times);
    free(b.other);
    sp_session_close(b.session);
    sp_package_close(b.package);
    return st;
}

static const struct options defaults = {
    .n_predict = 128, .n_repeat = 5, .engine = SP_ENGINE_DEFAULTS};

const struct sp_command sp_cmd_bench = {
    .name = "bench",
    .summary = "Measure a packed file on this machine",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .run = run,
};
