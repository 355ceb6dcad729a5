/* Asks a packed file a question, with the public header of the library alone, and drafts as
 * `spectool run` does.
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
    const struct sp_chat_request ask = {.size = sizeof ask,
                                        .turns = &question,
                                        .n_turns = 1,
                                        .tools = argc > 3 ? argv[3] : NULL,
                                        .calls = argc > 3 ? SP_CHAT_CALLS_REQUIRED : 0};
    const struct sp_chat_reader_options reading = {
        .size = sizeof reading, .part = show, .context = stdout};
    struct sp_request request = SP_REQUEST_INIT;
    struct sp_package *package = NULL;
    struct sp_session *session = NULL;
    struct sp_chat *chat = NULL;
    struct sp_chat_prompt *prompt = NULL;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_err err = {0};
    enum sp_status st;

    if (argc < 3) return 2;
    if ((st = sp_package_open(&package, argv[1],
                              &(struct sp_package_options)SP_PACKAGE_OPTIONS_INIT, &err)) ||
        (st = sp_session_open(&session, package,
                              &(struct sp_session_options)SP_SESSION_OPTIONS_INIT, &err)) ||
        (st = sp_chat_open(&chat, package, NULL, &err)) ||
        (st = sp_chat_prompt_open(&prompt, chat, &ask, &err)) ||
        (st = sp_chat_reader_open(&request.reader, prompt, &reading, &err)))
        goto done;
    sp_chat_prompt_apply(prompt, &request);
    request.max_tokens = 200;
    st = sp_session_generate(session, &request, &result, &err);
done:
    puts("");
    if (st)
        fprintf(stderr, "%s\n", err.text);
    else
        fprintf(stderr, "%zu of %zu draft tokens accepted\n", result.accepted, result.drafted);
    sp_result_release(&result);
    sp_chat_reader_close(request.reader);
    sp_chat_prompt_close(prompt);
    sp_chat_close(chat);
    sp_session_close(session);
    sp_package_close(package);
    return (int)st;
}
