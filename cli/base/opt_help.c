/* Writes the text of --help from the option tables. */
#include "cli/base/opt.h"
#include "cli/base/out.h"

#include <string.h>

enum { TEXT_COLUMN = 30, MIN_WIDTH = 50, MAX_WIDTH = 110, LEFT_SIZE = 128 };

int sp_help_put_words(FILE *out, const char *text, int column, int indent, int width)
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

void sp_help_put_paragraphs(FILE *out, const char *text, int width)
{
    while (*text) {
        char paragraph[4096];
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (len >= sizeof paragraph) len = sizeof paragraph - 1;
        memcpy(paragraph, text, len);
        paragraph[len] = '\0';
        sp_help_put_words(out, paragraph, 0, 0, width);
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
    column = sp_help_put_words(out, o->help, TEXT_COLUMN, TEXT_COLUMN, width);
    if (o->choices != NULL) {
        for (const char *const *word = o->choices; *word != NULL; word++) {
            snprintf(text, sizeof text, "%s%s%s", word == o->choices ? "(" : "", *word,
                     word[1] ? "," : ")");
            column = sp_help_put_words(out, text, column, TEXT_COLUMN, width);
        }
    }
    if (o->shown != NULL) {
        snprintf(text, sizeof text, "(default: %s)", o->shown);
        column = sp_help_put_words(out, text, column, TEXT_COLUMN, width);
    }
    if (o->alias != NULL) {
        snprintf(text, sizeof text, "(also: --%s)", o->alias);
        sp_help_put_words(out, text, column, TEXT_COLUMN, width);
    }
    fputc('\n', out);
}

int sp_help_width(FILE *out)
{
    int width = sp_out_width(out);

    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

void sp_opt_print_help(FILE *out, const struct sp_command *c)
{
    static const struct sp_opt help = {
        .name = "help", .letter = 'h', .help = "Print this help and exit"};
    const int width = sp_help_width(out);

    fprintf(out, "Usage: spectool %s%s%s%s\n\n", c->name,
            c->opts->kind == SP_OPT_END ? "" : " [OPTION]...", c->operands[0] ? " " : "",
            c->operands);
    sp_help_put_words(out, c->summary, 0, 0, width);
    fputs(c->opts->kind == SP_OPT_HEADING ? ".\n" : ".\n\nOptions:\n", out);
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END; o++)
        if (o->kind == SP_OPT_HEADING)
            fprintf(out, "\n%s:\n", o->help);
        else
            print_option(out, o, width);
    if (c->opts->kind == SP_OPT_HEADING) fputc('\n', out);
    print_option(out, &help, width);
    if (c->takes_model) {
        fputc('\n', out);
        sp_help_put_paragraphs(out, c->in_place ? SP_OPT_IN_PLACE_HELP : SP_OPT_MODEL_HELP, width);
    }
    if (c->details == NULL) return;
    fputc('\n', out);
    sp_help_put_paragraphs(out, c->details, width);
}
