/* Packs testdata/tiny with its draft, serves it in a child process that all tests of a binary
 * share, and reads its responses. Every failure fails the test. */
#ifndef SP_TESTS_SUPPORT_SERVED_MODEL_H
#define SP_TESTS_SUPPORT_SERVED_MODEL_H

#include "tests/support/server_process.h"

#include <stdint.h>

extern const char *served_file;   /* target and draft, with the template they were trained on */
extern struct server tiny_server; /* serves served_file as "tiny" with an f32 kv cache */

/* Setup and teardown of a test group. */
int served_setup(void **state);
int served_teardown(void **state);

/* Packs target and draft with further Modelfile records; returns the path as packed_file does. */
const char *served_pack(const char *records);
#define SERVED_CHATML                                                                              \
    "TEMPLATE \"\"\"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end "          \
    "}}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n\"\"\"\n"

/* A template under which the tiny model appears to call a tool. It uses common words as the tags
 * of reasoning and tool calls, so that the story for "Tell me a story." begins with reasoning and
 * contains a tool call: "There was once a hungry turtle called Finn. Finn lived in a cave near the
 * sea with a mouse named Maya." */
extern const char served_tool_template[];

/* ---- requests and replies ---- */

/* Return the JSON of a response with status 200; kept (keep.h). */
struct sp_json *served_get(const char *path);
struct sp_json *served_post(const char *path, const char *body);

/* Return the memory that a metric states, and the number of open models. */
long served_metric(const struct server *s, const char *name);
size_t served_count_open(const struct server *s);

/* Returns the value at a path of members and elements such as "a.0.b"; NULL if there is none. */
const struct sp_json *json_at(const struct sp_json *json, const char *path);
const char *json_text(const struct sp_json *json, const char *path);
int64_t json_number(const struct sp_json *json, const char *path);
/* Compares the values at paths with those of an object: "{'a.b': 1, 'c.0': 'text'}". */
void json_expect(const struct sp_json *json, const char *members);

/* Joins the texts at `path` of a stream's events or lines; kept. Checks that each consists
 * of whole characters. *n: number of texts. */
char *stream_text(const struct http_reply *r, const char *path, size_t *n);

/* ---- requests and expected responses ---- */

/* The ids of the first golden prompt: 582, 580, 258, 421. */
#define GOLDEN_PROMPT "'prompt': [582, 580, 258, 421], 'max_tokens': 24"

/* A request that takes long: the end of the text is forbidden. The options make the server slow. */
#define SERVED_SLOW_OPTIONS                                                                        \
    "--no-draft", "--kernels", "scalar", "--threads", "1", "--kv-type", "f32"
#define SERVED_LONG_REQUEST                                                                        \
    "{'prompt': [582, 580, 258, 421], 'max_tokens': 4000, 'stream': %s, 'logit_bias': {'1596': "   \
    "-100, '1598': -100}}"

/* The same request in the format of each API. */
enum { N_SERVED_APIS = 6 };
extern const struct served_api {
    const char *path, *body;   /* up to the value of `stream` */
    const char *whole, *piece; /* paths of the text in a response and in a stream event */
} served_apis[N_SERVED_APIS];

/* Returns the output of `spectool run PACKED OPTIONS` without its last line end; kept. */
char *served_run(const char *packed, const char *options);

#endif
