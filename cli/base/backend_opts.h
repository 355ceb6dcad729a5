/* The options of the commands that run a model: threads, kernels, caches, context, draft length. */
#ifndef SP_CLI_BASE_BACKEND_OPTS_H
#define SP_CLI_BASE_BACKEND_OPTS_H

#include "cli/base/opt.h"
#include "format/base/pool.h"
#include "runtime/spectool_measure.h"

struct sp_backend_opts {
    int64_t n_threads;           /* 0: the number of cores */
    int64_t n_ranks;             /* 0: one */
    struct sp_rank_group *group; /* processes of mpirun, set by main; NULL: none */
    int64_t n_context;           /* 0: the model's maximum */
    uint64_t memory;             /* bytes that caches may hold; 0: what is free */
    int64_t draft_len;           /* or SP_DRAFT_LENGTH_AUTO */
    const char *kernels, *kv_type, *draft_by;
    const char *cache_dir; /* folder of processed prompts; NULL: that of the user */
    uint64_t cache_size;   /* bytes that it may take; 0: a share of the free disk */
    bool huge_pages;
    bool reference; /* the reference decoder computes */
    /* The following fields are set without an option. */
    struct sp_prompt_cache *prompt_cache; /* of the sessions; borrowed; NULL: none */
    size_t max_batch;                     /* most sessions to batch in one pass */
    struct sp_cache_budget *budget; /* shared by several packages, instead of `memory`; borrowed;
                                       NULL: none */
};

#define SP_BACKEND_DEFAULTS                                                                        \
    {                                                                                              \
        .draft_len = SP_DRAFT_LENGTH_AUTO                                                          \
    }

extern const char *const sp_backend_kernels[], *const sp_backend_kv_types[],
                                                   *const sp_backend_draft_by[];

/* Rows of option tables; `type` is the command's struct of options, `member` its backend_opts. */
#define SP_OPT_THREADS(type, member)                                                               \
    {                                                                                              \
        SP_OPT_INT, 't', "threads", NULL, "N", offsetof(type, member.n_threads),                   \
            .min = 1, .max = SP_POOL_MAX, .shown = "one per core",                                 \
            .help = "Number of threads; does not affect the output"                                \
    }
#define SP_OPT_RANKS(type, member)                                                                 \
    {                                                                                              \
        SP_OPT_INT, 0, "ranks", NULL, "N", offsetof(type, member.n_ranks),                         \
            .min = 1, .max = 64, .shown = "1",                                                     \
            .help = "Number of processes that compute together, best one per NUMA node; does not " \
                    "affect the output"                                                            \
    }
#define SP_OPT_KERNELS(type, member)                                                               \
    {                                                                                              \
        SP_OPT_CHOICE, 0, "kernels", NULL, "SET", offsetof(type, member.kernels),                  \
            .choices = sp_backend_kernels, .shown = "auto",                                        \
            .help = "Instruction set of the kernels; does not affect the output"                   \
    }
#define SP_OPT_KV_TYPE(type, member)                                                               \
    {                                                                                              \
        SP_OPT_CHOICE, 0, "kv-type", NULL, "TYPE", offsetof(type, member.kv_type),                 \
            .choices = sp_backend_kv_types, .shown = "f16", .help = "Type of the KV cache"         \
    }
#define SP_OPT_REFERENCE(type, member)                                                             \
    {                                                                                              \
        SP_OPT_FLAG, 0, "reference", NULL, NULL, offsetof(type, member.reference),                 \
            .help = "Compute with the reference decoder: weights in float32, products by "         \
                    "OpenBLAS, no rounding of activations; slow"                                   \
    }
#define SP_OPT_HUGE_PAGES(type, member)                                                            \
    {                                                                                              \
        SP_OPT_FLAG, 0, "huge-pages", NULL, NULL, offsetof(type, member.huge_pages),               \
            .help = "Load the file into huge pages instead of mapping it: "                        \
                    "slower to open, faster to run"                                                \
    }
#define SP_OPT_NUM_CTX(type, member)                                                               \
    {                                                                                              \
        SP_OPT_INT, 'c', "num-ctx", NULL, "N", offsetof(type, member.n_context),                   \
            .min = 1, .max = 1 << 30, .shown = "the model's maximum",                              \
            .help = "Maximum context in tokens; uses memory only as the text grows"                \
    }
#define SP_OPT_ADAPTER(type, member)                                                               \
    {                                                                                              \
        SP_OPT_STRING, 0, "adapter", NULL, "PATH", offsetof(type, member),                         \
            .path = true,                                                                          \
            .help = "Add a LoRA adapter to the target: a folder of PEFT or mlx-lm, or a GGUF "     \
                    "file; the file stays as it is, and drafting as exact"                         \
    }
#define SP_OPT_MEMORY(type, member)                                                                \
    {                                                                                              \
        SP_OPT_SIZE, 0, "memory", NULL, "SIZE", offsetof(type, member.memory),                     \
            .shown = "memory not used by the weights",                                             \
            .help = "Maximum memory for KV caches, such as 6G"                                     \
    }
/* clang-format off */
#define SP_OPT_PROMPT_CACHE(type, member)                                                          \
    {SP_OPT_STRING, 0, "cache-dir", NULL, "DIR", offsetof(type, member.cache_dir), .path = true,   \
     .shown = "in the user's cache folder",                                                        \
     .help = "Folder of processed prompts, from which later ones with the same beginning are "     \
             "read; does not affect the output"},                                                  \
    {SP_OPT_SIZE, 0, "cache-size", NULL, "SIZE", offsetof(type, member.cache_size),                \
     .shown = "a tenth of the free disk",                                                          \
     .help = "Maximum size of that folder, such as 20G; the oldest prompts are removed first"}
/* clang-format on */

/* Row of --draft-depth; `least` is 0 if the command can run without a draft, else 1. */
#define SP_OPT_DRAFT_DEPTH(type, member, least, text)                                              \
    {                                                                                              \
        SP_OPT_INT, 0, "draft-depth", NULL, "N", offsetof(type, member.draft_len),                 \
            .min = (least), .max = 1 << 16, .word = "auto", .word_value = SP_DRAFT_LENGTH_AUTO,    \
            .shown = "auto", .help = (text)                                                        \
    }

#define SP_OPT_DRAFT_BY(type, member, standard)                                                    \
    {                                                                                              \
        SP_OPT_CHOICE, 0, "draft-by", NULL, "SOURCE", offsetof(type, member.draft_by),             \
            .choices = sp_backend_draft_by, .shown = (standard),                                   \
            .help = "Source of draft tokens: the file's draft model, n-gram "                      \
                    "matches in the text so far (lookup), or both, whichever "                     \
                    "promises more"                                                                \
    }

/* Prints a note to stderr for each of `options` that was given: "why: --option has no effect". The
 * array ends with NULL. */
void sp_backend_note_no_effect(const struct sp_args *args, const char *why,
                               const char *const *options);

/* Prints these notes if the file has no draft, as info->draft says. */
void sp_backend_note_no_draft(const struct sp_args *args, const struct sp_package_info *info,
                              const char *const *options);

enum sp_draft_by sp_backend_draft_by_of(const struct sp_backend_opts *opts);

/* As sp_package_describe, but the draft is that of a session with the options' source of draft
 * tokens. */
void sp_backend_describe(struct sp_package_info *out, const struct sp_package *package,
                         const struct sp_backend_opts *opts);

/* SP_E_USAGE if an option was given that the reference decoder has no use for. */
SP_MUST_CHECK enum sp_status sp_backend_check_reference(const struct sp_args *args,
                                                        const struct sp_backend_opts *opts,
                                                        struct sp_err *err);

/* Opens a packed file for the reference decoder. */
SP_MUST_CHECK enum sp_status sp_backend_open_reference(struct sp_package **out, const char *path,
                                                       enum sp_reference_mode mode,
                                                       struct sp_err *err);

SP_MUST_CHECK enum sp_status sp_backend_open_package(struct sp_package **out, const char *path,
                                                     const struct sp_backend_opts *opts,
                                                     struct sp_err *err);
enum sp_cache_type sp_backend_cache_type(const struct sp_backend_opts *opts);
/* Opens a session. rows_per_pass: prompt tokens per pass; 0: the default. */
SP_MUST_CHECK enum sp_status sp_backend_open_session(struct sp_session **out,
                                                     struct sp_package *package,
                                                     const struct sp_backend_opts *opts,
                                                     bool no_draft, size_t rows_per_pass,
                                                     struct sp_err *err);

/* ---- LoRA adapters (lora_file.c) ----
 *
 * LoRA adapters that a command gives an open package, from the files that ADAPTER lines name. */

/* Reads the adapter at `path` (a folder of PEFT or mlx-lm, or a GGUF file) for a package that was
 * opened from the packed file at `packed`. It is opened before the sessions that may have it.
 * SP_E_UNSUPPORTED names a tensor that can only be merged. command: for notes. */
SP_MUST_CHECK enum sp_status sp_lora_file_open(struct sp_lora **out, struct sp_package *package,
                                               const char *packed, const char *path,
                                               const char *command, struct sp_err *err);

#endif
