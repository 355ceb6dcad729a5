/* What a client asks for, in no API's own words; and the parts of reading it that the APIs share.
 *
 * Texts borrow from the request's JSON, which is kept. Errors are SP_E_INPUT, or SP_E_UNSUPPORTED
 * where the API has something that is not done here, and name the member. */
#ifndef SP_CLI_SERVE_SERVE_REQUEST_H
#define SP_CLI_SERVE_SERVE_REQUEST_H

#include "cli/chat/generation.h"
#include "cli/chat/request_settings.h"
#include "format/base/strbuf.h"

enum {
    SP_SERVE_MAX_TOP = 20,      /* alternatives of a token */
    SP_SERVE_MAX_ANSWERS = 128, /* to a request */
};

/* A prompt without a template. */
struct sp_serve_raw_prompt {
    const char *text; /* [size], as it is; NULL: */
    size_t size;
    struct sp_ids ids; /* owned */
};

/* Valid when zeroed. */
struct sp_serve_request {
    struct sp_json *body; /* owned */
    /* The prompt, one of: */
    struct sp_json *messages;            /* rendered by the template; owned */
    struct sp_serve_raw_prompt *prompts; /* [n_prompts], owned */
    size_t n_prompts;
    struct sp_strbuf begun;                /* how the answer to messages begins already; owned */
    const struct sp_json *prompt, *suffix; /* strings: text around a gap */
    const struct sp_json *tools, *kwargs;  /* for the template; NULL: none */
    struct sp_json *own_tools;             /* tools, where the body has another form; owned */
    struct sp_template *template;          /* owned; NULL: the file's */
    struct sp_grammar *grammar;            /* the content is held to it; owned; NULL: to nothing */
    bool hold_calls;                       /* calls are held to their tools' schemas; */
    bool must_call;                        /* there is one, */
    const char *function;                  /* of this function; borrowed; NULL: of any */
    bool one_call;                         /* and no more */
    bool think, is_think_set;
    const char *think_level;     /* NULL: none */
    bool omit_reasoning;         /* they are not told */
    struct sp_settings settings; /* owned */
    size_t n_each;               /* answers to each prompt; 0: one */
    bool stream;
    bool tell_usage; /* OpenAI: a last chunk with the numbers of tokens */
    bool logprobs;
    unsigned n_top;
};
void sp_serve_request_release(struct sp_serve_request *request);

/* How many answers it takes, and how many to each prompt, which stand next to each other. */
size_t sp_serve_request_n_each(const struct sp_serve_request *request);
size_t sp_serve_request_n_answers(const struct sp_serve_request *request);

/* Makes room for n prompts, which are zero. */
SP_MUST_CHECK enum sp_status sp_serve_request_take_prompts(struct sp_serve_request *request,
                                                           size_t n, struct sp_err *err);

/* *out = the member `key` of `body`, borrowed from it; NULL: it is not there. SP_E_INPUT where it
 * is no object: what is in it would be passed over. */
SP_MUST_CHECK enum sp_status sp_serve_read_object(const struct sp_json **out,
                                                  const struct sp_json *body, const char *key,
                                                  struct sp_err *err);

/* A member that the API has and this server has not. Refused where it is there with another value
 * than `harmless` (JSON as sp_json_print writes it; NULL: whatever its value). */
struct sp_serve_refusal {
    const char *key, *harmless, *why;
};
SP_MUST_CHECK enum sp_status sp_serve_refuse(const struct sp_json *object,
                                             const struct sp_serve_refusal *rows,
                                             struct sp_err *err);

/* The body's tools, an array of objects, to ask->tools; NULL for none. */
SP_MUST_CHECK enum sp_status sp_serve_read_tools(struct sp_serve_request *request,
                                                 struct sp_err *err);

/* Sets ask->think by a level: "none" is no thinking. */
void sp_serve_set_think_level(struct sp_serve_request *request, const char *level);

#endif
