/* spectool completions: writes completion scripts for bash, zsh and fish from the tables that the
 * commands are parsed with. The build installs them. */
#include "cli/commands.h"

#include <ctype.h>
#include <string.h>

struct options {
    bool none;
};

static const struct sp_opt opts[] = {{.kind = SP_OPT_END}};

/* True if the value has words to complete: those of a choice or of a value that may be left out,
 * or a number's `auto`. */
static bool has_words(const struct sp_opt *o)
{
    return o->choices || o->words || (o->word && isalpha((unsigned char)*o->word));
}

static void put_words(const struct sp_opt *o)
{
    const char *const *words = o->choices ? o->choices : o->words;

    if (words == NULL) fputs(o->word, stdout);
    for (const char *const *word = words; word && *word; word++)
        printf("%s%s", word == words ? "" : " ", *word);
}

static void bash_command(const struct sp_command *c)
{
    printf("    %s)\n        case $previous in\n", c->name);
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END; o++) {
        if (o->value == NULL || o->kind == SP_OPT_HEADING) continue;
        printf("        --%s", o->name);
        if (o->alias) printf(" | --%s", o->alias);
        if (o->letter) printf(" | -%c", o->letter);
        printf(")\n");
        if (has_words(o)) {
            printf("            COMPREPLY=($(compgen -W \"");
            put_words(o);
            printf("\" -- \"$word\"))\n            %sreturn\n",
                   o->words ? "[ ${#COMPREPLY[@]} -eq 0 ] || " : "");
        } else {
            printf("            %s\n", o->path ? "compopt -o default; return" : "return");
        }
        printf("            ;;\n");
    }
    printf("        esac\n        words=\"");
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END; o++)
        if (o->kind != SP_OPT_HEADING) printf("--%s ", o->name);
    printf("--help\"\n        ;;\n");
}

static void bash(void)
{
    puts("_spectool() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=\n"
         "    # --option=value is three words\n"
         "    if [ \"$word\" = = ]; then word=; "
         "elif [ \"$previous\" = = ]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"$COMP_CWORD ${COMP_WORDS[1]}\" = '2 help' ]; "
         "then");
    printf("        COMPREPLY=($(compgen -W \"help");
    for (const struct sp_command *const *c = sp_commands; *c; c++)
        if (!(*c)->hidden) printf(" %s", (*c)->name);
    puts("\" -- \"$word\"))\n"
         "        return\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    for (const struct sp_command *const *c = sp_commands; *c; c++)
        if (!(*c)->hidden) bash_command(*c);
    puts("    esac\n"
         "    case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) compopt -o default ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _spectool spectool");
}

/* Writes a help text inside single quotes; `special` are the characters that need a backslash. */
static void put_quoted(const char *text, const char *special)
{
    for (const char *s = text; *s; s++)
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(special, *s) ? "\\" : "", *s);
}

static void zsh_option(const struct sp_opt *o)
{
    printf("        '--%s%s[", o->name, o->value ? "=" : "");
    put_quoted(o->help, "[]:\\");
    putchar(']');
    if (o->value != NULL) {
        printf("%s:%s:", o->words ? ":" : "", o->value);
        if (has_words(o)) {
            putchar('(');
            put_words(o);
            putchar(')');
        } else if (o->path) {
            fputs("_files", stdout);
        }
    }
    puts("' \\");
}

static void zsh(void)
{
    puts("#compdef spectool\n"
         "_spectool() {\n"
         "    local -a commands\n"
         "    commands=(");
    for (const struct sp_command *const *c = sp_commands; *c; c++) {
        if ((*c)->hidden) continue;
        printf("        '%s:", (*c)->name);
        put_quoted((*c)->summary, ":\\");
        puts("'");
    }
    puts("        'help:" SP_HELP_SUMMARY "'\n"
         "    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words; (( CURRENT-- ))\n"
         "    case $command in");
    for (const struct sp_command *const *c = sp_commands; *c; c++) {
        if ((*c)->hidden) continue;
        printf("    %s)\n        _arguments \\\n", (*c)->name);
        for (const struct sp_opt *o = (*c)->opts; o->kind != SP_OPT_END; o++)
            if (o->kind != SP_OPT_HEADING) zsh_option(o);
        puts("        '--help[Print a summary of the options]' '*:file:_files'\n        ;;");
    }
    puts("    esac\n"
         "}\n"
         "_spectool \"$@\"");
}

static void fish_option(const struct sp_command *c, const struct sp_opt *o)
{
    printf("complete -c spectool -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
    if (o->letter) printf(" -s %c", o->letter);
    if (has_words(o)) {
        fputs(o->words ? " -f -a '" : " -x -a '", stdout);
        put_words(o);
        putchar('\'');
    } else if (o->value != NULL) {
        fputs(o->path ? " -r -F" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    put_quoted(o->help, "");
    puts("'");
}

static void fish(void)
{
    puts("complete -c spectool -n __fish_use_subcommand -f -a help -d '" SP_HELP_SUMMARY "'");
    for (const struct sp_command *const *c = sp_commands; *c; c++) {
        if ((*c)->hidden) continue;
        printf("complete -c spectool -n __fish_use_subcommand -f -a %s -d '", (*c)->name);
        put_quoted((*c)->summary, "");
        puts("'");
        for (const struct sp_opt *o = (*c)->opts; o->kind != SP_OPT_END; o++)
            if (o->kind != SP_OPT_HEADING) fish_option(*c, o);
    }
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    static const struct {
        const char *name;
        void (*write)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(args->operands[0], shells[i].name) != 0) continue;
        shells[i].write();
        return SP_OK;
    }
    return sp_fail(err, SP_E_USAGE, "shell %s, expected bash, zsh or fish", args->operands[0]);
}

const struct sp_command sp_cmd_completions = {
    .name = "completions",
    .summary = "Print a completion script for a shell",
    .operands = "bash|zsh|fish",
    .min_operands = 1,
    .max_operands = 1,
    .opts = opts,
    .options_size = sizeof(struct options),
    .hidden = true,
    .run = run,
};
