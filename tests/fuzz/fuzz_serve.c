/* Fuzzes request bodies of `serve`. The first byte (a digit, or '<') selects the API. The body is
 * refused with a message, or becomes a valid request whose conversation gives a prompt. */
#include "cli/serve/handlers.h"
#include "cli/serve/jobs/serve.h"
#include "format/base/unicode.h"
#include "runtime/template/template.h"
#include "tests/fuzz/fuzz.h"

static const char
    chatml[] = "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{%- for c "
               "in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson "
               "}}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}{{ tools | tojson if tools }}",
    go[] = "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}{{ .Suffix }}{{ .Response }}";

static void check_settings(const struct sp_settings *s)
{
    struct sp_sampling sampling = SP_SAMPLING_INIT;

    if (s->stops.n > SP_MAX_STOPS) abort();
    for (size_t i = 0; i < s->stops.n; i++) {
        size_t len = strlen(s->stops.at[i]);
        if (len == 0 || sp_utf8_valid(s->stops.at[i], len) != len) abort();
    }
    sp_settings_sampling(&sampling, s);
    if (!(sampling.temperature >= 0 && sampling.top_p >= 0 && sampling.top_p <= 1)) abort();
    if (sampling.top_k < 0 || !(sampling.repeat_penalty > 0) || s->seed < 0) abort();
}

static void check_prompt(const struct sp_serve_request *request, const struct sp_template *t)
{
    const struct sp_template_input in = {.messages = request->messages,
                                         .tools = request->tools,
                                         .kwargs = request->kwargs,
                                         .prompt = request->prompt,
                                         .suffix = request->suffix,
                                         .generation_prompt = true,
                                         .think = request->think,
                                         .is_think_set = request->is_think_set,
                                         .think_level = request->think_level,
                                         .now = {2025, 6, 15, 12, 0, 0}};
    char *text = NULL;
    size_t size;
    int forms = (request->messages != NULL) + (request->n_prompts > 0) + (request->prompt != NULL);

    if (forms != 1 || request->n_top > SP_SERVE_MAX_TOP) abort();
    if (sp_utf8_valid(request->partial.at, request->partial.len) != request->partial.len) abort();
    if (sp_serve_request_n_answers(request) > SP_SERVE_MAX_ANSWERS) abort();
    for (size_t i = 0; i < request->n_prompts; i++) {
        if ((request->prompts[i].text != NULL) == (request->prompts[i].ids.n > 0)) abort();
        if (request->suffix && request->prompts[i].text == NULL) abort();
    }
    if (request->messages == NULL && request->prompt == NULL) return;
    enum sp_status st =
        sp_template_render(&text, &size, request->template ? request->template : t, &in, NULL);
    if (st == SP_E_BUG) abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sp_serve_api *const dialects[] = {
        &sp_serve_openai_chat, &sp_serve_openai_text, &sp_serve_ollama_chat, &sp_serve_ollama_text,
        &sp_serve_responses,   &sp_serve_anthropic,   &sp_serve_infill};
    static const size_t n_dialects = sizeof dialects / sizeof *dialects;
    struct sp_settings settings = SP_SETTINGS_DEFAULTS;
    struct sp_loaded_model loaded = {.settings = &settings, .infill = {.found = true}};
    const char *name = "fuzz";
    const struct sp_serve_model model = {.names = &name, .n_names = 1, .loaded = &loaded};
    struct sp_serve_budget budget = SP_SERVE_BUDGET_INIT(1 << 26);
    struct sp_serve_body body = {.json = NULL};
    char ignored[SP_SERVE_IGNORED_TEXT];
    struct sp_serve_request request = {0};
    struct sp_err err = {0};
    const struct sp_serve_api *dialect = NULL;
    bool jinja = size > 0 && (data[0] & 4);
    const char *text = jinja ? chatml : go;

    settings.seed = 1;
    if (size == 0) return 0;
    if (sp_template_compile(&loaded.conversation.template, text, strlen(text),
                            jinja ? SP_TEMPLATE_JINJA : SP_TEMPLATE_GO, &err))
        abort();
    dialect = dialects[((data[0] & 3u) + (data[0] & 8u) / 2) % n_dialects];
    if (sp_serve_body_read(&body, &budget, (const char *)data + 1, size - 1, &err)) {
        if (err.text[0] == '\0' || body.json || budget.used) abort();
        goto done;
    }
    if (body.n_charged == 0 || body.n_charged != budget.used) abort();
    request.model = &model;
    request.conversation = &loaded.conversation;
    request.body = body.json;
    body.json = NULL;
    if (sp_settings_copy(&request.settings, &settings, &err)) abort();
    if (sp_serve_read_fields(&request, request.body, dialect->fields, &err)) {
        if (err.text[0] == '\0' || strchr(err.text, '\n') || err.status == SP_E_BUG) abort();
    } else {
        sp_serve_body_settle(&body, request.body, ignored);
        if (strpbrk(ignored, "\r\n")) abort();
        check_settings(&request.settings);
        check_prompt(&request, loaded.conversation.template);
    }
done:
    sp_serve_request_release(&request);
    sp_serve_body_release(&body);
    if (budget.used) abort();
    sp_template_close(loaded.conversation.template);
    return 0;
}
