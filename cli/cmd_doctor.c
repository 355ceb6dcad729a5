/* spectool doctor: one page on what limits a file on this machine: what the system says, what the
 * memory and the CPU can do, how near passes come, and what other types and drafts promise. */
#include "cli/commands.h"
#include "cli/base/backend_opts.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/bench/bench.h"
#include "cli/packed_checkpoint.h"
#include "format/system/cpus.h"
#include "format/base/file.h"
#include "format/system/free_memory.h"
#include "format/dtype.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>

struct options {
    struct sp_backend_opts backend;
};

static const struct sp_opt opts[] = {
    SP_OPT_THREADS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    SP_OPT_HUGE_PAGES(struct options, backend),
    {.kind = SP_OPT_END},
};

/* Passes are timed after this many tokens. The draft depths that are compared are one less than the
 * numbers of rows. */
enum { N_BEFORE = 16, N_REPEATS = 5, N_ROW_COUNTS = 5, CONTEXT = 64 };
static const size_t row_counts[N_ROW_COUNTS] = {1, 2, 4, 8, 16};

/* The fastest of several runs each. */
struct times {
    double verify[N_ROW_COUNTS], draft[N_ROW_COUNTS];
};

static int keep_fastest(void *context, size_t which, double verify_seconds, double draft_seconds)
{
    struct times *t = context;

    t->verify[which] = fmin(t->verify[which], verify_seconds);
    t->draft[which] = fmin(t->draft[which], draft_seconds);
    return 0;
}

static void print_machine(const struct sp_machine_facts *facts)
{
    char total[SP_AMOUNT_TEXT], left[SP_AMOUNT_TEXT];
    unsigned usable = sp_usable_cpus();

    printf("processor      %s\n", facts->processor[0] ? facts->processor : "unknown");
    printf("CPUs           %u", facts->n_cpus);
    if (facts->n_slow) printf(", %u of them of a slower kind", facts->n_slow);
    if (usable < facts->n_cpus) printf(", %u for this process", usable);
    printf("\nmemory         %s, %s left for this process\n",
           facts->memory ? sp_out_size(total, facts->memory) : "unknown",
           sp_out_size(left, sp_free_memory()));
    printf("huge pages     %s\n", facts->huge_pages[0] ? facts->huge_pages : "unknown");
}

static void print_limit(const char *what, double limit, double reached)
{
    printf("%-14s %.1f tokens/s of at most %.1f (%.0f %%)\n", what, reached, limit,
           100 * reached / limit);
}

/* The tokens a second of drafting `depth` tokens, each accepted with probability p if those before
 * it were. */
static double drafted_rate(const struct times *t, size_t which, double p)
{
    double tokens = 1, likely = p;

    for (size_t i = 1; i < row_counts[which]; i++, likely *= p)
        tokens += likely;
    return tokens / (t->verify[which] + t->draft[which]);
}

static void print_draft(const struct sp_package_info *info, const struct times *t)
{
    static const double accepted[] = {0.5, 0.7, 0.9};

    sp_word_wrap_print(
        stdout, 15,
        "\ndraft          %s; tokens/s by how many of its tokens are accepted:", info->draft);
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        size_t best = 0;
        for (size_t k = 1; k < N_ROW_COUNTS && row_counts[k] <= info->max_draft_len + 1; k++)
            if (drafted_rate(t, k, accepted[i]) > drafted_rate(t, best, accepted[i])) best = k;
        printf("  %2.0f %%         %.1f at depth %zu%s\n", 100 * accepted[i],
               drafted_rate(t, best, accepted[i]), row_counts[best] - 1,
               best ? "" : ", without drafting");
    }
}

/* What the file would reach if its weights were of one type and read as fast as they are now. */
static void print_types(double products, double bytes_per_second)
{
    sp_word_wrap_print(
        stdout, 15,
        "\nof one type    tokens/s without drafting, as fast as the weights are read now:");
    putchar(' ');
    for (size_t i = 0; i < SP_N_BLOCK_DTYPES; i++) {
        enum sp_dtype dtype = sp_block_dtypes[i].dtype;
        size_t cols = 1024, size = 0;
        if (!sp_panel_size(&size, dtype, cols)) continue;
        printf(" %s %.1f", sp_dtype_info(dtype)->name,
               bytes_per_second * SP_PANEL_ROWS * (double)cols / (products * (double)size));
    }
    putchar('\n');
}

static enum sp_status print_file(struct sp_session *session, const struct sp_package_info *info,
                                 struct sp_machine_speed *speed, struct sp_err *err)
{
    double size = (double)sp_session_read_size(session, N_BEFORE, 0);
    double products = sp_session_products(session, true);
    double memory = sp_machine_speed_memory(speed), peak = sp_machine_speed_products(speed);
    struct times t;
    enum sp_status st;

    for (size_t i = 0; i < N_ROW_COUNTS; i++)
        t.verify[i] = t.draft[i] = INFINITY;
    st = sp_session_benchmark(session, N_BEFORE, row_counts, N_ROW_COUNTS, N_REPEATS, keep_fastest,
                              &t, err);
    if (st) return st;
    memory = fmax(memory, sp_machine_speed_memory(speed));
    print_limit("one token", memory / size, 1 / t.verify[0]);
    if (peak > 0) print_limit("16 at once", peak / products, 16 / t.verify[N_ROW_COUNTS - 1]);
    print_types(products, size / t.verify[0]);
    if (info->draft) print_draft(info, &t);
    return SP_OK;
}

/* The bytes of the file that are in the page cache. */
static enum sp_status count_resident(uint64_t *resident, uint64_t *size, const char *path,
                                     struct sp_err *err)
{
    struct sp_mapping mapping = {0};
    enum sp_status st = sp_file_map(&mapping, path, err);

    if (st) return st;
    *size = mapping.size;
    *resident = sp_file_resident(&mapping);
    sp_file_unmap(&mapping);
    return SP_OK;
}

static enum sp_status examine(const struct sp_args *args, const char *path, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_backend_opts backend = o->backend;
    struct sp_package *package = NULL;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_session *session = NULL;
    struct sp_machine_speed *speed = NULL;
    struct sp_machine_facts facts;
    char cached[SP_AMOUNT_TEXT], whole[SP_AMOUNT_TEXT];
    uint64_t resident, size;
    enum sp_status st;

    if ((st = count_resident(&resident, &size, path, err))) goto done;
    if ((st = sp_backend_open_package(&package, path, &backend, err))) goto done;
    sp_signals_release();
    sp_package_describe(package, &info);
    if (!info.generates || info.max_positions < CONTEXT) {
        st = sp_fail(err, SP_E_UNSUPPORTED, "%s %s", args->operands[0],
                     info.generates ? "has too short a context to time passes"
                                    : "makes embeddings and does not generate");
        goto done;
    }
    backend.n_context = CONTEXT;
    if ((st = sp_backend_open_session(&session, package, &backend, info.draft == NULL, 0, err)))
        goto done;
    if ((st = sp_machine_speed_open(&speed, info.kernels, info.n_threads,
                                    sp_session_read_size(session, N_BEFORE, 0), err)))
        goto done;
    sp_machine_facts_read(&facts, "");
    print_machine(&facts);
    printf("kernels        %s, %u thread%s\nreads          %.1f GB/s\n", info.kernels,
           info.n_threads, info.n_threads == 1 ? "" : "s", sp_machine_speed_memory(speed) / 1e9);
    printf("multiplies     %.0f billion 8-bit numbers a second\n\n",
           sp_machine_speed_products(speed) / 1e9);
    printf("file           %s, %s of it in the page cache\n", sp_out_size(whole, size),
           sp_out_size(cached, resident));
    st = print_file(session, &info, speed, err);
done:
    sp_machine_speed_close(speed);
    sp_session_close(session);
    sp_package_close(package);
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    char *path = NULL;
    enum sp_status st;

    sp_signals_catch();
    if ((st = sp_packed_checkpoint_find(&path, args->operands[0], NULL, args->command->name, err)))
        return st;
    st = examine(args, path, err);
    free(path);
    return st;
}

static const struct options defaults = {.backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_doctor = {
    .name = "doctor",
    .summary = "Say what limits a packed file on this machine",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .run = run,
};
