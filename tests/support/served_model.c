#include "tests/support/served_model.h"
#include "format/base/unicode.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"

const char *served_file;
struct server tiny_server;

const char *served_pack(const char *records)
{
    const char *path = packed_modelfile(TESTDATA "/tiny/target", TESTDATA "/tiny/dflash");
    FILE *f = fopen(path, "a");

    assert_non_null(f);
    fputs(records, f);
    assert_int_equal(fclose(f), 0);
    return packed_file(path, SP_DTYPE_NONE, SP_DTYPE_NONE);
}

int served_setup(void **state)
{
    /* left to itself, drafting pauses where other programs disturb its times */
    const char *const options[] = {"--kv-type", "f32",           "--name", "tiny", "--threads",
                                   "2",         "--draft-depth", "4",      NULL};

    if (packed_setup(state)) return 1;
    served_file = served_pack(SERVED_CHATML);
    tiny_server = server_start(served_file, options);
    return 0;
}

int served_teardown(void **state)
{
    return packed_teardown(state);
}

const struct sp_json *json_at(const struct sp_json *json, const char *path)
{
    char word[64];

    while (*path != '\0' && json != NULL) {
        size_t len = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)len, path);
        path += len + (path[len] == '.');
        json = sp_json_kind(json) == SP_JSON_ARRAY ? sp_json_at(json, strtoul(word, NULL, 10))
                                                   : sp_json_get(json, word);
    }
    return json;
}

const char *json_text(const struct sp_json *json, const char *path)
{
    const char *text = sp_json_to_string(json_at(json, path), NULL);

    if (text == NULL) fail_msg("no text at %s", path);
    return text;
}

int64_t json_number(const struct sp_json *json, const char *path)
{
    int64_t n = -1;

    if (!sp_json_to_i64(json_at(json, path), &n)) fail_msg("no integer at %s", path);
    return n;
}

void json_expect(const struct sp_json *json, const char *members)
{
    const struct sp_json *wanted = keep_parsed(members, strlen(members), SP_JSON_STRICT);

    for (struct sp_json_iter it = {0}; sp_json_next(wanted, &it);) {
        const struct sp_json *found = json_at(json, it.key);
        if (found == NULL) fail_msg("%s is missing", it.key);
        if (strcmp(keep_printed(found), keep_printed(it.value)) != 0)
            fail_msg("%s is %s", it.key, keep_printed(found));
    }
}

struct sp_json *served_get(const char *path)
{
    return server_get(&tiny_server, path, 200);
}

struct sp_json *served_post(const char *path, const char *body)
{
    return server_post(&tiny_server, path, body, 200);
}

char *stream_text(const struct http_reply *r, const char *path, size_t *n)
{
    char *copy = keep(malloc(r->size + 1)), *text = keep(calloc(1, r->size + 1)), *rest = NULL;
    bool done = false;

    assert_non_null(copy);
    assert_non_null(text);
    memcpy(copy, r->body, r->size + 1);
    *n = 0;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *piece;
        size_t len;
        assert_false(done);
        if (strncmp(line, "event: ", 7) == 0) continue;
        if (strncmp(line, "data: ", 6) == 0) line += 6;
        if ((done = strcmp(line, "[DONE]") == 0)) continue;
        piece =
            sp_json_to_string(json_at(keep_parsed(line, strlen(line), SP_JSON_STRICT), path), &len);
        if (piece != NULL && len > 0) {
            assert_int_equal(sp_utf8_valid(piece, len), len);
            strcat(text, piece);
            ++*n;
        }
    }
    return text;
}

const char served_tool_template[] =
    "TEMPLATE \"\"\"{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.thinking %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}{% for c in "
    "m.tool_calls or [] %}called Finn. {{ c.function.name }} lived {% for k, v in "
    "c.function.arguments.items() %}in {{ k }} near {{ v }} with {% endfor %}a mouse{% endfor "
    "%}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif "
    "%}\"\"\"\n";

const struct served_api served_apis[N_SERVED_APIS] = {
    {"/v1/responses",
     "{'input': 'Tell me a story about a lonely owl.', 'max_output_tokens': 60, 'temperature': "
     "1.5, 'seed': 7, 'stream': ",
     "output.0.content.0.text", "delta"},
    {"/v1/chat/completions",
     "{'messages': [{'role': 'user', 'content': 'Tell me a story about a lonely owl.'}], "
     "'max_tokens': 60, 'temperature': 1.5, 'seed': 7, 'stream': ",
     "choices.0.message.content", "choices.0.delta.content"},
    {"/v1/completions",
     "{'prompt': '<|im_start|>user\\nTell me a story about a lonely owl.<|im_end|>\\n"
     "<|im_start|>assistant\\n', 'max_completion_tokens': 60, 'temperature': 1.5, 'seed': 7, "
     "'stream': ",
     "choices.0.text", "choices.0.text"},
    {"/api/chat",
     "{'messages': [{'role': 'user', 'content': 'Tell me a story about a lonely owl.'}], "
     "'options': {'num_predict': 60, 'temperature': 1.5, 'seed': 7}, 'stream': ",
     "message.content", "message.content"},
    {"/api/generate",
     "{'prompt': 'Tell me a story about a lonely owl.', 'options': {'num_predict': 60, "
     "'temperature': 1.5, 'seed': 7}, 'stream': ",
     "response", "response"},
    {"/v1/messages",
     "{'messages': [{'role': 'user', 'content': 'Tell me a story about a lonely owl.'}], "
     "'max_tokens': 60, 'temperature': 1.5, 'seed': 7, 'stream': ",
     "content.0.text", "delta.text"},
};

char *served_run(const char *packed, const char *options)
{
    char command[1024], *text = keep(calloc(1, 1 << 16));

    assert_non_null(text);
    snprintf(command, sizeof command, "%s run %s %s 2>/dev/null </dev/null", SPECTOOL, packed,
             options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t size = fread(text, 1, (1 << 16) - 1, f);
    assert_int_equal(pclose(f), 0);
    assert_true(size > 0 && text[size - 1] == '\n');
    text[size - 1] = '\0';
    return text;
}

long served_metric(const struct server *s, const char *name)
{
    struct http_reply r = server_request(s, "GET", "/metrics", NULL);
    const char *at = strstr(r.body, keep_format("\n%s ", name));

    assert_non_null(at);
    return atol(strchr(at, ' '));
}

size_t served_count_open(const struct server *s)
{
    return sp_json_len(json_at(server_get(s, "/api/ps", 200), "models"));
}
