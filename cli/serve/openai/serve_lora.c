#include "cli/serve/openai/serve_openai.h"
#include "cli/serve/jobs/serve_model.h"

enum { MOST_SCALE = 100 };

static enum sp_status read_entry(struct sp_serve_request *request, const struct sp_json *entry,
                                 struct sp_err *err)
{
    const struct sp_serve_model *model = request->model;
    double scale = 0;
    int64_t id = 0;
    enum sp_status st;

    if (sp_json_kind(entry) != SP_JSON_OBJECT || sp_json_get(entry, "id") == NULL ||
        sp_json_get(entry, "scale") == NULL)
        return sp_fail(err, SP_E_INPUT, "expected an object with id and scale");
    if (model->n_adapters == 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s",
                       model->loaded->lora ? "all requests use the adapter of --adapter"
                                           : "the server has no adapters (--adapter)");
    }
    if ((st = sp_json_get_i64(entry, "id", 0, (int64_t)model->n_adapters - 1, &id, err))) return st;
    if ((st = sp_json_get_double(entry, "scale", -MOST_SCALE, MOST_SCALE, &scale, err))) return st;
    if ((float)scale == 0) return SP_OK;
    if (request->lora) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "adapters are not added to each other, expected one scale other than 0");
    }
    request->lora = model->loaded->loras[id];
    request->lora_scale = (float)scale;
    return SP_OK;
}

enum sp_status sp_serve_openai_read_lora(struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *list = NULL;
    const char *name = sp_json_get_text(request->body, "model");
    enum sp_status st = sp_serve_read_kind(&list, request->body, "lora", SP_JSON_ARRAY, err);

    if (st) return st;
    for (size_t i = 0; i < sp_json_len(list); i++) {
        if ((st = read_entry(request, sp_json_at(list, i), err))) {
            sp_context(err, "lora[%zu]", i);
            return st;
        }
    }
    if (sp_json_len(list) > 0 && sp_serve_model_lora(request->model, name))
        return sp_fail(err, SP_E_INPUT, "lora: the model %s is an adapter already", name);
    return SP_OK;
}

void sp_serve_lora_list(struct sp_json_out *out, const struct sp_serve_model *model)
{
    size_t n_own = model->n_names - model->n_adapters;

    sp_json_out_begin(out, NULL, '[');
    for (size_t i = 0; i < model->n_adapters; i++) {
        sp_json_out_put(out, "{id:%zu, name:%s, path:%s, scale:0}", i, model->names[n_own + i],
                        model->adapter_paths[i]);
    }
    sp_json_out_end(out, ']');
}
