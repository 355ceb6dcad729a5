#include "cli/serve/jobs/serve.h"
#include "cli/chat/loaded_model.h"
#include "format/base/mem.h"

#include <stdlib.h>

enum sp_status sp_serve_job_read(struct sp_serve_job *job, struct sp_err *err)
{
    struct sp_serve_request *request = &job->request;
    const struct sp_loaded_model *loaded = request->model->loaded;
    enum sp_status st;

    request->conversation = &loaded->conversation;
    if ((st = sp_settings_copy(&request->settings, loaded->settings, err))) return st;
    if ((st = sp_serve_read_fields(request, request->body, job->api->fields, err)) ||
        (st = sp_serve_read_fields(request, request->body, sp_serve_common_fields, err)))
        return st;
    job->n_answers = sp_serve_request_n_answers(request);
    if (job->api->close == NULL) return SP_OK;
    return sp_new(&job->answers, job->n_answers, sizeof *job->answers, err);
}

void sp_serve_job_release(struct sp_serve_job *job)
{
    sp_serve_request_release(&job->request);
    for (size_t i = 0; i < job->n_answers && job->answers; i++)
        sp_strbuf_release(&job->answers[i]);
    free(job->answers);
    sp_strbuf_release(&job->out);
    sp_strbuf_release(&job->log_line);
}

void *sp_serve_job_run_all(void *context)
{
    const struct sp_serve *serve = context;
    struct sp_serve_job *job;
    size_t answer;

    while ((job = sp_serve_queue_take(serve->queue, &answer)) != NULL) {
        sp_serve_answer_run(serve, job, answer);
        sp_serve_queue_end(serve->queue, job, serve->models);
    }
    return NULL;
}
