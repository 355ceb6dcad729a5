/* spectool replay: computes the answers of a record again, and names the first that differs. */
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/backend_opts.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/chat/loaded_model.h"
#include "format/base/hash.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_opt_list adapters;
    bool json, no_draft;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_LIST, 0, "adapter", NULL, "PATH", AT(adapters), .path = true,
     .help = "A LoRA adapter that the answers were generated with; repeatable"},
    {SP_OPT_FLAG, 0, "no-draft", NULL, NULL, AT(no_draft), .help = "Turn drafting off"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the result as JSON"},
    SP_OPT_THREADS(struct options, backend),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    {.kind = SP_OPT_END},
};

struct replay {
    const struct options *options;
    const char *log, *name; /* of the files */
    struct sp_package *package;
    struct sp_package_info info;
    struct sp_lora **loras; /* [adapters.n] owned */
    struct sp_session *session;
    const char *kv_type;                                /* of the session; static */
    size_t n_answers, n_tokens, n_logits_only, n_other; /* n_other: answers of other files */
};

/* Opens a session with the cache type and the context of the line, unless there is one. */
static enum sp_status open_session(struct replay *r, const struct sp_record_line *line,
                                   struct sp_err *err)
{
    struct sp_backend_opts backend = r->options->backend;

    if (r->session && r->kv_type == line->kv_type &&
        sp_session_n_context(r->session) == (size_t)line->n_context)
        return SP_OK;
    sp_session_close(r->session);
    r->session = NULL;
    backend.kv_type = r->kv_type = line->kv_type;
    backend.n_context = line->n_context;
    return sp_backend_open_session(&r->session, r->package, &backend, r->options->no_draft, 0, err);
}

static enum sp_status set_adapter(struct replay *r, const struct sp_record_line *line,
                                  struct sp_err *err)
{
    if (line->adapter == 0) return sp_session_set_lora(r->session, NULL, 1, err);
    for (size_t i = 0; i < r->options->adapters.n; i++)
        if (sp_lora_digest(r->loras[i], line->lora_scale) == line->adapter)
            return sp_session_set_lora(r->session, r->loras[i], line->lora_scale, err);
    return sp_fail(err, SP_E_USAGE, "the answer has an adapter that no --adapter gives");
}

static enum sp_status check_digest(const struct sp_record_line *line, uint64_t digest,
                                   struct sp_err *err)
{
    if (digest == line->digest) return SP_OK;
    return sp_fail(err, SP_E_CHECK, "logits with digest %016" PRIx64 ", recorded %016" PRIx64,
                   digest, line->digest);
}

static int stop_if_caught(void *context, const struct sp_token *token)
{
    (void)context;
    (void)token;
    return sp_signals_caught();
}

/* Generates the ids again. What ended the recorded answer does not matter: it has as many ids. */
static enum sp_status generate(struct replay *r, const struct sp_record_line *line,
                               struct sp_err *err)
{
    const struct sp_request request = {.size = sizeof request,
                                       .prompt = line->prompt,
                                       .n_prompt = line->n_prompt,
                                       .max_tokens = line->n_ids,
                                       .ignore_eos = true,
                                       .draft_len = r->options->no_draft ? 0 : SP_DRAFT_LENGTH_AUTO,
                                       .sampling = &line->sampling,
                                       .digest = true,
                                       .token = stop_if_caught};
    struct sp_result result = SP_RESULT_INIT;
    enum sp_status st;

    if ((st = sp_session_generate(r->session, &request, &result, err))) return st;
    if (result.stop == SP_STOP_CANCELLED) {
        st = sp_fail(err, SP_E_CANCELLED, "interrupted");
        goto done;
    }
    for (size_t i = 0; i < result.n_ids && i < line->n_ids; i++) {
        if (result.ids[i] == line->ids[i]) continue;
        st = sp_fail(err, SP_E_CHECK, "token %zu is %u, recorded %u", i, result.ids[i],
                     line->ids[i]);
        goto done;
    }
    if (result.n_ids < line->n_ids) {
        bool memory = result.stop == SP_STOP_MEMORY;
        st = sp_fail(err, memory ? SP_E_NOMEM : SP_E_USAGE, "ends after %zu of %zu tokens: %s",
                     result.n_ids, line->n_ids,
                     memory ? "the caches cannot grow" : "the context is full");
        goto done;
    }
    st = check_digest(line, result.logits_digest, err);
done:
    sp_result_release(&result);
    return st;
}

/* The rows of logits that chose the ids. */
struct rows {
    size_t first;
    struct sp_hash *hash;
};

static int hash_row(void *context, size_t row, const float *logits, size_t n_vocab)
{
    struct rows *rows = context;

    if (row >= rows->first) sp_hash_update(rows->hash, logits, n_vocab * sizeof *logits);
    return sp_signals_caught();
}

/* Computes the logits of the recorded ids. */
static enum sp_status compute_logits(struct replay *r, const struct sp_record_line *line,
                                     struct sp_err *err)
{
    struct rows rows = {.first = line->n_prompt - 1};
    size_t n = line->n_prompt + line->n_ids - 1;
    uint32_t *ids = NULL;
    enum sp_status st;

    if ((st = sp_new(&ids, n, sizeof *ids, err))) goto done;
    memcpy(ids, line->prompt, line->n_prompt * sizeof *ids);
    memcpy(ids + line->n_prompt, line->ids, (line->n_ids - 1) * sizeof *ids);
    if ((st = sp_hash_new(&rows.hash, err))) goto done;
    if ((st = sp_session_logits(r->session, ids, n, hash_row, &rows, err))) goto done;
    st = check_digest(line, sp_hash_digest(rows.hash), err);
done:
    sp_hash_free(rows.hash);
    free(ids);
    return st;
}

static enum sp_status replay_line(struct replay *r, const struct sp_record_line *line,
                                  struct sp_err *err)
{
    enum sp_status st;

    if (line->identity != r->info.identity) {
        r->n_other++;
        return SP_OK;
    }
    if ((st = open_session(r, line, err))) return st;
    if ((st = set_adapter(r, line, err))) return st;
    if ((st = line->logits_only ? compute_logits(r, line, err) : generate(r, line, err))) return st;
    r->n_answers++;
    r->n_tokens += line->n_ids;
    r->n_logits_only += line->logits_only;
    return SP_OK;
}

static enum sp_status replay_all(struct replay *r, FILE *log, struct sp_err *err)
{
    struct sp_progress progress;
    size_t cap = 0, number = 0;
    char *text = NULL;
    ssize_t size;
    enum sp_status st = SP_OK;

    sp_progress_begin(&progress, "replaying", "tokens");
    while (!st && (size = getline(&text, &cap, log)) > 0) {
        struct sp_record_line line = {0};
        number++;
        if (!(st = sp_record_line_read(&line, text, (size_t)size, err)))
            st = replay_line(r, &line, err);
        if (st) sp_context(err, "%s:%zu", r->log, number);
        sp_record_line_release(&line);
        sp_progress_show(&progress, r->n_tokens, 0);
    }
    if (!st && ferror(log)) st = sp_fail(err, SP_E_IO, "%s: %s", r->log, strerror(errno));
    if (!st && r->n_answers == 0) {
        st = sp_fail(err, SP_E_INPUT, "%s has no answers of %s, whose identity is %016" PRIx64,
                     r->log, r->name, r->info.identity);
    }
    sp_progress_end(&progress);
    free(text);
    return st;
}

static void print(const struct replay *r)
{
    struct sp_json_out out = {.file = stdout};

    if (!r->options->json) {
        printf("%s: %zu answer%s with %zu tokens: all equal", r->log, r->n_answers,
               r->n_answers == 1 ? "" : "s", r->n_tokens);
        if (r->n_logits_only) printf(", of %zu the logits alone", r->n_logits_only);
        if (r->n_other) printf("; %zu of other files left out", r->n_other);
        putchar('\n');
        return;
    }
    sp_json_out_put(&out, "{answers:%zu, tokens:%zu, logits_only:%zu, of_other_files:%zu}\n",
                    r->n_answers, r->n_tokens, r->n_logits_only, r->n_other);
}

static enum sp_status open_adapters(struct replay *r, const char *path, const char *command,
                                    struct sp_err *err)
{
    const struct sp_opt_list *list = &r->options->adapters;
    enum sp_status st;

    if ((st = sp_new(&r->loras, list->n, sizeof *r->loras, err))) return st;
    for (size_t i = 0; i < list->n; i++)
        if ((st = sp_lora_file_open(&r->loras[i], r->package, path, list->items[i], command, err)))
            return st;
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct replay r = {.options = o,
                       .log = args->operands[0],
                       .name = args->operands[1],
                       .info = SP_PACKAGE_INFO_INIT};
    char *path = NULL;
    FILE *log = NULL;
    enum sp_status st;

    sp_signals_catch();
    if ((log = fopen(r.log, "re")) == NULL) {
        st = sp_fail(err, SP_E_IO, "%s: %s", r.log, strerror(errno));
        goto done;
    }
    if ((st = sp_packed_checkpoint_find(&path, r.name, NULL, args->command->name, err))) goto done;
    if ((st = sp_backend_open_package(&r.package, path, &o->backend, err))) goto done;
    sp_package_describe(r.package, &r.info);
    if ((st = open_adapters(&r, path, args->command->name, err))) goto done;
    if ((st = replay_all(&r, log, err))) goto done;
    print(&r);
done:
    sp_session_close(r.session);
    for (size_t i = 0; r.loras && i < o->adapters.n; i++)
        sp_lora_close(r.loras[i]);
    free(r.loras);
    sp_package_close(r.package);
    if (log) fclose(log);
    free(path);
    return st;
}

static const struct options defaults = {.backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_replay = {
    .name = "replay",
    .summary = "Compute recorded answers again, and name the first that differs",
    .operands = "LOG FILE",
    .min_operands = 2,
    .max_operands = 2,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details = "LOG is what run --record and serve --record have written. Exit code 0: every token "
               "and every bit of the logits is the same; 1: an answer differs.",
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
