#include "cli/chat/loaded_model.h"
#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"

#include "format/base/atomic_file.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sp_record {
    const char *path; /* borrowed */
    int fd;
    bool torn; /* the last line was not written to its end */
    pthread_mutex_t lock;
};

enum sp_status sp_record_open(struct sp_record **out, const char *path, struct sp_err *err)
{
    static const char beginning[] = "{\"version\": ";
    struct sp_record *record = NULL;
    struct stat info;
    enum sp_status st;

    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
        (st = sp_atomic_file_check_replaced(path, beginning, strlen(beginning), "record", err)))
        return st;
    if ((st = sp_new(&record, 1, sizeof *record, err))) return st;
    record->path = path;
    record->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (record->fd < 0) {
        free(record);
        return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
    }
    pthread_mutex_init(&record->lock, NULL);
    *out = record;
    return SP_OK;
}

void sp_record_close(struct sp_record *record)
{
    if (record == NULL) return;
    close(record->fd);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

/* ---- writing ---- */

static void hash_to_json(struct sp_json_out *out, const char *key, uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, hash);
    sp_json_out_text(out, key, text);
}

/* Writes the options that are not the standard ones. */
static void sampling_to_json(struct sp_json_out *out, const struct sp_sampling *s)
{
    const struct sp_sampling standard = SP_SAMPLING_INIT;
    char value[SP_SAMPLING_VALUE_SIZE], usual[SP_SAMPLING_VALUE_SIZE];
    const char *name;

    sp_json_out_begin(out, "sampling", '{');
    for (size_t i = 0; (name = sp_sampling_get(s, i, value)) != NULL; i++) {
        sp_sampling_get(&standard, i, usual);
        if (strcmp(value, usual) != 0) sp_json_out_text(out, name, value);
    }
    sp_json_out_put(out, "}, seed:%zu, biases:[", (size_t)s->seed);
    for (size_t i = 0; i < s->n_biases; i++)
        sp_json_out_put(out, "%u, %g", s->biases[i].id, (double)s->biases[i].bias);
    sp_json_out_end(out, ']');
    if (s->dry_breakers == NULL) return;
    sp_json_out_begin(out, "dry_sequence_breakers", '[');
    for (size_t i = 0; i < s->n_dry_breakers; i++)
        sp_json_out_text(out, NULL, s->dry_breakers[i]);
    sp_json_out_end(out, ']');
}

/* True if the ids depend on more than prompt, settings and seed: on a grammar, a limit of
 * reasoning, a least number of tokens, or on drafts. */
static bool is_constrained(const struct sp_request *r)
{
    return r->grammar || r->reasoning_limit || r->min_tokens ||
           (r->sampling && r->sampling->accept == SP_ACCEPT_REJECTION);
}

static enum sp_status write_all(struct sp_record *record, const char *bytes, size_t size,
                                struct sp_err *err)
{
    while (size > 0) {
        ssize_t n = write(record->fd, bytes, size);
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
            record->torn = size > 0;
        } else if (n == 0 || errno != EINTR) {
            return sp_fail(err, SP_E_IO, "%s: %s", record->path, strerror(errno));
        }
    }
    return SP_OK;
}

/* Whole lines, of answers that end at the same time. A torn line is ended first. */
static enum sp_status append(struct sp_record *record, const char *bytes, size_t size,
                             struct sp_err *err)
{
    enum sp_status st;

    pthread_mutex_lock(&record->lock);
    st = record->torn ? write_all(record, "\n", 1, err) : SP_OK;
    if (!st) st = write_all(record, bytes, size, err);
    pthread_mutex_unlock(&record->lock);
    return st;
}

enum sp_status sp_loaded_model_record(const struct sp_loaded_model *m, const struct sp_request *r,
                                      const struct sp_result *result, struct sp_err *err)
{
    const struct sp_sampling standard = SP_SAMPLING_INIT;
    const struct sp_lora *lora;
    struct sp_json_out out = {0};
    float scale;
    struct sp_text line;
    enum sp_status st;

    if (m->record == NULL || result->stop == SP_STOP_CANCELLED) return SP_OK;
    lora = sp_session_lora(m->session, &scale);
    sp_json_out_put(&out, "{version:%s", sp_version());
    hash_to_json(&out, "file", m->info.identity);
    sp_json_out_text(&out, "kv_type",
                     m->backend.kv_type ? m->backend.kv_type : sp_backend_kv_types[0]);
    sp_json_out_u64(&out, "num_ctx", sp_session_n_context(m->session));
    if (lora) {
        hash_to_json(&out, "adapter", sp_lora_digest(lora, scale));
        sp_json_out_double(&out, "adapter_scale", (double)scale);
    }
    sp_ids_to_json(&out, "prompt", r->prompt, r->n_prompt);
    sampling_to_json(&out, r->sampling ? r->sampling : &standard);
    sp_json_out_bool(&out, "logits_only", is_constrained(r));
    sp_ids_to_json(&out, "ids", result->ids, result->n_ids);
    hash_to_json(&out, "logits_xxh3", result->logits_digest);
    sp_json_out_end_line(&out);
    if ((st = sp_json_out_take(&line, &out, err))) return st;
    st = append(m->record, line.at, line.size, err);
    free(line.at);
    return st;
}

/* ---- reading ---- */

/* *out = a member of 16 hexadecimal digits. A missing one stays 0 unless it must be there. */
static enum sp_status read_hash(uint64_t *out, const struct sp_json *root, const char *key,
                                bool must, struct sp_err *err)
{
    const char *text = NULL;
    enum sp_status st;

    if ((st = sp_json_get_string(root, key, &text, err))) return st;
    if (text == NULL && !must) return SP_OK;
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return sp_fail(err, SP_E_INPUT, "%s: expected 16 hexadecimal digits", key);
    *out = strtoull(text, NULL, 16);
    return SP_OK;
}

static enum sp_status read_ids(uint32_t **ids, size_t *n, const struct sp_json *root,
                               const char *key, struct sp_err *err)
{
    struct sp_ids all = {0};
    enum sp_status st = sp_ids_of_json(&all, sp_json_get(root, key), err);

    if (st) {
        sp_context(err, "%s", key);
        return st;
    }
    *ids = all.at;
    *n = all.n;
    return all.n ? SP_OK : sp_fail(err, SP_E_INPUT, "%s is empty", key);
}

static enum sp_status read_numbers(struct sp_sampling *s, const struct sp_json *object,
                                   struct sp_err *err)
{
    enum sp_status st;

    for (struct sp_json_iter it = {0}; sp_json_next(object, &it);) {
        const char *value = sp_json_to_string(it.value, NULL);
        if (value == NULL) return sp_fail(err, SP_E_INPUT, "sampling: %s is no text", it.key);
        if ((st = sp_sampling_set(s, it.key, value, err))) return st;
    }
    return SP_OK;
}

/* Reads ids and biases, in turn. */
static enum sp_status read_biases(struct sp_record_line *line, const struct sp_json *array,
                                  struct sp_err *err)
{
    size_t n = sp_json_len(array) / 2;
    struct sp_logit_bias *biases = NULL;
    enum sp_status st;

    if ((st = sp_new(&biases, n, sizeof *biases, err))) return st;
    line->biases = biases;
    for (size_t i = 0; i < n; i++) {
        uint64_t id;
        double bias;
        if (!sp_json_to_u64(sp_json_at(array, 2 * i), &id) || id > UINT32_MAX ||
            !sp_json_to_double(sp_json_at(array, 2 * i + 1), &bias))
            return sp_fail(err, SP_E_INPUT, "biases: expected token IDs and numbers");
        biases[i] = (struct sp_logit_bias){(uint32_t)id, (float)bias};
    }
    line->sampling.biases = biases;
    line->sampling.n_biases = n;
    return SP_OK;
}

static enum sp_status read_breakers(struct sp_record_line *line, const struct sp_json *array,
                                    struct sp_err *err)
{
    const char **texts = NULL;
    size_t n = sp_json_len(array);
    enum sp_status st;

    if (array == NULL) return SP_OK;
    if ((st = sp_new(&texts, n, sizeof *texts, err))) return st;
    line->breakers = texts;
    for (size_t i = 0; i < n; i++) {
        texts[i] = sp_json_to_string(sp_json_at(array, i), NULL);
        if (texts[i] == NULL)
            return sp_fail(err, SP_E_INPUT, "dry_sequence_breakers: expected texts");
    }
    line->sampling.dry_breakers = texts;
    line->sampling.n_dry_breakers = n;
    return SP_OK;
}

static enum sp_status read_members(struct sp_record_line *line, struct sp_err *err)
{
    const struct sp_json *root = line->root;
    double scale = 1;
    enum sp_status st;

    if ((st = read_hash(&line->identity, root, "file", true, err))) return st;
    if ((st = read_hash(&line->digest, root, "logits_xxh3", true, err))) return st;
    if ((st = read_hash(&line->adapter, root, "adapter", false, err))) return st;
    if ((st = sp_json_get_double(root, "adapter_scale", -1e6, 1e6, &scale, err))) return st;
    line->lora_scale = (float)scale;
    if ((st = sp_json_get_string(root, "kv_type", &line->kv_type, err))) return st;
    if (line->kv_type == NULL) return sp_fail(err, SP_E_INPUT, "kv_type is missing");
    if ((st = sp_opt_choose(&line->kv_type, sp_backend_kv_types, "kv_type", line->kv_type, err)))
        return st;
    if ((st = sp_json_get_i64(root, "num_ctx", 1, INT32_MAX, &line->n_context, err))) return st;
    if (line->n_context == 0) return sp_fail(err, SP_E_INPUT, "num_ctx is missing");
    if ((st = read_ids(&line->prompt, &line->n_prompt, root, "prompt", err))) return st;
    if ((st = read_ids(&line->ids, &line->n_ids, root, "ids", err))) return st;
    if ((st = sp_json_get_bool(root, "logits_only", &line->logits_only, err))) return st;
    if (!sp_json_to_u64(sp_json_get(root, "seed"), &line->sampling.seed))
        return sp_fail(err, SP_E_INPUT, "seed: expected an integer");
    if ((st = read_numbers(&line->sampling, sp_json_get(root, "sampling"), err))) return st;
    if ((st = read_biases(line, sp_json_get(root, "biases"), err))) return st;
    return read_breakers(line, sp_json_get(root, "dry_sequence_breakers"), err);
}

enum sp_status sp_record_line_read(struct sp_record_line *out, const char *text, size_t size,
                                   struct sp_err *err)
{
    struct sp_record_line line = {.sampling = SP_SAMPLING_INIT};
    enum sp_status st;

    if ((st = sp_json_parse_within(&line.root, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err)))
        return st;
    if ((st = read_members(&line, err))) {
        sp_record_line_release(&line);
        return st;
    }
    *out = line;
    return SP_OK;
}

void sp_record_line_release(struct sp_record_line *line)
{
    free(line->prompt);
    free(line->ids);
    free(line->biases);
    free(line->breakers);
    sp_json_free(line->root);
    *line = (struct sp_record_line){0};
}
