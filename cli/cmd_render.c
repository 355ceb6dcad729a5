/* spectool render: prints the text that the chat template makes of a conversation. */
#include "cli/commands.h"
#include "cli/chat/conversation.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/out.h"
#include "cli/base/input_text.h"
#include "format/json/json.h"
#include "format/json/json_write.h"
#include "runtime/spectool.h"

#include <stdlib.h>
#include <string.h>

struct options {
    bool go, jinja, batch, continues;
    const char *messages, *tools, *kwargs, *date, *think;
};

enum { MAX_JSON = 256 << 20 };

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 0, "messages", NULL, "FILE", AT(messages), .path = true,
     .shown = "standard input", .help = "File with a JSON array of messages"},
    {SP_OPT_STRING, 0, "tools", NULL, "FILE", AT(tools), .path = true,
     .help = "File with a JSON array of tools the model may call"},
    {SP_OPT_STRING, 0, "kwargs", NULL, "JSON", AT(kwargs),
     .help = "JSON object of extra variables for a Jinja template"},
    SP_OPT_THINK(struct options, think),
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
    const struct sp_template *source; /* template for all lines; NULL: every line has its own */
    enum sp_template_language language;
    struct sp_template_time now;
};

static void print_line(const char *key, const char *text, size_t size)
{
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_string(&out, key, text, size);
    sp_json_out_end_line(&out);
}

/* *out = the line's own template, owned by the caller; NULL: none. */
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

/* *out = *text = the value of a member of the line as JSON, owned by the caller; unchanged if the
 * line has no such member. */
static enum sp_status print_member(const char **out, char **text, const struct sp_json *line,
                                   const char *key, struct sp_err *err)
{
    const struct sp_json *member = sp_json_get(line, key);
    enum sp_status st;

    if (member == NULL) return SP_OK;
    st = sp_json_print(text, member, err);
    *out = *text;
    return st;
}

static enum sp_status render_object(const struct job *job, const struct sp_json *line, char **text,
                                    size_t *size, struct sp_err *err)
{
    struct sp_chat_request in = {
        .size = sizeof in, .omit_generation_prompt = true, .now = &job->now};
    const struct {
        const char *key, **to;
    } members[] = {
        {"messages", &in.messages}, {"tools", &in.tools},   {"kwargs", &in.kwargs},
        {"vars", &in.vars},         {"prompt", &in.prompt}, {"suffix", &in.suffix},
    };
    enum { N_MEMBERS = sizeof members / sizeof *members };
    char *texts[N_MEMBERS] = {NULL};
    struct sp_template *own = NULL;
    enum sp_status st;

    if (sp_json_kind(line) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "expected a JSON object");
    if ((st = sp_json_get_bool(line, "think", &in.think, err))) return st;
    if ((st = sp_json_get_bool(line, "is_think_set", &in.is_think_set, err))) return st;
    if ((st = own_template(&own, job, line, err))) return st;
    for (size_t i = 0; i < N_MEMBERS && !st; i++)
        st = print_member(members[i].to, &texts[i], line, members[i].key, err);
    if (!st) st = sp_template_apply(text, size, own ? own : job->source, &in, err);
    for (size_t i = 0; i < N_MEMBERS; i++)
        free(texts[i]);
    sp_template_close(own);
    return st;
}

/* Renders a line. If that fails, its line of output is the error, and the next line is rendered. */
static enum sp_status render_line(void *context, size_t number, const char *text, size_t size,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_err own = {0};
    struct sp_json *line = NULL;
    char *rendered = NULL;
    size_t n = 0;

    (void)number;
    st = sp_json_parse(&line, text, size, SP_JSON_LENIENT, &own);
    if (!st) st = render_object(context, line, &rendered, &n, &own);
    if (st == SP_E_NOMEM || st == SP_E_BUG) {
        st = sp_fail_as(err, &own);
    } else {
        print_line(st ? "error" : "rendered", st ? own.text : rendered, st ? strlen(own.text) : n);
        st = SP_OK;
    }
    free(rendered);
    sp_json_free(line);
    return st;
}

static enum sp_status check_json(const char *text, size_t size, const char *name,
                                 struct sp_err *err)
{
    struct sp_json *json = NULL;
    enum sp_status st = sp_json_parse(&json, text, size, SP_JSON_LENIENT, err);

    if (st) sp_context(err, "%s", name);
    sp_json_free(json);
    return st;
}

/* *text = the contents of a JSON file, owned by the caller also on failure. */
static enum sp_status read_json(char **text, const char *path, const char *what, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text json;

    if ((st = sp_input_text(&json, path, what, MAX_JSON, err))) return st;
    *text = json.at;
    if (json.size == 0)
        return sp_fail(err, SP_E_INPUT, "%s is empty, expected a JSON array", sp_input_name(path));
    return check_json(json.at, json.size, sp_input_name(path), err);
}

/* *out = messages with the text as the only one, a user's; owned by the caller. */
static enum sp_status user_message(char **out, const char *text, struct sp_err *err)
{
    struct sp_json_out json = {0};
    struct sp_text printed = {0};
    enum sp_status st;

    sp_json_out_put(&json, "[{role:'user', content:%s}]", text);
    st = sp_json_out_take(&printed, &json, err);
    *out = printed.at;
    return st;
}

/* Reads --think for the template. */
static enum sp_status read_thinking(struct sp_thinking *thinking, const struct job *job,
                                    const char *word, struct sp_err *err)
{
    const struct sp_chat_options options = {.size = sizeof options, .chat_template = job->source};
    struct sp_chat_info info = SP_CHAT_INFO_INIT;
    struct sp_chat *chat = NULL;
    enum sp_status st;

    if ((st = sp_chat_open(&chat, NULL, &options, err))) return st;
    sp_chat_describe(chat, &info);
    sp_chat_close(chat);
    return sp_thinking_read(thinking, word, &info, err);
}

/* Renders one conversation: a user's message `text`, or messages from a file if it is NULL. */
static enum sp_status render_once(const struct job *job, const struct options *o, const char *text,
                                  struct sp_err *err)
{
    enum sp_status st;
    char *messages = NULL, *tools = NULL;
    struct sp_chat_request in = {.size = sizeof in,
                                 .omit_generation_prompt = o->continues,
                                 .is_think_set = o->think != NULL,
                                 .kwargs = o->kwargs,
                                 .now = &job->now};
    struct sp_thinking thinking = {SP_THINK_DEFAULT, ""};
    char *rendered = NULL;
    size_t size = 0;

    if (o->think && (st = read_thinking(&thinking, job, o->think, err))) return st;
    in.think = thinking.mode == SP_THINK_ON;
    in.think_level = *thinking.level ? thinking.level : NULL;
    st = text ? user_message(&messages, text, err)
              : read_json(&messages, o->messages, "a JSON array of messages", err);
    if (st) goto done;
    if (o->tools != NULL && (st = read_json(&tools, o->tools, "a JSON array of tools", err)))
        goto done;
    if (o->kwargs && (st = check_json(o->kwargs, strlen(o->kwargs), "--kwargs", err))) goto done;
    in.messages = messages;
    in.tools = tools;
    if ((st = sp_template_apply(&rendered, &size, job->source, &in, err))) goto done;
    sp_out_text(stdout, rendered, size);
done:
    free(rendered);
    free(messages);
    free(tools);
    return st;
}

static enum sp_status parse_date(struct sp_template_time *out, const char *text, struct sp_err *err)
{
    static const char form[] = "0000-00-00 00:00:00"; /* 0: a digit */
    const size_t n = strlen(text);
    struct sp_template_time t = {.hour = 12};
    bool good = n == 10 || n == 16 || n == 19;

    for (size_t i = 0; good && i < n; i++)
        good = form[i] == '0' ? text[i] >= '0' && text[i] <= '9'
                              : text[i] == form[i] || (i == 10 && text[i] == 'T');
    if (good)
        (void)sscanf(text, "%d-%d-%d%*c%d:%d:%d", &t.year, &t.month, &t.day, &t.hour, &t.minute,
                     &t.second);
    if (!good || t.year < 1 || t.month < 1 || t.month > 12 || t.day < 1 || t.day > 31 ||
        t.hour > 23 || t.minute > 59 || t.second > 60) {
        return sp_fail(err, SP_E_USAGE, "--date %s: expected YYYY-MM-DD, or YYYY-MM-DD HH:MM:SS",
                       text);
    }
    *out = t;
    return SP_OK;
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
    if (args->n_operands > 1 && (o->batch || o->messages)) {
        return sp_fail(err, SP_E_USAGE, "TEXT and --%s cannot be combined",
                       o->batch ? "batch" : "messages");
    }
    if (!o->batch && args->n_operands == 0)
        return sp_fail(err, SP_E_USAGE, "expected SOURCE (optional only with --batch)");
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
    if (o->date != NULL && (st = parse_date(&job.now, o->date, err))) return st;
    if (args->n_operands > 0) {
        char *path = NULL;
        st = sp_packed_checkpoint_or_folder(&path, args->operands[0], args->command->name, err);
        if (st) return st;
        st = sp_template_open_file(&source, path, job.language, err);
        free(path);
        if (st) return st;
        if (source == NULL)
            return sp_fail(err, SP_E_INPUT, "%s has no chat template", args->operands[0]);
    }
    job.source = source;
    if (!o->batch && sp_template_language(source) == SP_TEMPLATE_GO &&
        (o->kwargs || o->continues)) {
        st = sp_fail(err, SP_E_USAGE, "--%s requires a Jinja template, and %s has a Go template",
                     o->kwargs ? "kwargs" : "continue", args->operands[0]);
        goto done;
    }
    st = o->batch ? sp_each_line(render_line, NULL, &job, "one JSON object per line", err)
                  : render_once(&job, o, sp_args_text(args), err);
done:
    sp_template_close(source);
    return st;
}

const struct sp_command sp_cmd_render = {
    .name = "render",
    .summary = "Apply the chat template to a conversation and print the prompt",
    .operands = "[SOURCE [TEXT]]",
    .min_operands = 0,
    .max_operands = 2,
    .text_operand = "TEXT",
    .opts = opts,
    .options_size = sizeof(struct options),
    .details =
        "SOURCE is a packed file, a checkpoint folder, a GGUF file, the name of a stored model, or "
        "a template file. TEXT is the message of "
        "a "
        "user; without it the conversation is read from --messages. With --batch every line "
        "is a JSON object with messages, tools, kwargs (Jinja variables) or vars (all variables); "
        "for Go templates messages, tools, think, is_think_set, prompt, suffix; and template to "
        "replace SOURCE's. The output is {\"rendered\": ...} or {\"error\": ...}.",
    .run = run,
};
