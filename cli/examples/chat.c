/* Asks a packed file a question, with the public header of the library alone, and answers as
 * `spectool run` does: with the file's own settings and messages, and with its draft.
 *
 * Build: cc chat.c $(pkg-config --cflags --libs spectool)
 * Usage: chat FILE QUESTION [TOOLS]
 *
 * TOOLS is a JSON array as in OpenAI's API; with it the answer is a call of one of the tools. */
#include <spectool.h>
#include <stdio.h>

static int show(void *context, const struct sp_chat_part *part)
{
    FILE *file = part->kind == SP_CHAT_REASONING ? stderr : context;

    if (part->kind == SP_CHAT_TOOL_CALL) fprintf(file, "call %s ", part->name);
    return fwrite(part->text, 1, part->size, file) != part->size;
}

int main(int argc, char **argv)
{
    const struct sp_chat_message question = {"user", argc > 2 ? argv[2] : "", NULL};
    const struct sp_chat_request chat = {.size = sizeof chat,
                                         .turns = &question,
                                         .n_turns = 1,
                                         .tools = argc > 3 ? argv[3] : NULL,
                                         .calls = argc > 3 ? SP_CHAT_CALLS_REQUIRED : 0};
    struct sp_package *package = NULL;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};
    enum sp_status st;

    if (argc < 3) return SP_E_USAGE;
    if ((st = sp_package_open(&package, argv[1], NULL, &err)) == SP_OK)
        st = sp_ask(package, &chat, show, stdout, &result, &err);
    puts("");
    if (st)
        fprintf(stderr, "%s\n", err.text);
    else
        fprintf(stderr, "%zu of %zu draft tokens accepted\n", result.accepted, result.drafted);
    sp_result_release(&result);
    sp_package_close(package);
    return (int)st;
}
