/* spectool serve: serves a packed file over HTTP with the OpenAI, Anthropic and ollama APIs.
 *
 * One thread per session generates, the main thread among them; each connection has a thread of
 * its own; one thread waits for signals. */
#include "cli/base/opt.h"
#include "cli/base/embed_inputs.h"
#include "cli/base/out.h"
#include "cli/base/settings_opts.h"
#include "cli/chat/loaded_model.h"
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/serve/jobs/serve.h"
#include "cli/serve/serve_start.h"
#include "cli/serve/handlers.h"
#include "format/base/file.h"
#include "format/system/file_guard.h"
#include "format/system/macos.h"
#include "runtime/spectool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

struct options {
    struct sp_settings settings;
    struct sp_backend_opts backend; /* `backend` without the fields that the settings have */
    const char *host, *system, *api_key_file, *log_format;
    const char *pooling, *sandbox, *record, *type;
    struct sp_opt_list names, adapters, cors;
    int64_t port, max_queue, sessions, max_models;
    double keep_alive, shutdown_timeout;
    bool no_draft, no_cache, quiet, verbose;
};

enum { MOST_SESSIONS = 64, MAX_REQUEST_BYTES = 128 << 20 };

static const char *const log_formats[] = {"text", "json", NULL};
static const char *const sandboxes[] = {"auto", "on", "off", NULL};
static const char *const drafting[] = {"draft-depth", "accept", NULL};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Server"},
    {SP_OPT_STRING, 0, "host", NULL, "HOST", AT(host), .shown = "127.0.0.1, this machine only",
     .help = "Address to listen on; with a slash: path of a UNIX socket"},
    {SP_OPT_INT, 0, "port", NULL, "N", AT(port), .max = 65535, .shown = "11434",
     .help = "Port to listen on; 0: any free port"},
    {SP_OPT_LIST, 0, "name", NULL, "NAME", AT(names), .shown = "the file name without extension",
     .help = "Model name in requests; repeatable"},
    {SP_OPT_LIST, 0, "adapter", NULL, "NAME=PATH", AT(adapters),
     .help =
         "Add a LoRA adapter, a folder of PEFT or mlx-lm or a GGUF file, that requests for model "
         "NAME use; repeatable"},
    {SP_OPT_INT, 0, "max-queue", NULL, "N", AT(max_queue), .min = 1, .max = 512, .shown = "64",
     .help = "Maximum number of waiting requests"},
    {SP_OPT_INT, 0, "sessions", NULL, "N", AT(sessions), .min = 1, .max = MOST_SESSIONS,
     .shown = "4",
     .help =
         "Number of answers generated at the same time, and of conversations kept in the cache"},
    {SP_OPT_INT, 0, "max-models", NULL, "N", AT(max_models), .min = 1, .max = 1 << 20, .shown = "4",
     .help = "Maximum number of models open at the same time"},
    {SP_OPT_SECONDS, 0, "keep-alive", NULL, "TIME", AT(keep_alive), .shown = "-1, no limit",
     .help = "Close a model that has not been used for this long, such as 5m; 0: after each "
             "request"},
    {SP_OPT_SECONDS, 0, "shutdown-timeout", NULL, "TIME", AT(shutdown_timeout), .shown = "30s",
     .help = "Time that SIGTERM gives pending answers to be completed, such as 5m; -1: no limit"},
    {SP_OPT_LIST, 0, "cors", NULL, "ORIGIN", AT(cors), .shown = "none",
     .help = "Allow browser requests from these origins, with commas between them; * for all"},
    {SP_OPT_STRING, 0, "api-key-file", NULL, "FILE", AT(api_key_file), .path = true,
     .shown = "SPECTOOL_API_KEY, else no key",
     .help = "Accept only requests with a key of this file, one per line"},
    {SP_OPT_CHOICE, 0, "sandbox", NULL, "WHEN", AT(sandbox), .choices = sandboxes, .shown = "auto",
     .help = "Deny the server what it does not need after its start, such as writing files; auto: "
             "if the kernel can"},
    {SP_OPT_CHOICE, 0, "log-format", NULL, "FORMAT", AT(log_format), .choices = log_formats,
     .shown = "text", .help = "Format of the lines of the log"},
    {SP_OPT_STRING, 0, "record", NULL, "LOG", AT(record), .path = true,
     .help = "Append to LOG what spectool replay computes the answers again from; no text"},
    {SP_OPT_FLAG, 0, "quiet", NULL, NULL, AT(quiet), .help = "Do not log requests"},
    {SP_OPT_FLAG, 0, "verbose", NULL, NULL, AT(verbose),
     .help = "Print the settings and where each came from"},
    {SP_OPT_HEADING, .help = "Prompt"},
    {SP_OPT_STRING, 0, "system", NULL, "TEXT", AT(system),
     .help = "System message, instead of the file's; one in the request replaces it"},
    SP_OPT_NUM_CTX(struct options, settings),
    SP_OPT_MEMORY(struct options, backend),
    SP_OPT_PROMPT_CACHE(struct options, backend),
    {SP_OPT_HEADING, .help = "Stopping (defaults for requests)"},
    SP_OPT_SET_ENDING(struct options, settings),
    {SP_OPT_HEADING, .help = "Embeddings and reranking"},
    SP_OPT_POOLING(struct options, pooling, sp_embed_server_poolings,
                   "Which hidden states become an embedding: of the last token, the mean over all "
                   "tokens, or of the first token (cls); rank: score documents as Qwen3-Reranker "
                   "does"),
    {SP_OPT_HEADING, .help = "Drafting"},
    {SP_OPT_FLAG, 0, "no-draft", NULL, NULL, AT(no_draft), .help = "Turn drafting off"},
    SP_OPT_SET_DEPTH(struct options, settings),
    SP_OPT_DRAFT_BY(struct options, backend, "both, or model with a given draft depth"),
    SP_OPT_SET_ACCEPT(struct options, settings),
    {SP_OPT_FLAG, 0, "no-cache", NULL, NULL, AT(no_cache),
     .help = "Use no cache folder: neither read nor keep processed prompts and what was learned of "
             "drafting"},
    {SP_OPT_HEADING, .help = "Sampling (defaults for requests)"},
    SP_OPT_SET_SAMPLING(struct options, settings),
    {SP_OPT_HEADING, .help = "Machine"},
    SP_OPT_PACK_TYPE(struct options, type),
    SP_OPT_THREADS(struct options, settings),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    SP_OPT_HUGE_PAGES(struct options, backend),
    {.kind = SP_OPT_END},
};

/* ---- serving ---- */

/* Warns of sockets that other machines can reach, if no key is needed. */
static void warn_without_key(const struct sp_serve *s, const struct sp_listeners *listeners)
{
    for (size_t i = 0; i < listeners->n && s->keys->n == 0; i++) {
        const struct sp_listener *l = &listeners->at[i];
        if (l->local || l->loopback) continue;
        sp_note("serve", "everyone who can reach %s can use this server, see --api-key-file",
                l->url);
    }
}

/* Opens the sockets to listen on: those that systemd passed, or the one that the options name. */
static enum sp_status open_listeners(struct sp_listeners *out, const struct sp_args *args,
                                     struct sp_err *err)
{
    const struct options *o = args->options;
    enum sp_status st = sp_listen_activated(out, err);

    if (st) return st;
    if (out->n == 0) return sp_listen(out, o->host, (unsigned)o->port, err);
    if (!sp_args_given(args, "host") && !sp_args_given(args, "port")) return SP_OK;
    return sp_fail(err, SP_E_USAGE,
                   "--host and --port have no effect on the sockets of LISTEN_FDS");
}

static enum sp_status serve_requests(struct sp_serve *s, const struct sp_args *args,
                                     struct sp_listeners *listeners, struct sp_serve_guard *guard,
                                     struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_http_options http_options = {
        .budget = s->budget,
        .max_connections = (unsigned)o->max_queue + 64,
        .listeners = *listeners,
        .context = s,
        .admits = sp_serve_admits,
        .handle = sp_serve_handle,
        .log = sp_serve_log_request,
    };
    pthread_t threads[MOST_SESSIONS];
    struct sp_http *http = NULL;
    size_t n = 0;
    enum sp_status st;

    if ((st = sp_http_open(&http, &http_options, err))) goto done;
    listeners->n = 0;
    sp_serve_guard_serve(guard);
    warn_without_key(s, &http_options.listeners);
    for (size_t i = 0; i < http_options.listeners.n; i++)
        sp_serve_announce(s, http_options.listeners.at[i].url);
done:
    if (s->n_models == 1) sp_serve_models_release(s->models, s->all);
    if (st) return st;
    while (n + 1 < (size_t)o->sessions &&
           pthread_create(&threads[n], NULL, sp_serve_job_run_all, s) == 0)
        n++;
    sp_serve_job_run_all(s);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    sp_http_await_responses(http, sp_serve_guard_seconds_left(guard));
    sp_http_close(http);
    return SP_OK;
}

/* ---- models ---- */

/* Refuses options that mean one model. */
static enum sp_status check_several(const struct sp_args *args, struct sp_err *err)
{
    static const char *const single[] = {"name", "adapter", "ranks"};
    const struct options *o = args->options;

    if (o->backend.group)
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "mpirun: several processes can serve a single model only");
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (sp_args_given(args, single[i]))
            return sp_fail(err, SP_E_USAGE, "--%s needs a single model", single[i]);
    return SP_OK;
}

/* Adds the model or the models that an operand names. A folder with config.json is a checkpoint,
 * any other one holds packed files. */
static enum sp_status add_operand(struct sp_serve_paths *paths, const char *name, const char *type,
                                  const char *command, struct sp_err *err)
{
    char *config = NULL, *path = NULL;
    enum sp_status st;

    if ((st = sp_file_join(&config, name, "config.json", err))) return st;
    if (sp_file_is_folder(name) && !sp_file_exists(config)) {
        st = type ? sp_fail(err, SP_E_USAGE,
                            "%s: --quantize packs checkpoints and GGUF files, and this folder is "
                            "read for packed files",
                            name)
                  : sp_serve_paths_add_folder(paths, name, err);
    } else {
        st = sp_packed_checkpoint_find(&path, name, type, command, err);
        if (!st) st = sp_serve_paths_add(paths, name, path, true, err);
    }
    free(path);
    free(config);
    return st;
}

static enum sp_status find_models(struct sp_serve_paths *paths, const struct sp_args *args,
                                  struct sp_err *err)
{
    const struct options *o = args->options;
    enum sp_status st = args->n_operands > 1 ? check_several(args, err) : SP_OK;

    for (size_t i = 0; i < args->n_operands && !st; i++)
        st = add_operand(paths, args->operands[i], o->type, args->command->name, err);
    return !st && paths->n > 1 ? check_several(args, err) : st;
}

/* The failure of a part of the sandbox if the user demands the sandbox; else prints a note. */
static enum sp_status settle(enum sp_status st, bool must, struct sp_err *err)
{
    if (st && must) {
        sp_context(err, "--sandbox on");
        return st;
    }
    if (st) {
        sp_note("serve", "%s", err->text);
        *err = (struct sp_err){0};
    }
    return SP_OK;
}

/* Denies the server what it does not need from here on. MPI needs files and connections. */
static enum sp_status enter_sandbox(const struct sp_serve_paths *paths,
                                    const struct sp_serve_adapters *adapters,
                                    const struct sp_listeners *listeners, const char *prompts,
                                    const struct options *o, struct sp_err *err)
{
    bool must = o->sandbox && strcmp(o->sandbox, "on") == 0;
    char *drafting_cache = NULL;
    enum sp_status st;

    if (must && o->backend.group)
        return sp_fail(err, SP_E_UNSUPPORTED, "--sandbox on: not under mpirun");
    if (o->backend.group || (o->sandbox && strcmp(o->sandbox, "off") == 0)) return SP_OK;
    if (!o->no_cache && !o->no_draft) drafting_cache = sp_drafting_cache_folder();
    st = sp_serve_sandbox_enter(paths, adapters, prompts, drafting_cache, listeners, err);
    free(drafting_cache);
    if ((st = settle(st, must, err))) return st;
    if (!must && !sp_serve_syscalls_can_be_filtered()) return SP_OK;
    return settle(sp_serve_syscalls_filter(err), must, err);
}

/* Is called by a thread that generates, for which the memory of --memory does not suffice. */
static bool reclaim_memory(void *context)
{
    const struct sp_serve *s = context;

    return sp_serve_models_reclaim(s->models);
}

/* Makes the budget that the caches of all models share. */
static enum sp_status open_budget(struct sp_serve *s, struct sp_backend_opts *backend,
                                  struct sp_err *err)
{
    const struct sp_cache_budget_options options = {
        .size = sizeof options,
        .limit = (size_t)backend->memory,
        .reclaim = reclaim_memory,
        .context = s,
    };
    enum sp_status st = sp_cache_budget_new(&s->caches, &options, err);

    backend->budget = s->caches;
    return st;
}

/* Opens the only model before the first request and checks the options that depend on it. */
static enum sp_status open_first(struct sp_serve *s, const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    enum sp_status st;

    if (sp_serve_models_acquire(s->models, s->all, s->keep_alive, NULL, err)) return err->status;
    st = sp_loaded_model_check_reasoning_budget(s->all->loaded, args, err);
    if (!st && o->settings.draft_len != 0)
        sp_loaded_model_note_no_effect(s->all->loaded, args, o->no_draft, drafting);
    return st;
}

/* Blocks of more than a megabyte go back to the system when they are freed. By default glibc keeps
 * those of up to 32 MiB, for each of its threads' arenas. */
static void return_large_blocks(void)
{
#if defined(__GLIBC__)
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

/* Joins the values of --cors by commas, and checks them. */
static enum sp_status read_origins(struct sp_strbuf *out, const struct sp_opt_list *list,
                                   struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < list->n && !st; i++) {
        if (i > 0) out->at[out->len - 1] = ',';
        st = sp_strbuf_append(out, list->items[i], strlen(list->items[i]) + 1, err);
    }
    return st || list->n == 0 ? st : sp_serve_cors_check(out->at, err);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    pthread_mutex_t template_locks[] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    struct sp_serve_keys keys = {0};
    struct sp_serve_budget budget = SP_SERVE_BUDGET_INIT(MAX_REQUEST_BYTES);
    struct sp_serve s = {.keep_alive = o->keep_alive,
                         .template_locks = template_locks,
                         .version = sp_version(),
                         .host = o->host,
                         .budget = &budget,
                         .keys = &keys,
                         .cache_limit = (size_t)o->backend.memory,
                         .n_sessions = (size_t)o->sessions,
                         .quiet = o->quiet,
                         .pooling = sp_embed_pooling_of(o->pooling),
                         .log_json = o->log_format && strcmp(o->log_format, "json") == 0};
    struct sp_serve_opener opener = {
        .serve = &s,
        .options = {.args = args,
                    .settings = &o->settings,
                    .backend = o->backend,
                    .system = o->system,
                    .no_draft = o->no_draft,
                    .n_sessions = (size_t)o->sessions},
        .models = {.max_open = (size_t)o->max_models,
                   .max_waiting = (size_t)o->max_queue,
                   .keep_open = o->backend.n_ranks > 1 || o->backend.group},
        .verbose = o->verbose,
        .no_cache = o->no_cache};
    struct sp_listeners listeners = {.n = 0};
    char *prompts = NULL;
    struct sp_strbuf cors = {0};
    struct sp_serve_guard guard = {
        .serve = &s, .patience = o->shutdown_timeout, .has_ranks = o->backend.n_ranks > 1};
    enum sp_status st;

    if ((st = read_origins(&cors, &o->cors, err)) ||
        (st = sp_serve_queue_new(&s.queue, (size_t)o->max_queue, (size_t)o->sessions, err))) {
        sp_strbuf_release(&cors);
        return st;
    }
    s.cors = cors.at;
    sp_file_guard_start();
    return_large_blocks();
    opener.options.backend.max_batch = (size_t)o->sessions;
    if ((st = sp_serve_keys_read(&keys, o->api_key_file, getenv("SPECTOOL_API_KEY"), err)) ||
        (st = sp_serve_adapters_read(&opener.options.adapters, &o->adapters, err)) ||
        (st = find_models(&opener.paths, args, err)) ||
        (st = open_listeners(&listeners, args, err)) ||
        (o->record && (st = sp_record_open(&opener.options.record, o->record, err))) ||
        (!o->no_cache && (st = sp_prompt_folder_open(&opener.options.backend.prompt_cache, &prompts,
                                                     &o->backend, args->command->name, err))) ||
        (st =
             enter_sandbox(&opener.paths, &opener.options.adapters, &listeners, prompts, o, err)) ||
        (st = sp_serve_guard_start(&guard, err)) ||
        (st = open_budget(&s, &opener.options.backend, err)) ||
        (st = sp_serve_opener_open(&opener, &o->names, err)) ||
        (st = sp_serve_metrics_new(&s.metrics, s.n_models, err)))
        goto done;
    if (s.n_models == 1 && (st = open_first(&s, args, err))) goto done;
    st = serve_requests(&s, args, &listeners, &guard, err);
done:
    sp_listen_close(&listeners);
    sp_serve_guard_end(&guard);
    sp_serve_opener_close(&opener);
    sp_prompt_cache_close(opener.options.backend.prompt_cache);
    free(prompts);
    sp_record_close(opener.options.record);
    sp_serve_adapters_release(&opener.options.adapters);
    sp_cache_budget_close(s.caches);
    sp_serve_queue_free(s.queue);
    sp_serve_metrics_free(s.metrics);
    sp_serve_keys_release(&keys);
    sp_strbuf_release(&cors);
    return st;
}

static const struct options defaults = {.settings = SP_SETTINGS_DEFAULTS,
                                        .host = "127.0.0.1",
                                        .port = 11434,
                                        .max_queue = 64,
                                        .sessions = 4,
                                        .max_models = 4,
                                        .keep_alive = -1,
                                        .shutdown_timeout = 30};

const struct sp_command sp_cmd_serve = {
    .name = "serve",
    .summary = "Serve packed files over HTTP (OpenAI, Anthropic and ollama APIs)",
    .operands = "FILE|DIR...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .reads_environment = true,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details =
        "DIR without config.json means all packed files in it. "
        "Endpoints: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, "
        "/v1/messages/count_tokens, /api/chat and /api/generate; GET /v1/models, /api/tags, "
        "/health, /ready and /metrics; spectool-serve(1) lists all. Concurrent requests are "
        "answered "
        "in one batch, which does not change any answer. Settings that a request leaves out "
        "default "
        "as in run.\n\n"
        "An option that is not given may be set by the environment: SPECTOOL_SERVE_MAX_QUEUE=8 is "
        "--max-queue 8.",
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
