#include "cli/serve/handlers.h"
#include "cli/serve/jobs/serve.h"

#include "format/base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_DOCUMENTS = 2048 };

struct result {
    size_t index;
    float score;
};

struct job {
    struct sp_rerank_document *documents; /* [n]; owned, their texts borrowed from the body */
    size_t n;
    float *scores;          /* [n]; owned */
    struct result *results; /* [n], best first; owned */
    size_t n_tokens;
};

/* A document is a string, or an object with a text. */
static enum sp_status read_documents(struct job *job, const struct sp_json *list,
                                     struct sp_err *err)
{
    size_t n = sp_json_len(list);
    enum sp_status st;

    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0)
        return sp_fail(err, SP_E_INPUT, "documents: expected an array of texts");
    if (n > MAX_DOCUMENTS)
        return sp_fail(err, SP_E_INPUT, "documents has more than %d texts", MAX_DOCUMENTS);
    if ((st = sp_new(&job->documents, n, sizeof *job->documents, err))) return st;
    for (; job->n < n; job->n++) {
        const struct sp_json *v = sp_json_at(list, job->n);
        struct sp_rerank_document *d = &job->documents[job->n];
        if (sp_json_kind(v) == SP_JSON_OBJECT) v = sp_json_get(v, "text");
        if ((d->text = sp_json_to_string(v, &d->size)) == NULL)
            return sp_fail(err, SP_E_INPUT, "documents[%zu] is not a text", job->n);
    }
    return SP_OK;
}

/* The best first, scores that are not numbers last; equal ones in the order of the request. */
static int compare_results(const void *a, const void *b)
{
    const struct result *x = a, *y = b;

    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    if (isnan(x->score) != isnan(y->score)) return isnan(x->score) ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static enum sp_status sort_results(struct job *job, struct sp_err *err)
{
    enum sp_status st = sp_new(&job->results, job->n, sizeof *job->results, err);

    if (st) return st;
    for (size_t i = 0; i < job->n; i++)
        job->results[i] = (struct result){i, job->scores[i]};
    qsort(job->results, job->n, sizeof *job->results, compare_results);
    return SP_OK;
}

static enum sp_status rank(struct job *job, struct sp_exchange *x, struct sp_err *err)
{
    const struct sp_json *body = x->asked.body;
    struct sp_rerank_request request = {
        .size = sizeof request,
        .documents = job->documents,
        .n_documents = job->n,
        .any_model = x->serve->pooling == SP_POOLING_RANK,
        .context = x,
        .progress = sp_serve_embed_is_abandoned,
        .truncate = true,
    };
    int64_t most = 0;
    enum sp_status st;

    if ((st = sp_json_get_string(body, "query", &request.query, err))) return st;
    if ((st = sp_json_get_string(body, "instruction", &request.instruction, err))) return st;
    if ((st = sp_json_get_bool(body, "truncate", &request.truncate, err))) return st;
    if ((st = sp_json_get_i64(body, "max_tokens_per_doc", 1, INT32_MAX, &most, err))) return st;
    request.max_document_tokens = (size_t)most;
    if (request.query == NULL) return sp_fail(err, SP_E_INPUT, "query is missing");
    st = sp_serve_model_check_base(x->asked.model, sp_serve_model_name(&x->asked), err);
    if (st) return st;
    st = sp_package_rerank(x->asked.model->loaded->package, &request, &job->scores, &job->n_tokens,
                           err);
    if (st == SP_E_USAGE) x->asked.fault.code = "context_length_exceeded";
    if (!st)
        sp_serve_metrics_embeddings(x->serve->metrics, x->asked.model->number, job->n,
                                    job->n_tokens);
    return st ? st : sort_results(job, err);
}

static void write_results(struct sp_json_out *out, const struct job *job, size_t n, bool documents)
{
    sp_json_out_begin(out, "results", '[');
    for (size_t i = 0; i < n; i++) {
        const struct sp_rerank_document *d = &job->documents[job->results[i].index];
        sp_json_out_put(out, "{index:%zu, relevance_score:%g", job->results[i].index,
                        (double)job->results[i].score);
        if (documents) {
            sp_json_out_begin(out, "document", '{');
            sp_json_out_string(out, "text", d->text, d->size);
            sp_json_out_end(out, '}');
        }
        sp_json_out_end(out, '}');
    }
    sp_json_out_end(out, ']');
}

enum sp_status sp_serve_rerank(struct sp_json_out *out, struct sp_exchange *x, struct sp_err *err)
{
    const struct sp_json *body = x->asked.body;
    struct job job = {0};
    int64_t top_n = 0;
    bool documents = false;
    enum sp_status st;

    if ((st = sp_json_get_i64(body, "top_n", 1, INT32_MAX, &top_n, err))) goto done;
    if ((st = sp_json_get_bool(body, "return_documents", &documents, err))) goto done;
    if ((st = read_documents(&job, sp_json_get(body, "documents"), err))) goto done;
    if ((st = rank(&job, x, err))) goto done;
    sp_json_out_put(out, "object:'list', model:%s", sp_serve_model_name(&x->asked));
    write_results(out, &job, top_n && (size_t)top_n < job.n ? (size_t)top_n : job.n, documents);
    sp_json_out_put(out, "usage:{prompt_tokens:%zu, total_tokens:%zu}", job.n_tokens, job.n_tokens);
done:
    free(job.documents);
    free(job.scores);
    free(job.results);
    return st;
}
