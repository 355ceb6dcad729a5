#include "cli/serve/handlers.h"
#include "cli/base/out.h"
#include "cli/base/opt.h"

#include <stdio.h>
#include <string.h>

const char sp_exchange_json_type[] = "application/json";

void sp_exchange_close_body(struct sp_exchange *x, int status)
{
    x->answer->status = x->out.no_memory ? 500 : status;
    x->answer->type = sp_exchange_json_type;
    if (x->out.no_memory) x->out.text.len = 0;
    sp_strbuf_release(&x->answer->body);
    x->answer->body = x->out.text;
    x->out = (struct sp_json_out){0};
}

static bool begins(const struct sp_exchange *x, const char *path)
{
    return strncmp(x->path, path, strlen(path)) == 0;
}

bool sp_exchange_is_anthropic(const struct sp_exchange *x)
{
    return begins(x, "/v1/messages") ||
           sp_http_header(x->request->connection, "anthropic-version") != NULL;
}

void sp_exchange_add_to_log(struct sp_strbuf *line, const struct sp_serve *serve, const char *key,
                            const char *value)
{
    struct sp_json_out out = {0};

    if (!serve->log_json) {
        (void)!sp_strbuf_append(line, value, strlen(value), NULL);
        return;
    }
    sp_json_out_text(&out, key, value);
    if (!out.no_memory) (void)!sp_strbuf_append(line, out.text.at, out.text.len, NULL);
    sp_strbuf_release(&out.text);
}

void sp_exchange_refuse_with(struct sp_exchange *x, const struct sp_serve_failure *failure)
{
    const struct sp_serve_api *api = begins(x, "/api/")            ? &sp_serve_ollama_text
                                     : sp_exchange_is_anthropic(x) ? &sp_serve_anthropic
                                                                   : &sp_serve_openai_chat;

    api->fail(&x->out, failure);
    sp_exchange_close_body(x, failure->status);
    x->answer->retry = failure->status == 503;
    sp_exchange_add_to_log(&x->answer->log_line, x->serve, "error", failure->sentence);
}

void sp_exchange_refuse_as(struct sp_exchange *x, int status, const char *code,
                           const char *sentence)
{
    sp_exchange_refuse_with(
        x, &(struct sp_serve_failure){.status = status, .code = code, .sentence = sentence});
}

void sp_exchange_refuse(struct sp_exchange *x, int status, const char *sentence)
{
    sp_exchange_refuse_as(x, status, status == 404 ? "not_found" : NULL, sentence);
}

/* ---- models ---- */

/* Appends " 'name'" to a list; false if it is full, which "..." shows. */
static bool append_name(char *sentence, size_t size, const char *name, bool is_first)
{
    size_t len = strlen(sentence);
    bool fits = len + strlen(name) + sizeof ", '', ..." <= size;

    if (fits)
        snprintf(sentence + len, size - len, "%s '%s'", is_first ? "" : ",", name);
    else
        snprintf(sentence + len, size - len, ", ...");
    return fits;
}

/* Writes the names of the models and adapters after `sentence`: "..., this server has 'a', 'b'". */
static void refuse_model(struct sp_exchange *x, int status, const char *code, char *sentence,
                         size_t size)
{
    size_t len = strlen(sentence);
    bool fits = true;

    snprintf(sentence + len, size - len, ", this server has");
    for (size_t i = 0; i < x->serve->n_models && fits; i++) {
        const struct sp_serve_model *model = &x->serve->all[i];
        size_t first_adapter = model->n_names - model->n_adapters;
        fits = append_name(sentence, size, model->names[0], i == 0);
        for (size_t k = first_adapter; k < model->n_names && fits; k++)
            fits = append_name(sentence, size, model->names[k], false);
    }
    sp_exchange_refuse_with(
        x, &(struct sp_serve_failure){
               .status = status, .code = code, .param = "model", .sentence = sentence});
}

bool sp_exchange_find_model(struct sp_exchange *x, const char *name)
{
    char sentence[SP_ERR_TEXT] = "model is missing";

    if (name == NULL && x->serve->n_models > 1) {
        refuse_model(x, 400, NULL, sentence, sizeof sentence);
        return false;
    }
    x->model = name ? sp_serve_models_find(x->serve->models, name) : x->serve->all;
    if (x->model != NULL) return true;
    snprintf(sentence, sizeof sentence, "model '%.200s' not found", name);
    refuse_model(x, 404, "model_not_found", sentence, sizeof sentence);
    return false;
}

bool sp_exchange_open_model(struct sp_exchange *x)
{
    struct sp_err err = {0};
    int status = sp_serve_models_acquire(x->serve->models, x->model, x->keep_alive,
                                         x->request->connection, &err);

    x->is_acquired = status == 0;
    sp_advise(&err);
    if (status > 0) sp_exchange_refuse(x, status, err.text);
    return x->is_acquired;
}

const struct sp_json *sp_exchange_read_body(struct sp_exchange *x)
{
    const struct sp_http_request *q = x->request;
    const struct sp_json *body;
    struct sp_err err = {0};
    const char *model = NULL, *name = NULL, *wrong = NULL;
    const char *encoding = sp_http_header(q->connection, "Content-Encoding");
    char sentence[96];
    int status;

    if (q->too_large) {
        snprintf(sentence, sizeof sentence,
                 "the request body is too large, expected at most %d MiB", SP_HTTP_MAX_BODY >> 20);
        sp_exchange_refuse(x, 413, sentence);
        return NULL;
    }
    if (encoding && strcmp(encoding, "identity") != 0) {
        snprintf(sentence, sizeof sentence, "Content-Encoding is %.40s, expected none", encoding);
        sp_exchange_refuse(x, 415, sentence);
        return NULL;
    }
    if (q->no_memory) {
        sp_exchange_refuse(x, 503,
                           "the requests of all clients take too much memory, try again later");
        return NULL;
    }
    if ((status = sp_serve_body_read(&x->body, x->serve->budget, q->body, q->size, &err))) {
        sp_exchange_refuse(x, status, err.text);
        return NULL;
    }
    sp_http_drop_body(q->connection);
    body = x->body.json;
    if (sp_json_get_string(body, "model", &model, &err))
        wrong = "model";
    else if (sp_serve_read_keep_alive(&x->keep_alive, body, &err))
        wrong = "keep_alive";
    if (wrong) {
        sp_exchange_refuse_with(
            x, &(struct sp_serve_failure){.status = 400, .param = wrong, .sentence = err.text});
        return NULL;
    }
    (void)!sp_json_get_string(body, "name", &name, NULL); /* the member's earlier name */
    if (model == NULL) model = name;
    return sp_exchange_find_model(x, model) ? body : NULL;
}
