/* spectool render: the text that a conversation becomes. */
#include "cli/commands.h"
#include "cli/base/input_text.h"
#include "cli/base/json_out.h"
#include "cli/base/lines.h"
#include "cli/base/template_source.h"
#include "cli/base/token_source.h"

#include <stdlib.h>
#include <string.h>

struct options {
    bool go, jinja, batch, continues;
    const char *messages, *tools, *kwargs, *date, *think;
};

enum { MAX_JSON = 256 << 20 };

#define AT(member) .offset = offsetof(struct options, member)

static const char *const think_words[] = {"on", "off", NULL};

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 0, "messages", NULL, "FILE", AT(messages), .path = true,
     .shown = "standard input", .help = "File with a JSON array of messages"},
    {SP_OPT_STRING, 0, "tools", NULL, "FILE", AT(tools), .path = true,
     .help = "File with a JSON array of tools the model may call"},
    {SP_OPT_STRING, 0, "kwargs", NULL, "JSON", AT(kwargs),
     .help = "File with a JSON object of extra variables for a Jinja template"},
    {SP_OPT_CHOICE, 0, "think", NULL, "on|off", AT(think), .choices = think_words,
     .shown = "left to the template", .help = "Turn the model's reasoning on or off"},
    {SP_OPT_FLAG, 0, "continue", NULL, NULL, AT(continues),
     .help = "Do not open a new assistant message (Jinja)"},
    {SP_OPT_STRING, 0, "date", NULL, "DATE", AT(date), .shown = "now",
     .help = "Current time for the template: YYYY-MM-DD, or YYYY-MM-DD HH:MM:SS"},
    {SP_OPT_FLAG, 0, "go", NULL, NULL, AT(go), .help = "The template is written in Go's language"},
    {SP_OPT_FLAG, 0, "jinja", NULL, NULL, AT(jinja), .help = "The template is written in Jinja"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help = "Read one JSON object per line from standard input, print one per line"},
    {.kind = SP_OPT_END},
};

struct job {
    const struct sp_template *source; /* NULL: every line brings its own */
    enum sp_template_language language;
    struct sp_template_time now;
};

static void print_line(const char *key, const char *text, size_t size)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_string(&out, key, text, size);
    sp_json_out_end(&out, '}');
    putchar('\n');
}

/* The line's own template, or NULL. */
static enum sp_status own_template(struct sp_template **out, const struct job *job,
                                   const struct sp_json *line, struct sp_err *err)
{
    const struct sp_json *member = sp_json_get(line, "template");
    const char *text;
    size_t size;

    if (member == NULL) {
        if (job->source != NULL) return SP_OK;
        return sp_fail(err, SP_E_INPUT, "expected a template in the line, or SOURCE");
    }
    text = sp_json_to_string(member, &size);
    if (text == NULL) return sp_fail(err, SP_E_INPUT, "template is not a string");
    return sp_template_compile(out, text, size, job->language, err);
}

static enum sp_status render_object(const struct job *job, const struct sp_json *line, char **text,
                                    size_t *size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_template *own = NULL;
    struct sp_template_input in = {
        .messages = sp_json_get(line, "messages"),
        .tools = sp_json_get(line, "tools"),
        .kwargs = sp_json_get(line, "kwargs"),
        .vars = sp_json_get(line, "vars"),
        .prompt = sp_json_get(line, "prompt"),
        .suffix = sp_json_get(line, "suffix"),
        .now = job->now,
    };

    if (sp_json_kind(line) != SP_JSON_OBJECT) {
        return sp_fail(err, SP_E_INPUT, "expected a JSON object");
    }
    if ((st = sp_json_get_bool(line, "think", &in.think, err)) ||
        (st = sp_json_get_bool(line, "is_think_set", &in.is_think_set, err)) ||
        (st = own_template(&own, job, line, err))) {
        return st;
    }
    st = sp_template_render(text, size, own ? own : job->source, &in, err);
    sp_template_free(own);
    return st;
}

/* A line that cannot be rendered says so in its own line of output, and the next one has its turn.
 */
static enum sp_status render_line(void *context, const char *text, size_t size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_err own = {0};
    struct sp_json *line = NULL;
    char *rendered = NULL;
    size_t n = 0;

    st = sp_json_parse(&line, text, size, SP_JSON_LENIENT, &own);
    if (!st) st = render_object(context, line, &rendered, &n, &own);
    if (st == SP_E_NOMEM || st == SP_E_BUG) {
        st = sp_fail(err, st, "%s", own.text);
    } else {
        print_line(st ? "error" : "rendered", st ? own.text : rendered, st ? strlen(own.text) : n);
        st = SP_OK;
    }
    free(rendered);
    sp_json_free(line);
    return st;
}

static enum sp_status read_json(struct sp_json **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;
    size_t size;

    if ((st = sp_input_text(&text, &size, path, MAX_JSON, err))) return st;
    st = sp_json_parse(out, text, size, SP_JSON_LENIENT, err);
    if (st) sp_context(err, "%s", sp_input_name(path));
    free(text);
    return st;
}

static enum sp_status render_once(const struct job *job, const struct options *o,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *messages = NULL, *tools = NULL, *kwargs = NULL;
    struct sp_template_input in = {.generation_prompt = !o->continues,
                                   .think = o->think != NULL && strcmp(o->think, "on") == 0,
                                   .is_think_set = o->think != NULL,
                                   .now = job->now};
    char *text = NULL;
    size_t size = 0;

    if ((st = read_json(&messages, o->messages, err))) goto done;
    if (o->tools != NULL && (st = read_json(&tools, o->tools, err))) goto done;
    if (o->kwargs != NULL) {
        st = sp_json_parse(&kwargs, o->kwargs, strlen(o->kwargs), SP_JSON_LENIENT, err);
        if (st) {
            sp_context(err, "--kwargs");
            goto done;
        }
    }
    in.messages = messages;
    in.tools = tools;
    in.kwargs = kwargs;
    if ((st = sp_template_render(&text, &size, job->source, &in, err))) goto done;
    fwrite(text, 1, size, stdout);
done:
    free(text);
    sp_json_free(messages);
    sp_json_free(tools);
    sp_json_free(kwargs);
    return st;
}

static enum sp_status check_options(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;

    if (o->go && o->jinja) return sp_fail(err, SP_E_USAGE, "--go and --jinja cannot be combined");
    if (o->batch && (o->messages || o->tools || o->kwargs || o->think || o->continues)) {
        return sp_fail(
            err, SP_E_USAGE,
            "with --batch, messages, tools, kwargs and think are members of the input lines");
    }
    if (!o->batch && args->n_operands == 0) {
        return sp_fail(err, SP_E_USAGE, "expected SOURCE (optional only with --batch)");
    }
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    enum sp_status st;
    struct sp_template *source = NULL;
    struct job job = {.language = o->go      ? SP_TEMPLATE_GO
                                  : o->jinja ? SP_TEMPLATE_JINJA
                                             : SP_TEMPLATE_UNKNOWN};

    if ((st = check_options(args, err))) return st;
    job.now = sp_template_now();
    if (o->date != NULL && (st = sp_template_parse_date(&job.now, o->date, err))) return st;
    if (args->n_operands > 0) {
        st = sp_template_source_open(&source, args->operands[0], job.language, err);
        if (st) return st;
    }
    job.source = source;
    if (!o->batch && sp_template_language(source) == SP_TEMPLATE_GO &&
        (o->kwargs || o->continues)) {
        st = sp_fail(err, SP_E_USAGE, "--%s requires a Jinja template, and %s has a Go template",
                     o->kwargs ? "kwargs" : "continue", args->operands[0]);
        goto done;
    }
    st = o->batch ? sp_each_line(render_line, NULL, &job, err) : render_once(&job, o, err);
done:
    sp_template_free(source);
    return st;
}

static const struct options defaults = {0};

const struct sp_command sp_cmd_render = {
    .name = "render",
    .summary = "Print the prompt that the chat template makes of a conversation",
    .operands = "[SOURCE]",
    .min_operands = 0,
    .max_operands = 1,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .details =
        "SOURCE is a packed file, a checkpoint folder, or a template file. With --batch every line "
        "is a JSON object with messages, tools, kwargs (Jinja variables) or vars (all variables); "
        "for Go templates messages, tools, think, is_think_set, prompt, suffix; and template to "
        "replace SOURCE's. The output is {\"rendered\": ...} or {\"error\": ...}.",
    .run = run,
};
