/* testdata/tiny packed with its draft and served by a child process, one for all tests of a binary;
 * what its answers say, and what they ought to. All failures fail the test. */
#ifndef SP_TESTS_SUPPORT_SERVED_MODEL_H
#define SP_TESTS_SUPPORT_SERVED_MODEL_H

#include "tests/support/server_process.h"

#include <stdint.h>

extern const char *served_file;   /* target and draft, with the template they were trained on */
extern struct server tiny_server; /* it, served under the name "tiny"; keys and values in f32 */

/* Set-up and teardown of a group of tests. */
int served_setup(void **state);
int served_teardown(void **state);

/* Target and draft packed anew, with these records of a Modelfile; as packed_file. */
const char *served_pack(const char *records);
#define SERVED_CHATML                                                                              \
    "TEMPLATE \"\"\"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"        \
    "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n\"\"\"\n"

/* The tiny model calls no tools. But to this template, which has common words for marks, the story
 * that it tells ("Tell me a story.") begins with a thought, and a call is in it: "There was once a
 * hungry turtle called Finn. Finn lived in a cave near the sea with a mouse named Maya." */
extern const char served_tool_template[];

/* ---- requests and replies ---- */

/* The JSON of a reply with status 200. */
struct sp_json *served_get(const char *path);
struct sp_json *served_post(const char *path, const char *body);

/* The value at "a.0.b", members and elements; NULL where there is none. */
const struct sp_json *json_at(const struct sp_json *json, const char *path);
const char *json_text(const struct sp_json *json, const char *path);
int64_t json_number(const struct sp_json *json, const char *path);

/* The texts at `path` of a stream's events or lines, joined (free); each of them whole characters.
 * *n: how many. */
char *stream_text(const struct http_reply *r, const char *path, size_t *n);

/* ---- what to ask, and what is answered ---- */

/* The ids of the first golden prompt: 582, 580, 258, 421. */
#define GOLDEN_PROMPT "\"prompt\": [582, 580, 258, 421], \"max_tokens\": 24"

/* An answer that takes long: its end is forbidden, and the server is slow. */
#define SERVED_SLOW_OPTIONS                                                                        \
    "--no-draft", "--kernels", "scalar", "--threads", "1", "--kv-type", "f32"
#define SERVED_LONG_REQUEST                                                                        \
    "{\"prompt\": [582, 580, 258, 421], \"max_tokens\": 4000, \"stream\": %s, "                    \
    "\"logit_bias\": {\"1596\": -1000, \"1598\": -1000}}"

/* Each API's way to ask for the same answer. */
enum { N_SERVED_APIS = 6 };
extern const struct served_api {
    const char *path, *body;   /* up to the value of `stream` */
    const char *whole, *piece; /* where the text stands in an answer, and in a stream's events */
} served_apis[N_SERVED_APIS];

/* What `spectool run PACKED OPTIONS` prints, without its last line end; owned (free). */
char *served_run(const char *packed, const char *options);

#endif
