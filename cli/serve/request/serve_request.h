/* A request for text, independent of the API, and the parts of reading it that the APIs share.
 *
 * Strings are borrowed from the request's JSON, which the request owns. Errors are SP_E_INPUT, or
 * SP_E_UNSUPPORTED for a feature of the API that this server lacks; they name the member. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_REQUEST_H
#define SP_CLI_SERVE_REQUEST_SERVE_REQUEST_H

#include "cli/chat/loaded_model.h"
#include "cli/chat/response_format.h"
#include "format/base/strbuf.h"
#include "format/json/json_write.h"

enum {
    SP_SERVE_MAX_TOP = 20,      /* most alternatives of a token */
    SP_SERVE_MAX_ANSWERS = 128, /* most answers to a request */
};

/* A prompt that bypasses the chat template: a text or token ids. */
struct sp_serve_raw_prompt {
    const char *text; /* [size] text; borrowed; NULL: the prompt is `ids` */
    size_t size;
    struct sp_ids ids; /* owned */
};

/* What OpenAI's errors state besides a sentence. Valid when zeroed. */
struct sp_serve_fault {
    const char *code; /* such as "invalid_value"; static; NULL: none */
    char param[64];   /* path of the member, such as "messages[0].role"; empty: none */
};
/* Sets the code, which is static, and the path. */
void sp_serve_fault_set(struct sp_serve_fault *fault, const char *code, const char *format, ...)
    SP_PRINTF(3, 4);

struct sp_serve_model;

enum { SP_SERVE_CHANGES_TEXT = 256 };

/* Valid when zeroed. */
struct sp_serve_request {
    const struct sp_serve_model *model; /* that answers; borrowed, open until the request ends */
    const struct sp_conversation *conversation; /* of the open model: template and messages */
    struct sp_json *body;                       /* owned */
    /* Takes memory for the JSON that a text of the body becomes, or of a response, from that of all
     * requests. SP_E_NOMEM: too little is left; SP_E_INPUT: it would never suffice. NULL: it is not
     * limited. [any thread] */
    enum sp_status (*take_memory)(void *memory, size_t size, struct sp_err *err);
    void *memory; /* borrowed */
    /* Exactly one of the prompts is set: messages, prompts, or prompt with suffix. */
    struct sp_json *messages;            /* messages for the chat template; owned */
    struct sp_serve_raw_prompt *prompts; /* [n_prompts], owned */
    size_t n_prompts;
    bool chat_ids; /* `prompts` is one of token IDs, whose answer is one of the chat template */
    struct sp_strbuf partial; /* text that the assistant's answer starts with; owned */
    /* JSON strings: the text before and after a gap to fill. Without `prompt` the texts before it
     * are `prompts`, and the gap is filled by the tokenizer's own tokens. */
    const struct sp_json *prompt, *suffix;
    const struct sp_json *begun; /* JSON string with which the text of the gap begins; NULL: none */
    const struct sp_json *extra; /* [{"filename", "text"}] for the gap; NULL: none */
    bool cut_prompt;             /* what does not fit into the context is left out of the prompt */
    bool prompt_only;            /* the prompt is read, and the answer is empty */
    bool echo;                   /* the answer begins with the prompt */
    const struct sp_json *tools, *kwargs; /* arguments of the template; NULL: none */
    struct sp_json *own_tools;    /* converted tools, where the API's format differs; owned */
    struct sp_template *template; /* the request's own template; owned; NULL: the file's */
    struct sp_grammar *grammar;   /* constrains the content; owned; NULL: no constraint */
    bool constrain_calls;         /* tool calls are constrained by the tools' schemas */
    bool must_call;               /* the answer must contain a tool call */
    const char *function;         /* the function to call; borrowed; NULL: any */
    bool one_call;                /* the answer contains at most one tool call */
    bool think, is_think_set;
    const char *think_level;            /* NULL: none */
    const struct sp_template_time *now; /* as the template sees it; borrowed; NULL: the present */
    bool omit_reasoning;                /* reasoning is not sent */
    const struct sp_lora *lora;  /* adapter; borrowed; NULL: the one that the model's name means */
    float lora_scale;            /* by which the products of `lora` are multiplied */
    struct sp_settings settings; /* owned */
    bool ignore_eos;             /* tokens that end an answer do not end this one */
    int64_t min_tokens;          /* without an end token before */
    int64_t n_each;              /* answers to each prompt; 0: one */
    bool stream;
    bool include_usage;   /* OpenAI: a stream ends with a chunk that has the usage */
    bool return_progress; /* llama-server: a stream tells how much of the prompt is processed */
    bool logprobs;
    int64_t n_top;                       /* alternatives of a token */
    struct sp_serve_fault fault;         /* describes the error of reading the request */
    char changes[SP_SERVE_CHANGES_TEXT]; /* what is answered otherwise than it was asked, for the
                                          * header X-Changes; empty: nothing */
};
/* Says that a tool of a type that cannot be offered to the model is left out. */
void sp_serve_request_leave_out(struct sp_serve_request *request, const char *type);
/* Adds to the changes; what does not fit is left out, which "..." says. */
void sp_serve_request_change(struct sp_serve_request *request, const char *format, ...)
    SP_PRINTF(2, 3);
void sp_serve_request_release(struct sp_serve_request *request);

/* The numbers of answers to each prompt and of all. Answers to the same prompt are adjacent. */
size_t sp_serve_request_n_each(const struct sp_serve_request *request);
size_t sp_serve_request_n_answers(const struct sp_serve_request *request);

/* Allocates n zeroed prompts, or the one of a JSON string. */
SP_MUST_CHECK enum sp_status sp_serve_request_take_prompts(struct sp_serve_request *request,
                                                           size_t n, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_serve_request_take_text(struct sp_serve_request *request,
                                                        const struct sp_json *text,
                                                        struct sp_err *err);

/* SP_E_INPUT: KEY is KIND OF VALUE (NULL: missing), expected EXPECTED. */
enum sp_status sp_serve_wrong(const char *key, const struct sp_json *value, const char *expected,
                              struct sp_err *err);

/* *out = the member `key`, an object, an array or a string, borrowed; NULL: absent. SP_E_INPUT if
 * it is of another kind, since its contents would be ignored. */
SP_MUST_CHECK enum sp_status sp_serve_read_kind(const struct sp_json **out,
                                                const struct sp_json *object, const char *key,
                                                enum sp_json_kind kind, struct sp_err *err);

/* Reads members that concern no answer of this server, so that they are not reported as ignored.
 * `keys` has blanks between them. */
void sp_serve_read_hints(const struct sp_json *object, const char *keys);

/* *seconds = how long the model is to stay open after the request: the member keep_alive, a number
 * of seconds or a duration; unchanged if it is absent. */
SP_MUST_CHECK enum sp_status sp_serve_read_keep_alive(double *seconds, const struct sp_json *body,
                                                      struct sp_err *err);

/* ---- the members of requests (serve_fields.c) ----
 *
 * The requests of an API are read by the rows of a table, in their order. A row also says what its
 * member adds to the responses. */

struct sp_serve_response;
struct sp_serve_field;

/* A member that is read. */
struct sp_serve_member {
    struct sp_serve_request *request;
    const struct sp_json *object,
        *value;                         /* value NULL: the object lacks it, or the row has no key */
    const struct sp_serve_field *field; /* its row */
};
typedef enum sp_status sp_serve_read_fn(const struct sp_serve_member *member, struct sp_err *err);

/* A row; one that is zeroed ends a table. */
struct sp_serve_field {
    const char *key;        /* NULL: the row is about several members, or the whole request */
    enum sp_json_kind kind; /* that the value must have; SP_JSON_NULL: any */
    size_t offset; /* of the value in struct sp_serve_request: a bool, an int64_t in min..max, or a
                    * borrowed pointer to JSON; 0: it is only checked */
    int64_t min, max;
    const struct sp_serve_field *members; /* of the value or, without a key, of the same object */
    const char *names; /* of members that concern no answer of this server, with blanks between */
    /* Reads the value, if there is one or if `always`, after its kind is checked. */
    sp_serve_read_fn *read;
    bool always;
    const char *parameter; /* of the Modelfile, for sp_serve_read_setting */
    /* Without `read`: why the member is refused, unless its value is `harmless`, JSON as
     * sp_json_print writes it. */
    const char *why, *harmless;
    /* Writes what the member adds to a response (jobs/serve.h) or, if in_choice, to each choice of
     * a chunk; value NULL: it is absent, and `otherwise` is JSON to write. */
    void (*write)(struct sp_serve_response *response, const struct sp_serve_field *field,
                  const struct sp_json *value);
    bool in_choice;
    const char *otherwise; /* NULL: an absent member adds nothing */
};
#define SP_SERVE_AT(member) .offset = offsetof(struct sp_serve_request, member)

/* True for the end of a table. */
bool sp_serve_field_ends(const struct sp_serve_field *field);

/* Reads the members of an object by their rows. */
SP_MUST_CHECK enum sp_status sp_serve_read_fields(struct sp_serve_request *request,
                                                  const struct sp_json *object,
                                                  const struct sp_serve_field *fields,
                                                  struct sp_err *err);

/* Read the setting `parameter`, with its range and messages, where 40.0 is the integer 40; all
 * members with names of settings of sampling; all with names of limits of the length; and stop
 * texts, one or an array. */
sp_serve_read_fn sp_serve_read_setting, sp_serve_read_sampling, sp_serve_read_lengths,
    sp_serve_read_stops;
/* Checks that alternatives of tokens are wanted with log-probabilities: `why` says how to ask for
 * these; NULL: without them there are no alternatives. */
sp_serve_read_fn sp_serve_check_top;
/* Limits reasoning to a number of tokens; -1: no limit. SP_E_UNSUPPORTED: the reasoning of the
 * model cannot be limited. */
sp_serve_read_fn sp_serve_read_reasoning_budget;

/* Writes a tool in the format that chat templates take, or leaves it out. */
typedef enum sp_status sp_serve_tool_fn(struct sp_json_out *out, struct sp_serve_request *request,
                                        const struct sp_json *tool, struct sp_err *err);

/* Sets request->tools to the body's tools, an array of objects, as `write` writes them, or NULL. */
SP_MUST_CHECK enum sp_status sp_serve_read_tools(struct sp_serve_request *request,
                                                 sp_serve_tool_fn *write, struct sp_err *err);

/* Reads tools that are in that format already. Leaves out those that are not functions, and checks
 * that the others have a name; a tool may lack its type, as in ollama's API. */
sp_serve_read_fn sp_serve_read_functions;

/* True if the request asks for reasoning and the chat template of the model has none. What a
 * request's own template has is not known here. */
bool sp_serve_lacks_reasoning(const struct sp_serve_request *request);

/* Leaves reasoning out for such a model, since clients ask for it by habit; `key`: the member that
 * asks for it. Returns false if nothing was left out. */
bool sp_serve_leave_out_reasoning(struct sp_serve_request *request, const char *key);

/* Sets request->think from the reasoning effort in the member `key`; "none" turns reasoning off. */
SP_MUST_CHECK enum sp_status sp_serve_set_think_level(struct sp_serve_request *request,
                                                      const char *key, const char *level,
                                                      struct sp_err *err);

/* ---- the calls of a conversation (serve_tools.c) ----
 *
 * Tool calls and tool results in a conversation that a client sends, converted to the format that
 * chat templates take. */

/* Returns the text of a member; NULL if it is absent or empty. */
const char *sp_serve_filled(const struct sp_json *object, const char *key);

/* The id of a call in an earlier message. */
struct sp_serve_call_id {
    char own_id[SP_CHAT_CALL_ID_SIZE]; /* generated id of a call that came without one */
    const char *id, *name;             /* borrowed; id NULL: the id is own_id */
};

/* The calls of a conversation. The caller sets `request` and zeroes the other fields. */
struct sp_serve_call_ids {
    const struct sp_serve_request *request; /* borrowed */
    struct sp_serve_call_id *at;            /* [n], owned */
    size_t n, cap;
    size_t n_matched; /* calls matched so far by results that came without an id */
};

/* Writes the member "tool_calls" of a message that has calls. Each call gets an id and a type; its
 * arguments become an object or, if the template expects one, a string. */
SP_MUST_CHECK enum sp_status sp_serve_write_calls(struct sp_json_out *out,
                                                  struct sp_serve_call_ids *known,
                                                  const struct sp_json *message,
                                                  struct sp_err *err);

/* Writes the members of a tool's message that identify its call: tool_call_id, name, tool_name. */
void sp_serve_write_call_reference(struct sp_json_out *out, struct sp_serve_call_ids *known,
                                   const struct sp_json *message);

/* ---- the messages of a request, as chat templates take them (serve_messages.c) ---- */

/* Appends the text of a message's content: a string, or an array of text parts with line ends
 * between them, unless they are output of a model; NULL appends nothing. */
SP_MUST_CHECK enum sp_status
sp_serve_join_content(struct sp_strbuf *to, const struct sp_json *content, struct sp_err *err);

/* Sets request->messages to the system message and the MESSAGE records of the file, followed by
 * the messages of the array `from`; a system message at the start of `from` replaces the file's.
 * Parts of a content are joined; arguments of tool calls are converted to the type that the
 * template takes; reasoning is written under every name that templates use; calls without an id
 * get one, and the result of a tool gets the name and the id of its call. A last message of the
 * assistant is the beginning of the answer, unless the body's continue_final_message is false.
 * Messages of unknown roles or without content are rejected, and tools if the template has none. */
SP_MUST_CHECK enum sp_status sp_serve_read_messages(struct sp_serve_request *request,
                                                    const struct sp_json *from, struct sp_err *err);

/* Sets request->messages to the same, of n messages that are complete and have been checked. */
SP_MUST_CHECK enum sp_status sp_serve_set_messages(struct sp_serve_request *request,
                                                   const struct sp_json *from, size_t n,
                                                   struct sp_err *err);

/* Sets request->messages to one user message after a system message; system NULL: the file's
 * system message. */
SP_MUST_CHECK enum sp_status sp_serve_read_prompt(struct sp_serve_request *request,
                                                  const struct sp_json *system,
                                                  const struct sp_json *prompt, struct sp_err *err);

/* ---- the choice of the tools that the model may or must call (serve_tool_choice.c) ---- */

/* A tool choice, independent of the API. Valid when zeroed: any number of calls of any tools. */
struct sp_serve_tool_choice {
    bool none;            /* the tools are withheld from the model */
    bool must;            /* the answer must contain a call */
    bool one;             /* the answer contains at most one call */
    const char *function; /* the function to call, once; borrowed from the request; NULL: any */
};

/* Applies the choice and the `strict` members of the tools to the request. */
SP_MUST_CHECK enum sp_status sp_serve_apply_tool_choice(struct sp_serve_request *request,
                                                        const struct sp_serve_tool_choice *choice,
                                                        struct sp_err *err);

/* Applies tool_choice and the body's parallel_tool_calls to the request's tools. */
sp_serve_read_fn sp_serve_openai_read_tool_choice;

/* ---- the response format of a request, as a grammar (serve_response_format.c) ---- */

/* Each function sets request->grammar from a member of one API: OpenAI's `response_format` and
 * llama-server's `grammar` and `json_schema`; the Responses API's `text`, which has a format;
 * ollama's `format`; Anthropic's `output_format` or `output_config`. */
sp_serve_read_fn sp_serve_openai_read_response_format, sp_serve_openai_read_grammar,
    sp_serve_openai_read_json_schema, sp_serve_responses_read_response_format,
    sp_serve_ollama_read_response_format, sp_serve_anthropic_read_response_format;

#endif
