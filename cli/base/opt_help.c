/* Writes the text of --help from the option tables. */
#include "cli/base/opt_help.h"
#include "cli/base/opt.h"

#include <string.h>

enum { TEXT_COLUMN = 30, MIN_WIDTH = 50, MAX_WIDTH = 110, LEFT_SIZE = 128 };

/* Prints words from `column` on, breaks lines before `width` and indents the following lines.
 * Returns the column after the text. */
static int put_words(FILE *out, const char *text, int column, int indent, int width)
{
    for (const char *word = text; *word;) {
        int len = (int)strcspn(word, " \n");
        if (column > indent && column + 1 + len > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", len, word);
        column += len;
        word += len;
        while (*word == ' ' || *word == '\n')
            word++;
    }
    return column;
}

static void put_paragraphs(FILE *out, const char *text, int width)
{
    while (*text) {
        char paragraph[4096];
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (len >= sizeof paragraph) len = sizeof paragraph - 1;
        memcpy(paragraph, text, len);
        paragraph[len] = '\0';
        put_words(out, paragraph, 0, 0, width);
        fputs(end ? "\n\n" : "\n", out);
        text += len + (end ? 2 : 0);
    }
}

static void print_option(FILE *out, const struct sp_opt *o, int width)
{
    char left[LEFT_SIZE], letter[8] = "    ", text[256];
    int column;

    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    column = snprintf(left, sizeof left, "  %s--%s%s%s%s", letter, o->name,
                      o->words   ? "[="
                      : o->value ? " "
                                 : "",
                      o->value ? o->value : "", o->words ? "]" : "");
    fputs(left, out);
    if (column >= TEXT_COLUMN) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", TEXT_COLUMN - column, "");
    column = put_words(out, o->help, TEXT_COLUMN, TEXT_COLUMN, width);
    if (o->choices != NULL) {
        for (const char *const *word = o->choices; *word != NULL; word++) {
            snprintf(text, sizeof text, "%s%s%s", word == o->choices ? "(" : "", *word,
                     word[1] ? "," : ")");
            column = put_words(out, text, column, TEXT_COLUMN, width);
        }
    }
    if (o->shown != NULL) {
        snprintf(text, sizeof text, "(default: %s)", o->shown);
        column = put_words(out, text, column, TEXT_COLUMN, width);
    }
    if (o->alias != NULL) {
        snprintf(text, sizeof text, "(also: --%s)", o->alias);
        put_words(out, text, column, TEXT_COLUMN, width);
    }
    fputc('\n', out);
}

void sp_opt_print_help(FILE *out, const struct sp_command *c, int width)
{
    static const struct sp_opt help = {
        .name = "help", .letter = 'h', .help = "Print this help and exit"};

    if (width < MIN_WIDTH) width = MIN_WIDTH;
    if (width > MAX_WIDTH) width = MAX_WIDTH;
    fprintf(out, "Usage: spectool %s%s%s%s\n\n", c->name,
            c->opts->kind == SP_OPT_END ? "" : " [OPTION]...", c->operands[0] ? " " : "",
            c->operands);
    put_words(out, c->summary, 0, 0, width);
    fputs(c->opts->kind == SP_OPT_HEADING ? ".\n" : ".\n\nOptions:\n", out);
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END; o++) {
        if (o->kind == SP_OPT_HEADING)
            fprintf(out, "\n%s:\n", o->help);
        else
            print_option(out, o, width);
    }
    if (c->opts->kind == SP_OPT_HEADING) fputc('\n', out);
    print_option(out, &help, width);
    if (c->takes_model) {
        fputc('\n', out);
        put_paragraphs(out, SP_OPT_MODEL_HELP, width);
    }
    if (c->details == NULL) return;
    fputc('\n', out);
    put_paragraphs(out, c->details, width);
}
