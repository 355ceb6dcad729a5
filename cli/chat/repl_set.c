/* The command /set. */
#include "cli/base/out.h"
#include "cli/chat/repl.h"
#include "cli/chat/response_format.h"

#include <string.h>
#include <strings.h>

char *sp_repl_next_word(char **text)
{
    char *word = *text + strspn(*text, " \t"), *end = word + strcspn(word, " \t");

    *text = end + strspn(end, " \t");
    *end = '\0';
    return word;
}

char *sp_repl_value_of(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && strchr(" \t", text[len - 1]) != NULL)
        len--;
    text[len] = '\0';
    if (len < 2 || text[0] != '"' || text[len - 1] != '"') return text;
    text[len - 1] = '\0';
    return text + 1;
}

void sp_repl_show_system(const struct sp_conversation *c)
{
    const char *text = c->system && *c->system ? c->system : "none";

    sp_out_text(stdout, text, strlen(text));
    putchar('\n');
}

static void set_system(struct sp_conversation *c, const char *text)
{
    struct sp_err err = {0};

    if (c->template == NULL) {
        sp_repl_reply("A system message requires a chat template.");
    } else if (sp_conversation_set_system(c, text, &err)) {
        sp_repl_reply("%s.", err.text);
    } else {
        sp_repl_reply("%s",
                      *text ? "The system message is set." : "The system message is removed.");
    }
}

static void set_thinking(struct sp_conversation *c, const char *word)
{
    struct sp_err err = {0};

    if (sp_conversation_set_thinking(c, word, &err))
        sp_repl_reply("%s.", err.text);
    else if (c->template == NULL)
        sp_repl_reply("This requires a chat template.");
    else if (c->thinking.mode == SP_THINK_OFF)
        sp_repl_reply("Reasoning is off.");
    else
        sp_repl_reply("Reasoning is on%s%s.", *c->thinking.level ? ", level " : "",
                      c->thinking.level);
}

/* Handles the words of /set that are on or off. Returns false for other words. */
static bool set_switch(struct sp_loaded_model *m, const char *name, const char *value)
{
    enum { VERBOSE, QUIET, WRAP, NO_WRAP, THINK, NO_THINK, N_NAMES };
    static const char *const names[N_NAMES] = {"verbose",    "quiet", "wordwrap",
                                               "nowordwrap", "think", "nothink"};
    size_t i = 0;
    bool on = true;

    while (i < N_NAMES && strcmp(names[i], name) != 0)
        i++;
    if (i == N_NAMES) return false;
    if (*value && sp_opt_flag(&on, value, NULL)) {
        sp_repl_reply("/set %s takes on or off.", name);
        return true;
    }
    on = on == (i == VERBOSE || i == WRAP || i == THINK);
    if (i <= QUIET) {
        m->style.verbose = on;
        sp_repl_reply("%s", on ? "All statistics are shown." : "One line of statistics is shown.");
    } else if (i <= NO_WRAP) {
        m->style.wrap = on;
        sp_repl_reply("%s", on ? "Lines are broken between words." : "Lines are not broken.");
    } else {
        set_thinking(&m->conversation, on ? "true" : "false");
    }
    return true;
}

static void set_parameter(struct sp_loaded_model *m, const char *name, const char *value)
{
    bool drafts = m->info.draft != NULL && !m->no_draft;
    struct sp_settings before = *m->settings; /* of which a number at most is restored */
    struct sp_err err = {0};

    if (!drafts && strcasecmp(name, "draft_num_predict") == 0) {
        sp_repl_reply("This session does not draft.");
    } else if (sp_settings_set(m->settings, name, value, &err)) {
        sp_repl_reply("%s%s", err.text, err.text[strlen(err.text) - 1] == '?' ? "" : ".");
    } else if (m->settings->n_context != before.n_context &&
               sp_loaded_model_set_context(m, m->settings->n_context, &err)) {
        *m->settings = before;
        sp_advise(&err);
        sp_repl_reply("%s.", err.text);
    } else if (strcasecmp(name, "stop") == 0 && *value == '\0') {
        sp_repl_reply("The stop texts are removed.");
    } else if (strcasecmp(name, "stop") == 0) {
        sp_repl_reply("Answers end before \"%s\".", value);
    } else if (strcasecmp(name, "dry_sequence_breakers") == 0) {
        sp_repl_reply("DRY has %zu sequence breakers.", m->settings->breakers.n);
    } else {
        sp_settings_print_one(stdout, m->settings, name);
    }
}

/* Constrains the answers by a value of --format; "none" and no value end that. */
static void set_format(struct sp_repl *repl, const char *value)
{
    struct sp_grammar *grammar = NULL;
    struct sp_err err = {0};
    bool none = *value == '\0' || strcmp(value, "none") == 0;

    if (!none && sp_response_format_read(&grammar, value, &err)) {
        sp_repl_reply("%s.", err.text);
        return;
    }
    sp_grammar_close(repl->grammar);
    repl->grammar = grammar;
    repl->model->grammar = repl->model->conversation.response_format = grammar;
    sp_repl_reply("%s", none ? "Answers have no format." : "Answers have this format.");
}

static void set_value(struct sp_repl *repl, const char *name, const char *value, bool empty)
{
    struct sp_loaded_model *m = repl->model;

    if (strcmp(name, "format") == 0) {
        set_format(repl, value);
    } else if (strcmp(name, "system") == 0) {
        set_system(&m->conversation, value);
    } else if (strcmp(name, "think") == 0 && *value != '\0') {
        set_thinking(&m->conversation, value);
    } else if (set_switch(m, name, value)) {
        return;
    } else if (*value != '\0' || (empty && strcasecmp(name, "stop") == 0)) {
        set_parameter(m, name, value);
    } else if (*name != '\0' && !sp_settings_print_one(stdout, m->settings, name)) {
        sp_repl_reply("Unknown setting %s, /show parameters lists them.", name);
    } else if (*name == '\0') {
        sp_repl_reply(
            "/set NAME VALUE, /set system TEXT, /set format FORMAT, /set verbose, /set quiet, /set "
            "think, /set nothink, /set wordwrap, /set nowordwrap; /show parameters lists the "
            "names.");
    }
}

/* Sets a value between triple quotes. If its input is interrupted nothing changes. */
static void set_quoted(struct sp_repl *repl, const char *name, const char *words)
{
    struct sp_strbuf value = {0};

    if (sp_repl_read_message(repl, words, &value)) {
        repl->status = sp_strbuf_append(&value, "", 1, repl->err);
        if (repl->status == SP_OK) set_value(repl, name, value.at, true);
    }
    sp_strbuf_release(&value);
}

bool sp_repl_set(struct sp_repl *repl, char *words)
{
    char *name = sp_repl_next_word(&words);

    if (strcmp(name, "parameter") == 0) name = sp_repl_next_word(&words);
    if (strncmp(words, "\"\"\"", 3) == 0)
        set_quoted(repl, name, words);
    else if (strcmp(name, "system") == 0 && *words == '\0')
        sp_repl_show_system(&repl->model->conversation);
    else
        set_value(repl, name, sp_repl_value_of(words), *words != '\0');
    return true;
}
