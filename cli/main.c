/* spectool: finds the command, parses its arguments, runs it, and converts its status to the exit
 * code. Only this file prints errors. */
#include "cli/base/opt.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/chat/repl.h"
#include "cli/commands.h"
#include "cli/serve/http/serve_http.h"
#include "format/base/affix.h"
#include "format/base/compress.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/json/json.h"
#include "format/base/spelling.h"
#include "format/base/unicode.h"
#include "format/tokenizer/regex.h"
#include "runtime/spectool.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static void print_summary(FILE *out, const char *name, const char *summary, int width)
{
    const int column = fprintf(out, "  %-12s  ", name);

    sp_help_put_words(out, summary, column, column, width);
    fputc('\n', out);
}

static void print_commands(FILE *out)
{
    const int width = sp_help_width(out);

    sp_help_put_paragraphs(out,
                           "Usage: spectool COMMAND [OPTION]... [ARGUMENT]...\n\nPacks a model and "
                           "an optional draft model into one file and generates text by "
                           "speculative decoding.\n\nCommands:",
                           width);
    for (const struct sp_command *const *c = sp_commands; *c != NULL; c++)
        if (!(*c)->hidden) print_summary(out, (*c)->name, (*c)->summary, width);
    print_summary(out, "help", SP_HELP_SUMMARY, width);
    fputc('\n', out);
    sp_help_put_paragraphs(out,
                           "`spectool COMMAND --help` or `spectool help COMMAND` describes a "
                           "command; `spectool --version` prints the version.\n\nFILE may be a "
                           "packed file, a checkpoint folder, a GGUF file or the name of a stored "
                           "model (ORG/NAME, NAME:TAG), which is packed once; show, verify and "
                           "export read it in place, and quantize takes packed files only.",
                           width);
}

static const struct sp_command *find_command(const char *name)
{
    for (const struct sp_command *const *c = sp_commands; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    return NULL;
}

static int unknown_command(const char *name)
{
    static const char *const others[] = {"help", "--help", "--version"};
    const char *kind = *name == '-' ? "option" : "command";
    const char *near = NULL, *hint = sp_other_tools_hint(name);

    if (hint == NULL && sp_file_exists(name)) hint = "to run a model, spectool run FILE";
    if (hint) {
        fprintf(stderr, "spectool: unknown %s %s: %s\n", kind, name, hint);
        return SP_E_USAGE;
    }
    for (const struct sp_command *const *c = sp_commands; *c != NULL; c++)
        if (!(*c)->hidden) near = sp_nearer(near, (*c)->name, name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        near = sp_nearer(near, others[i], name);
    fprintf(stderr, "spectool: unknown %s %s%s%s%s (spectool --help)\n", kind, name,
            near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    return SP_E_USAGE;
}

/* Flushes stdout; a failed write, such as to a full disk, is an error. */
static int flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (status != SP_OK) return status;
    fprintf(stderr, "spectool: standard output: %s\n", strerror(errno));
    return SP_E_IO;
}

/* name: of the command, also "help" or one of its names as an option; NULL: all commands. */
static int help(const char *name)
{
    const struct sp_command *command = name ? find_command(name) : NULL;

    if (command)
        sp_opt_print_help(stdout, command);
    else if (name == NULL || sp_is_among(name, "help --help -h"))
        print_commands(stdout);
    else
        return unknown_command(name);
    return flush(SP_OK);
}

/* ---- processes that mpirun started ---- */

static bool is_started_by_mpi(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL) continue;
        /* The first two are numbers of processes. */
        if (i == 2 || strcmp(value, "1") != 0) return true;
    }
    return false;
}

/* True if this is rank 0 of a job, or no job: only it reports what all processes find out. */
static bool is_first_of_job(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL) return strcmp(value, "0") == 0;
    }
    return true;
}

/* Joins the job if the environment says that mpirun (Open MPI, MPICH, or srun with PMIx) started
 * this process. *out is NULL if it did not, or if the process is the only one. SP_E_UNSUPPORTED:
 * the command does not run in several processes. */
static enum sp_status join_job(struct sp_rank_group **out, const struct sp_command *command,
                               struct sp_err *err)
{
    struct sp_rank_group *group = NULL;
    enum sp_status st;

    *out = NULL;
    if (!is_started_by_mpi()) return SP_OK;
    if (command->group_offset == 0)
        return sp_fail(err, SP_E_UNSUPPORTED, "one process is enough: mpirun started several");
    if ((st = sp_rank_group_join(&group, "spectool-mpi.so", err))) return st;
    if (sp_rank_group_size(group) > 1)
        *out = group;
    else
        sp_rank_group_leave(group);
    return SP_OK;
}

/* Runs a command, or computes for the rank that runs it. */
static enum sp_status run_joined(const struct sp_args *args, struct sp_rank_group *group,
                                 struct sp_err *err)
{
    size_t offset = args->command->group_offset;
    enum sp_status st;

    if (group && sp_rank_group_rank(group) > 0) {
        if ((st = sp_rank_group_serve(group, err))) return st;
    } else {
        if (group) memcpy((char *)args->options + offset, &group, sizeof group);
        st = args->command->run(args, err);
    }
    sp_rank_group_leave(group);
    return st;
}

static int run(const struct sp_command *command, int argc, char **argv)
{
    struct sp_rank_group *group = NULL;
    struct sp_args args = {0};
    struct sp_err err = {0};
    enum sp_status st = sp_args_parse(&args, command, argc, argv, &err);
    bool usage = st == SP_E_USAGE;
    int code;

    if (st == SP_OK && !args.help) st = join_job(&group, command, &err);
    if (st && !is_first_of_job()) err.text[0] = '\0';
    if (st == SP_OK && args.help)
        sp_opt_print_help(stdout, command);
    else if (st == SP_OK)
        st = run_joined(&args, group, &err);
    sp_args_release(&args);
    if (err.text[0] != '\0') {
        fflush(stdout);
        sp_advise(&err);
        sp_word_wrap_print(stderr, 0, "spectool %s: %s%s%s%s", command->name, err.text,
                           usage ? " (spectool " : "", usage ? command->name : "",
                           usage ? " --help)" : "");
    }
    code = flush(st == SP_E_CANCELLED ? SP_E_CHECK : (int)st);
    if (code != SP_OK) sp_signals_resume();
    return code;
}

static int print_version(int argc, char **argv)
{
    static void (*const libraries[])(char *text, size_t size) = {
        sp_compress_library, sp_hash_library,      sp_json_library, sp_unicode_library,
        sp_regex_library,    sp_line_edit_library, sp_http_library};
    char text[128];

    if (argc > 1 || (argc == 1 && strcmp(argv[0], "--verbose") != 0)) {
        fprintf(stderr, "spectool: --version takes no other argument than --verbose\n");
        return SP_E_USAGE;
    }
    printf("spectool %s\n", sp_version());
    for (size_t i = 0; argc == 1 && i < sizeof libraries / sizeof *libraries; i++) {
        libraries[i](text, sizeof text);
        puts(text);
    }
    if (argc == 1 && *SP_LINKED_IN != '\0') puts(SP_LINKED_IN);
    return flush(SP_OK);
}

int main(int argc, char **argv)
{
    const struct sp_command *command;

    /* Texts are UTF-8 whatever the environment says, and only UTF-8 is used of a locale: letters
     * become upper case as in ASCII, and numbers keep the decimal point. */
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) setlocale(LC_CTYPE, "");
    sp_out_open_closed_streams();
    sp_signals_guard_files();
    if (argc < 2) {
        print_commands(stderr);
        return SP_E_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) return print_version(argc - 2, argv + 2);
    if (sp_is_among(argv[1], "--help -h")) return help(NULL);
    if (strcmp(argv[1], "help") == 0) return help(argv[2]);
    if ((command = find_command(argv[1])) == NULL) return unknown_command(argv[1]);
    return run(command, argc - 2, argv + 2);
}
