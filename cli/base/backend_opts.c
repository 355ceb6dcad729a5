#include "cli/base/backend_opts.h"
#include "cli/base/out.h"

#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
const char *const sp_backend_kernels[] = {"auto",       "avx512", "amx",    "avxvnni",
                                          "avx512vnni", "avx2",   "scalar", NULL};
#elif defined(__aarch64__)
const char *const sp_backend_kernels[] = {"auto", "neon", "neon-i8mm", "scalar", NULL};
#else
const char *const sp_backend_kernels[] = {"auto", "scalar", NULL};
#endif
const char *const sp_backend_kv_types[] = {SP_CACHE_TYPE_NAMES, "auto", NULL};
const char *const sp_backend_draft_by[] = {"model", "lookup", "both", NULL};

void sp_backend_note_no_effect(const struct sp_args *args, const char *why,
                               const char *const *options)
{
    for (; *options; options++) {
        if (!sp_args_given(args, *options)) continue;
        sp_note(args->command->name, "%s: --%s has no effect", why, *options);
    }
}

void sp_backend_note_no_draft(const struct sp_args *args, const struct sp_package_info *info,
                              const char *const *options)
{
    if (info->draft == NULL) sp_backend_note_no_effect(args, "the file has no draft", options);
}

/* Ends the program when a rank is lost. */
static void end_without_rank(void *context, const char *sentence)
{
    (void)context;
    fflush(stdout);
    fprintf(stderr, "spectool: %s\n", sentence);
    _exit(SP_E_IO);
}

static void note_single_node(const struct sp_backend_opts *opts, const struct sp_package *package)
{
    struct sp_rank_info info = SP_RANK_INFO_INIT;

    sp_package_describe_ranks(package, &info);
    if (opts->n_ranks < 2 || info.n_numa_nodes > 1 || !sp_out_is_terminal(stderr)) return;
    fprintf(stderr, "spectool: note: this machine has one NUMA node: --ranks is no faster than "
                    "--threads\n");
}

enum sp_status sp_backend_check_reference(const struct sp_args *args,
                                          const struct sp_backend_opts *opts, struct sp_err *err)
{
    static const char *const others[] = {"threads", "ranks", "kernels"};

    if (!opts->reference) return SP_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sp_args_given(args, others[i]))
            return sp_fail(err, SP_E_USAGE, "--%s cannot be combined with --reference", others[i]);
    if (opts->group == NULL) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "the reference decoder computes in one process");
}

enum sp_status sp_backend_open_reference(struct sp_package **out, const char *path,
                                         enum sp_reference_mode mode, struct sp_err *err)
{
    const struct sp_reference_options options = {
        .size = sizeof options, .module = "spectool-blas.so", .mode = mode};

    return sp_package_open_reference(out, path, &options, err);
}

enum sp_status sp_backend_open_package(struct sp_package **out, const char *path,
                                       const struct sp_backend_opts *opts, struct sp_err *err)
{
    if (opts->group && opts->n_ranks > 1)
        return sp_fail(err, SP_E_USAGE, "--ranks under mpirun, which starts the ranks itself");
    if (opts->reference) return sp_backend_open_reference(out, path, SP_REFERENCE_FLOAT, err);
    bool named = opts->kernels != NULL && strcmp(opts->kernels, "auto") != 0;
    struct sp_package_options options = {
        .size = sizeof options,
        .n_ranks = (unsigned)opts->n_ranks,
        .rank_lost = end_without_rank,
        .group = opts->group,
        .kernels = named ? opts->kernels : NULL,
        .n_threads = (unsigned)opts->n_threads,
        .huge_pages = opts->huge_pages,
        .cache_memory = (size_t)opts->memory,
        .budget = opts->budget,
    };
    enum sp_status st = sp_package_open(out, path, &options, err);

    if (st == SP_OK) note_single_node(opts, *out);
    return st;
}

enum sp_cache_type sp_backend_cache_type(const struct sp_backend_opts *opts)
{
    /* The names are in the order of the types. */
    for (size_t i = 0; opts->kv_type && sp_backend_kv_types[i]; i++)
        if (strcmp(opts->kv_type, sp_backend_kv_types[i]) == 0) return (enum sp_cache_type)i;
    return SP_CACHE_F16;
}

enum sp_draft_by sp_backend_draft_by_of(const struct sp_backend_opts *opts)
{
    static const enum sp_draft_by values[] = {SP_DRAFT_BY_MODEL, SP_DRAFT_BY_NGRAM,
                                              SP_DRAFT_BY_BOTH};

    for (size_t i = 0; opts->draft_by && sp_backend_draft_by[i]; i++)
        if (strcmp(opts->draft_by, sp_backend_draft_by[i]) == 0) return values[i];
    return SP_DRAFT_BY_DEFAULT;
}

void sp_backend_describe(struct sp_package_info *out, const struct sp_package *package,
                         const struct sp_backend_opts *opts)
{
    *out = (struct sp_package_info)SP_PACKAGE_INFO_INIT;
    sp_package_describe(package, out);
    out->draft = sp_package_draft_name(package, sp_backend_draft_by_of(opts), &out->max_draft_len);
}

enum sp_status sp_backend_open_session(struct sp_session **out, struct sp_package *package,
                                       const struct sp_backend_opts *opts, bool no_draft,
                                       size_t rows_per_pass, struct sp_err *err)
{
    struct sp_session_options options = {
        .size = sizeof options,
        .n_context = (size_t)opts->n_context,
        .cache = sp_backend_cache_type(opts),
        .draft_by = no_draft ? SP_DRAFT_BY_NOTHING : sp_backend_draft_by_of(opts),
        .rows_per_pass = rows_per_pass,
        .max_batch = opts->max_batch,
        .prompt_cache = opts->prompt_cache,
    };

    return sp_session_open(out, package, &options, err);
}
