#include "cli/serve/handlers.h"

#include "cli/base/embed_inputs.h"
#include "cli/serve/jobs/serve.h"
#include "format/base/bytes.h"
#include "format/base/clock.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* As in OpenAI's API; it bounds the memory of a response. */
enum { MAX_TEXTS = 2048 };

/* The texts of a request and their embeddings. */
struct job {
    struct sp_embed_inputs inputs;
    int64_t n_dimensions; /* 0: all */
    float *rows;          /* [inputs.n][width]; owned */
    size_t width;
};

static void release_job(struct job *job)
{
    sp_embed_inputs_release(&job->inputs);
    free(job->rows);
}

/* Reads the members that the APIs share. The number of dimensions is checked by the library. */
static enum sp_status read_options(struct job *job, const struct sp_exchange *x, const char *hints,
                                   struct sp_err *err)
{
    const struct sp_json *body = x->asked.body;
    enum sp_status st;

    sp_serve_read_hints(body, hints);
    job->inputs.package = x->asked.model->loaded->package;
    if ((st = sp_json_get_string(body, "prompt_name", &job->inputs.prompt, err))) return st;
    return sp_json_get_i64(body, "dimensions", 1, INT32_MAX, &job->n_dimensions, err);
}

static enum sp_status add_text(struct job *job, struct sp_exchange *x, const struct sp_json *value,
                               struct sp_err *err)
{
    enum sp_status st;

    if (job->inputs.n == MAX_TEXTS)
        return sp_fail(err, SP_E_INPUT, "input has more than %d texts", MAX_TEXTS);
    st = sp_embed_inputs_add_json(&job->inputs, value, err);
    if (st == SP_E_USAGE && job->inputs.too_long) x->asked.fault.code = "context_length_exceeded";
    if (st) sp_context(err, "input");
    return st;
}

/* A text or an array of them; where token IDs are allowed, a text may be an array of those. */
static enum sp_status read_texts(struct job *job, struct sp_exchange *x, const char *key,
                                 bool allow_ids, struct sp_err *err)
{
    const struct sp_json *value = sp_json_get(x->asked.body, key);
    int64_t id;
    enum sp_status st = SP_OK;

    if (sp_json_kind(value) == SP_JSON_STRING) return add_text(job, x, value, err);
    if (sp_json_kind(value) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "%s: expected a string or an array", key);
    if (allow_ids && sp_json_to_i64(sp_json_at(value, 0), &id)) return add_text(job, x, value, err);
    for (size_t i = 0; i < sp_json_len(value) && !st; i++)
        if (allow_ids || sp_json_kind(sp_json_at(value, i)) == SP_JSON_STRING)
            st = add_text(job, x, sp_json_at(value, i), err);
        else
            st = sp_fail(err, SP_E_INPUT, "%s: element %zu is not a string", key, i);
    return st;
}

int sp_serve_embed_is_abandoned(void *context, size_t done, size_t total)
{
    const struct sp_exchange *x = context;

    (void)done;
    (void)total;
    return sp_http_is_gone(x->request->connection) ||
           sp_serve_queue_is_abandoned(x->serve->queue, NULL);
}

static enum sp_status compute(struct job *job, struct sp_exchange *x, struct sp_err *err)
{
    struct sp_embedding_request request = {
        .size = sizeof request,
        .texts = job->inputs.texts,
        .n_texts = job->inputs.n,
        .pooling = x->serve->pooling,
        .n_dimensions = (size_t)job->n_dimensions,
        .context = x,
        .progress = sp_serve_embed_is_abandoned,
    };
    enum sp_status st;

    st = sp_serve_model_check_base(x->asked.model, sp_serve_model_name(&x->asked), err);
    if (st) return st;
    st = sp_package_embed(x->asked.model->loaded->package, &request, &job->rows, &job->width, err);
    if (!st)
        sp_serve_metrics_embeddings(x->serve->metrics, x->asked.model->number, job->inputs.n,
                                    job->inputs.n_tokens);
    return st;
}

static void write_numbers(struct sp_json_out *out, const char *key, const float *row, size_t n)
{
    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < n; i++)
        sp_json_out_double(out, NULL, (double)row[i]);
    sp_json_out_end(out, ']');
}

/* ---- OpenAI ---- */

/* Writes numbers as the base64 (RFC 4648) of their little-endian bytes. `text` has space for 4
 * characters for every 3 bytes begun. */
static size_t encode_base64(char *text, const float *row, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n_bytes = 4 * n, len = 0;

    for (size_t at = 0; at < n_bytes; at += 3) {
        uint32_t group = 0;
        size_t k = n_bytes - at < 3 ? n_bytes - at : 3;
        for (size_t i = 0; i < 3; i++) {
            size_t byte = at + i;
            uint32_t bits = i < k ? sp_bits_of_float(row[byte / 4]) >> 8 * (byte % 4) & 0xff : 0;
            group = group << 8 | bits;
        }
        for (size_t i = 0; i < 4; i++)
            text[len++] = i <= k ? digits[group >> (18 - 6 * i) & 63] : '=';
    }
    return len;
}

static enum sp_status write_openai(struct sp_json_out *out, const struct job *job, bool base64,
                                   struct sp_err *err)
{
    char *text = NULL;
    enum sp_status st = SP_OK;

    if (base64 && (st = sp_new(&text, (4 * job->width + 2) / 3 * 4, 1, err))) return st;
    sp_json_out_put(out, "object:'list', data:[");
    for (size_t i = 0; i < job->inputs.n; i++) {
        const float *row = job->rows + i * job->width;
        sp_json_out_put(out, "{object:'embedding', index:%zu", i);
        if (base64)
            sp_json_out_string(out, "embedding", text, encode_base64(text, row, job->width));
        else
            write_numbers(out, "embedding", row, job->width);
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
    free(text);
    return SP_OK;
}

enum sp_status sp_serve_openai_embeddings(struct sp_json_out *out, struct sp_exchange *x,
                                          struct sp_err *err)
{
    struct job job = {0};
    const char *format = "float";
    bool base64;
    enum sp_status st;

    if ((st = sp_json_get_string(x->asked.body, "encoding_format", &format, err))) return st;
    base64 = strcmp(format, "base64") == 0;
    if (!base64 && strcmp(format, "float") != 0) {
        return sp_fail(err, SP_E_INPUT, "encoding_format is \"%.40s\", expected float or base64",
                       format);
    }
    if ((st = read_options(&job, x, "user", err))) goto done;
    if ((st = read_texts(&job, x, "input", true, err))) goto done;
    if (job.inputs.n == 0) {
        st = sp_fail(err, SP_E_INPUT, "input has no texts");
        goto done;
    }
    if ((st = compute(&job, x, err)) || (st = write_openai(out, &job, base64, err))) goto done;
    sp_json_out_put(out, "model:%s, usage:{prompt_tokens:%zu, total_tokens:%zu}",
                    sp_serve_model_name(&x->asked), job.inputs.n_tokens, job.inputs.n_tokens);
done:
    release_job(&job);
    return st;
}

/* ---- ollama ---- */

/* ollama answers a request without text, or with one empty text, with no embedding. */
static bool is_empty(const struct sp_json *value)
{
    size_t size = 1;

    (void)sp_json_to_string(value, &size);
    return size == 0 || (sp_json_kind(value) == SP_JSON_ARRAY && sp_json_len(value) == 0);
}

enum sp_status sp_serve_ollama_embed(struct sp_json_out *out, struct sp_exchange *x,
                                     struct sp_err *err)
{
    const struct sp_json *body = x->asked.body;
    struct job job = {.inputs.truncate = true};
    double began = sp_seconds();
    enum sp_status st;

    if ((st = sp_json_get_bool(body, "truncate", &job.inputs.truncate, err))) return st;
    if ((st = read_options(&job, x, "options", err))) return st;
    if (!is_empty(sp_json_get(body, "input")) &&
        ((st = read_texts(&job, x, "input", false, err)) || (st = compute(&job, x, err))))
        goto done;
    sp_json_out_put(out, "model:%s, embeddings:[", sp_serve_model_name(&x->asked));
    for (size_t i = 0; i < job.inputs.n; i++)
        write_numbers(out, NULL, job.rows + i * job.width, job.width);
    sp_json_out_put(out, "], total_duration:%zu, load_duration:%zu, prompt_eval_count:%zu",
                    (size_t)((sp_seconds() - x->arrived_at) * 1e9),
                    (size_t)((began - x->arrived_at) * 1e9), job.inputs.n_tokens);
done:
    release_job(&job);
    return st;
}

enum sp_status sp_serve_ollama_embeddings(struct sp_json_out *out, struct sp_exchange *x,
                                          struct sp_err *err)
{
    const struct sp_json *prompt = sp_json_get(x->asked.body, "prompt");
    struct job job = {.inputs.truncate = true};
    enum sp_status st;

    if (prompt && sp_json_kind(prompt) != SP_JSON_STRING)
        return sp_fail(err, SP_E_INPUT, "prompt: expected a string");
    if ((st = read_options(&job, x, "options", err))) return st;
    if (prompt && !is_empty(prompt) &&
        ((st = add_text(&job, x, prompt, err)) || (st = compute(&job, x, err))))
        goto done;
    write_numbers(out, "embedding", job.rows, job.width);
done:
    release_job(&job);
    return st;
}
