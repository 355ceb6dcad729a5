/* spectool: speculative text generation on the CPU from one packed file.
 *
 *   struct sp_package *package;  struct sp_session *session;  struct sp_err err = {0};
 *   sp_package_open(&package, "packed.bin", &(struct sp_package_options){0}, &err);
 *   sp_session_open(&session, package, &(struct sp_session_options){0}, &err);
 *   sp_session_generate(session, &request, &result, &err);
 *
 * A package is a mapped file: weights, tokenizer, settings; it may serve any number of sessions. A
 * session is one token sequence with its caches. Tokens and logits are functions of the file, the
 * prompt, the sampling options and the seed alone: not of drafting, threads, kernels or chunking,
 * nor of what else is generated at the same time, nor of the locale that the program has set.
 *
 * Threads may use different sessions of a package at the same time; they take turns, and those that
 * generate in sessions opened alike share passes, in which weights are read once for all of them.
 * While one is in a callback the others wait; of sessions a callback may use but its own, to save
 * it or to ask what it holds. One session is one thread's at a time; so is a package with what is
 * asked of itself (sp_package_*, sp_evaluate, ...).
 *
 * Every function that can fail returns a status and, in err (may be NULL), one sentence. */
#ifndef SP_RUNTIME_SPECTOOL_H
#define SP_RUNTIME_SPECTOOL_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. */
#define SPECTOOL_VERSION_MAJOR 0
#define SPECTOOL_VERSION_MINOR 1
#define SPECTOOL_VERSION_PATCH 0
#define SPECTOOL_VERSION_DOTTED(major, minor, patch) #major "." #minor "." #patch
#define SPECTOOL_VERSION_OF(major, minor, patch) SPECTOOL_VERSION_DOTTED(major, minor, patch)
#define SPECTOOL_VERSION                                                                           \
    SPECTOOL_VERSION_OF(SPECTOOL_VERSION_MAJOR, SPECTOOL_VERSION_MINOR, SPECTOOL_VERSION_PATCH)

/* The version of the library that the program runs with, "0.1.0". Any thread may call it. */
SP_API const char *sp_version(void);

/* A struct that a caller hands to the library begins with its size, as the caller was compiled, so
 * that later versions may add members at its end. The macro SP_..._INIT that stands after each such
 * struct sets the size, and so does `.size = sizeof options` in an initializer of one's own.
 * Members beyond the size count as zero on the way in, and are not written on the way out. A
 * function that can fail returns SP_E_USAGE where the size is not set, or larger than the library
 * knows; a function that cannot fail leaves such a struct as it is. */
#define SP_SIZED(type)                                                                             \
    {                                                                                              \
        .size = sizeof(type)                                                                       \
    }

struct sp_package;
struct sp_session;

/* ---- packages ---------------------------------------------------------------------------------
 */

struct sp_package_options {
    size_t size;
    const char *kernels; /* "scalar"; on x86-64 "avx2", "avx512vnni", "avxvnni", "avx512"; on ARM
                          * "neon"; NULL: the best that this CPU has */
    unsigned n_threads;  /* 0: the cores this process may use */
    bool huge_pages;     /* read the file into memory of huge pages in place of mapping it: takes
                          * longer to open and is not shared, is faster to read ever after */
};
#define SP_PACKAGE_OPTIONS_INIT SP_SIZED(struct sp_package_options)

SP_API SP_MUST_CHECK enum sp_status sp_package_open(struct sp_package **out, const char *path,
                                                    const struct sp_package_options *options,
                                                    struct sp_err *err);
SP_API void sp_package_close(struct sp_package *package); /* NULL is fine; after its sessions */

enum { SP_EOS_MAX = 16 };

/* All pointers are borrowed from the package. */
struct sp_package_info {
    size_t size;
    const char *kernels;
    unsigned n_threads;
    size_t n_vocab;           /* entries of a logit row */
    size_t max_positions;     /* the model's longest context */
    const char *draft;        /* kind of the draft, "dflash", "autoregressive", ...; NULL: none */
    size_t max_draft_len;     /* most tokens one proposal can hold; 0: none */
    size_t block_size;        /* of a block draft, the anchor included; 0: no block draft */
    uint32_t eos[SP_EOS_MAX]; /* ids that end a sequence */
    size_t n_eos;
    bool has_tokenizer;
    uint64_t identity; /* names the file's content */
};
#define SP_PACKAGE_INFO_INIT SP_SIZED(struct sp_package_info)
SP_API void sp_package_describe(const struct sp_package *package, struct sp_package_info *info);

enum sp_encode_flags {
    SP_ENCODE_ADD_SPECIAL = 1,   /* what the tokenizer's post-processor adds */
    SP_ENCODE_PARSE_SPECIAL = 2, /* special tokens written in the text are recognised */
};

/* *ids owned by the caller (free). */
SP_API SP_MUST_CHECK enum sp_status sp_package_encode(const struct sp_package *package,
                                                      const char *text, size_t size, unsigned flags,
                                                      uint32_t **ids, size_t *n,
                                                      struct sp_err *err);
/* *text owned by the caller (free), NUL-terminated, valid UTF-8. */
SP_API SP_MUST_CHECK enum sp_status sp_package_decode(const struct sp_package *package,
                                                      const uint32_t *ids, size_t n,
                                                      bool skip_special, char **text, size_t *size,
                                                      struct sp_err *err);

/* ---- sessions ---------------------------------------------------------------------------------
 */

enum sp_cache_type { SP_CACHE_F16, SP_CACHE_F32, SP_CACHE_Q8 };

/* Whose guesses are verified: the file's draft's, or those of a lookup: what followed the last
 * tokens when they stood in the text before. */
enum sp_draft_by {
    SP_DRAFT_BY_DEFAULT, /* the draft's where the file has one, else a lookup's */
    SP_DRAFT_BY_MODEL,   /* the draft's */
    SP_DRAFT_BY_NGRAM,
    SP_DRAFT_BY_BOTH, /* whichever promises more, round by round */
};

/* What that is called in a session: the kind of the file's draft, "lookup", "lookup and" the kind,
 * NULL for nobody; the package's. *max_draft_len: most guesses of a round, 0 for nobody. */
SP_API const char *sp_package_draft_name(const struct sp_package *package, enum sp_draft_by by,
                                         size_t *max_draft_len);

struct sp_session_options {
    size_t size;
    size_t n_context; /* positions; 0: the model's maximum, at most 4096 */
    enum sp_cache_type cache;
    enum sp_draft_by draft_by;
    bool no_draft;        /* nobody drafts */
    size_t rows_per_pass; /* of a prompt; 0: chosen; the result does not depend on it */
    size_t max_batch;     /* sessions that shall share passes, this one and others opened like it;
                              0: 1 */
};
#define SP_SESSION_OPTIONS_INIT SP_SIZED(struct sp_session_options)

SP_API SP_MUST_CHECK enum sp_status sp_session_open(struct sp_session **out,
                                                    struct sp_package *package,
                                                    const struct sp_session_options *options,
                                                    struct sp_err *err);
/* Another one of the same package, with the same options, which shares the room for passes. Not
 * while another thread opens or closes one. */
SP_API SP_MUST_CHECK enum sp_status
sp_session_open_shared(struct sp_session **out, const struct sp_session *like, struct sp_err *err);
SP_API void sp_session_close(struct sp_session *session); /* NULL is fine */

/* Tokens that the caches hold; and how many of the first tokens of a prompt need not be read again,
 * as far as the target goes. */
SP_API size_t sp_session_n_cached(const struct sp_session *session);
SP_API size_t sp_session_match_prefix(const struct sp_session *session, const uint32_t *prompt,
                                      size_t n);

SP_API size_t sp_session_n_context(const struct sp_session *session);

/* Writes what the session has cached, and of which tokens, to a file of its own kind, whole or not
 * at all; another such file of that name is replaced. */
SP_API SP_MUST_CHECK enum sp_status sp_session_save(struct sp_session *session, const char *path,
                                                    struct sp_err *err);
/* Goes on from what a session of the same packed file with the same cache type saved: prompts that
 * begin with its tokens do not have them read again, and get the same bits. SP_E_INPUT says what
 * does not fit (another context is, where layers see a window, other rows_per_pass too), SP_E_CHECK
 * that the other session had no draft and this one has. */
SP_API SP_MUST_CHECK enum sp_status sp_session_load(struct sp_session *session, const char *path,
                                                    struct sp_err *err);

/* ---- grammars ---------------------------------------------------------------------------------
 */

/* What answers may look like. Immutable: any number of requests may borrow one. */
struct sp_grammar;

/* Of a JSON schema: texts that match it, written as man/spectool-grammar.7 says, and that page
 * lists the keywords. SP_E_UNSUPPORTED or SP_E_INPUT "#/path/keyword: what". */
SP_API SP_MUST_CHECK enum sp_status sp_grammar_of_schema(struct sp_grammar **out, const char *text,
                                                         size_t size, struct sp_err *err);
/* Of a text in GBNF, llama.cpp's notation, as that page has it. SP_E_INPUT "line:column: what". */
SP_API SP_MUST_CHECK enum sp_status sp_grammar_of_gbnf(struct sp_grammar **out, const char *text,
                                                       size_t size, struct sp_err *err);
/* Of any JSON object. */
SP_API SP_MUST_CHECK enum sp_status sp_grammar_of_json(struct sp_grammar **out, struct sp_err *err);
SP_API void sp_grammar_close(struct sp_grammar *grammar); /* NULL is fine */

/* ---- generation -------------------------------------------------------------------------------
 */

struct sp_logit_bias {
    uint32_t id;
    float bias;
};

/* How drafts are checked while sampling. */
enum sp_accept {
    SP_ACCEPT_COUPLED,   /* draft and target share the position's noise: text as without draft */
    SP_ACCEPT_REJECTION, /* min(1, p/q) and residual: same distribution, more accepted */
};

/* SP_SAMPLING_INIT is greedy, with everything off. */
struct sp_sampling {
    size_t size;
    float temperature;       /* 0: greedy */
    int top_k;               /* 0: off */
    float top_p;             /* 1: off; 0: the most likely token alone */
    float min_p;             /* 0: off */
    float typical_p;         /* 1: off; 0: the most typical token alone */
    int repeat_last_n;       /* tokens that penalties look back on; 0: off, -1: the context */
    float repeat_penalty;    /* above 0; 1: off */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    const struct sp_logit_bias *biases;
    size_t n_biases;
    uint64_t seed;
    enum sp_accept accept;
};
#define SP_SAMPLING_INIT                                                                           \
    {                                                                                              \
        .size = sizeof(struct sp_sampling), .top_p = 1, .typical_p = 1, .repeat_last_n = 64,       \
        .repeat_penalty = 1                                                                        \
    }

struct sp_logprob {
    uint32_t id;
    float logprob; /* natural logarithm of the raw softmax over the whole vocabulary */
};

/* One chosen token. */
struct sp_token {
    uint32_t id;
    bool drafted;                 /* the draft had guessed it */
    float logprob;                /* if asked for */
    const struct sp_logprob *top; /* [n_top], best first; borrowed during the call */
    size_t n_top;
};

enum { SP_DRAFT_LENGTH_AUTO = -1 };

/* For measurements: each guess is accepted with this probability, whatever the target would have
 * chosen. The text is meaningless, the cost real. */
struct sp_simulation {
    double acceptance; /* 0..1 */
    uint64_t seed;
};

/* Nonzero return of any callback: stop here. */
struct sp_request {
    size_t size;
    const uint32_t *prompt; /* [n_prompt], 1 <= n_prompt <= context */
    size_t n_prompt;
    size_t max_tokens; /* 0: until a stop or the context's end */
    bool ignore_eos;
    const uint32_t *end_ids; /* [n_end_ids] end the answer as EOS does, also with ignore_eos */
    size_t n_end_ids;
    bool plain;                             /* no drafting in this call */
    int draft_len;                          /* most guesses a round, 0.., or SP_DRAFT_LENGTH_AUTO */
    bool measure;                           /* also time plain steps, for speed_up */
    const struct sp_sampling *sampling;     /* NULL: greedy */
    const struct sp_simulation *simulation; /* NULL: none; else greedy sampling only */
    /* The answer is held to it; NULL: to nothing. Where the text is complete it may end, and where
     * nothing can follow it has to. Not together with ignore_eos or a simulation. */
    const struct sp_grammar *grammar;
    const char *const
        *stops; /* [n_stops] texts that end the answer, not shown; UTF-8, none empty */
    size_t n_stops;
    bool logprobs;
    unsigned n_top;              /* top logprobs a token */
    bool digest;                 /* compute logits_digest */
    const uint32_t *special_ids; /* [n_special_ids] special tokens to tell `special` of */
    size_t n_special_ids;
    /* Handed to the callbacks, each of which may be NULL. One that returns another number than 0
     * cancels the answer, and none is called again. */
    void *context;
    int (*prompt_progress)(void *context, size_t done, size_t total);
    /* The caches hold the prompt, n_reused tokens of which were there before. The session may be
     * saved. */
    int (*prompt_read)(void *context, size_t n_reused);
    int (*token)(void *context, const struct sp_token *token);
    /* Shown text as it becomes certain: whole UTF-8 characters, no part of a stop text. */
    int (*text)(void *context, const char *text, size_t size, bool drafted);
    /* One of special_ids, which no text shows: at its place among the texts. */
    int (*special)(void *context, uint32_t id);
};
#define SP_REQUEST_INIT SP_SIZED(struct sp_request)

enum sp_stop { SP_STOP_EOS, SP_STOP_TEXT, SP_STOP_LENGTH, SP_STOP_CONTEXT, SP_STOP_CANCELLED };
SP_API const char *
sp_stop_name(enum sp_stop stop); /* "eos", "stop", "length", "context", "cancelled" */

/* Why a round verified as many draft tokens as it did. */
enum sp_round_reason {
    SP_ROUND_GIVEN,      /* the draft length was given, or nothing drafts */
    SP_ROUND_LIMIT,      /* automatic: no more could be proposed */
    SP_ROUND_CONFIDENCE, /* automatic: one more draft token was not worth its time */
    SP_ROUND_MEASURE,    /* automatic: a plain step that was timed for comparison */
    SP_ROUND_PAUSE,      /* automatic: a plain step, since drafting did not pay lately */
    SP_ROUND_PROBE,      /* automatic: a proposal that tests whether drafting pays again */
};
/* "given", "limit", "confidence", "measure", "pause", "probe"; static. Thread-safe. */
SP_API const char *sp_round_reason_name(enum sp_round_reason reason);

/* One pass of the target after the prompt's. */
struct sp_round_count {
    uint16_t asked, made;       /* draft tokens asked for; proposed */
    uint16_t drafted, accepted; /* proposed tokens that were verified; verified ones accepted */
    enum sp_round_reason reason;
};

/* How often the draft token at one position of a round was verified with all before it right, and
 * how often it was right as well. */
struct sp_position_count {
    size_t tried, accepted;
};

struct sp_result {
    size_t size;
    uint32_t *ids; /* [n_ids] generated, an ending EOS included; owned */
    size_t n_ids;
    char *text; /* NUL-terminated, owned; NULL without a tokenizer */
    size_t text_size;
    enum sp_stop stop;
    size_t stop_index;             /* SP_STOP_TEXT: which of the request's stops it was */
    uint64_t logits_digest;        /* XXH3-64 of the rows that chose each id, in order */
    struct sp_round_count *rounds; /* [n_rounds] one per target pass after the prompt's; owned */
    size_t n_rounds;
    size_t n_shared;                      /* of these passes, those that others had rows in too */
    size_t n_prompt, n_reused;            /* prompt tokens; of these, already in the cache */
    size_t n_proposed;                    /* tokens that the draft proposed */
    size_t drafted, accepted;             /* of these, verified by the target; of these, right */
    size_t ngram_drafted, ngram_accepted; /* of the last two, found by a lookup */
    size_t grammar_drafted,
        grammar_accepted; /* of the same, what the grammar left no choice about */
    size_t all_accepted;  /* rounds in which every guess was right */
    size_t mismatches;    /* rounds in which the target chose otherwise */
    struct sp_position_count *draft_positions; /* [n_draft_positions] of the first, second, ...
                                                  draft token of a round; owned */
    size_t n_draft_positions;
    double prompt_seconds;
    double draft_seconds;  /* proposing; passes shared with others count in whole */
    double verify_seconds; /* target passes of rounds that verified guesses */
    double plain_seconds;  /* target passes of the others */
    size_t plain_rounds;
    double plain_step_seconds; /* one plain step, measured; 0: not known */
    double speed_up; /* estimated: plain time for these tokens / time taken; 0: not known */
};
#define SP_RESULT_INIT SP_SIZED(struct sp_result)
SP_API void sp_result_release(struct sp_result *result);

/* Generates after `prompt`; caches are reused for the prefix they share with it. On failure the
 * result is released; a session stays usable. */
SP_API SP_MUST_CHECK enum sp_status sp_session_generate(struct sp_session *session,
                                                        const struct sp_request *request,
                                                        struct sp_result *result,
                                                        struct sp_err *err);

/* ---- tokenizers -------------------------------------------------------------------------------
 */

/* Text to ids and back. Immutable: any number of threads may use one at the same time. */
struct sp_tokenizer;

/* The tokenizer of a packed file, of a checkpoint folder, or of a tokenizer.json. SP_E_INPUT names
 * the file that has none. */
SP_API SP_MUST_CHECK enum sp_status sp_tokenizer_open_file(struct sp_tokenizer **out,
                                                           const char *path, struct sp_err *err);
SP_API void sp_tokenizer_close(struct sp_tokenizer *tok); /* NULL is fine */

/* The tokenizer of a package, borrowed from it; NULL: it has none. */
SP_API const struct sp_tokenizer *sp_package_tokenizer(const struct sp_package *package);

/* flags: enum sp_encode_flags. text must be valid UTF-8 (SP_E_INPUT) and may hold NULs. *ids owned
 * by the caller (free), valid also when *n is 0. */
SP_API SP_MUST_CHECK enum sp_status sp_tokenizer_encode(const struct sp_tokenizer *tok,
                                                        const char *text, size_t size,
                                                        unsigned flags, uint32_t **ids, size_t *n,
                                                        struct sp_err *err);

/* Ids that name no token are skipped (rows of the embedding beyond the vocabulary). *text owned by
 * the caller (free), NUL-terminated, valid UTF-8. */
SP_API SP_MUST_CHECK enum sp_status sp_tokenizer_decode(const struct sp_tokenizer *tok,
                                                        const uint32_t *ids, size_t n,
                                                        bool skip_special, char **text,
                                                        size_t *size, struct sp_err *err);

struct sp_token_info {
    const char
        *bytes; /* [len] of the token itself, borrowed; of a byte-level token maybe no UTF-8 */
    size_t len;
    bool special; /* left out by skip_special */
    bool added;   /* recognised in a text before anything else happens to it */
};
/* False where the id names no token. */
SP_API bool sp_tokenizer_token(const struct sp_tokenizer *tok, uint32_t id,
                               struct sp_token_info *out);

/* Finds the special token that a NUL-terminated text begins with, and the size of the token's text;
 * false: it begins with none. The text of an answer shows no special token, so one that shall stop
 * an answer belongs into sp_request.end_ids, not into its stops. */
SP_API bool sp_tokenizer_leading_special(const struct sp_tokenizer *tok, const char *text,
                                         uint32_t *id, size_t *size);

/* ---- chat templates ---------------------------------------------------------------------------
 */

/* A chat template turns a conversation into the text that the model reads. It is written in Jinja
 * (as checkpoints have them) or in Go's text/template (as Modelfiles of ollama have them).
 * Compiling and rendering are bounded in memory and work; what a template asks for and is not
 * supported is refused by name. A template is used by one thread at a time. */
struct sp_template;
struct sp_chat_request;

enum sp_template_language { SP_TEMPLATE_UNKNOWN, SP_TEMPLATE_JINJA, SP_TEMPLATE_GO };

/* SP_TEMPLATE_UNKNOWN: the language is recognised by the text. SP_E_INPUT or SP_E_UNSUPPORTED
 * "template:LINE: ...". */
SP_API SP_MUST_CHECK enum sp_status sp_template_compile(struct sp_template **out, const char *text,
                                                        size_t size,
                                                        enum sp_template_language language,
                                                        struct sp_err *err);
/* Compiles the text and forgets the template. */
SP_API SP_MUST_CHECK enum sp_status sp_template_check(const char *text, size_t size,
                                                      struct sp_err *err);
/* The template of a packed file (its Modelfile's TEMPLATE, else the checkpoint's), of a checkpoint
 * folder, or of a file of its own. *out = NULL: there is none. SP_E_USAGE: it is written in another
 * language than the one asked for. */
SP_API SP_MUST_CHECK enum sp_status sp_template_open_file(struct sp_template **out,
                                                          const char *path,
                                                          enum sp_template_language language,
                                                          struct sp_err *err);
/* The template of a package; *out = NULL: it has none. */
SP_API SP_MUST_CHECK enum sp_status
sp_package_template(const struct sp_package *package, struct sp_template **out, struct sp_err *err);
SP_API void sp_template_free(struct sp_template *t); /* NULL is fine */

SP_API enum sp_template_language sp_template_language(const struct sp_template *t);
/* The text that it was compiled from: *size bytes, borrowed from the template. */
SP_API const char *sp_template_text(const struct sp_template *t, size_t *size);

/* A wall clock, to the second, in any time zone. */
struct sp_template_time {
    int year, month, day; /* 2025, 1..12, 1..31 */
    int hour, minute, second;
};
SP_API struct sp_template_time sp_template_now(void); /* local time */

/* Renders a conversation. Reads the first half of the request only. *text owned by the caller
 * (free), NUL-terminated. */
SP_API SP_MUST_CHECK enum sp_status sp_template_apply(char **text, size_t *size,
                                                      const struct sp_template *t,
                                                      const struct sp_chat_request *request,
                                                      struct sp_err *err);

/* ---- chat -------------------------------------------------------------------------------------
 *
 *   sp_chat_open(&chat, package, NULL, &err);
 *   sp_chat_prompt_open(&prompt, chat, &conversation, &err);
 *   sp_chat_reader_open(&reader, prompt, &options, &err);
 *   sp_chat_prompt_apply(prompt, &request);
 *   sp_session_generate(session, &request, &result, &err);
 *   sp_chat_reader_finish(reader, &err);
 *
 * The request's callbacks `text` and `special` call sp_chat_reader_text and sp_chat_reader_special.
 * cli/examples/chat.c is the whole program. */

/* How a model converses: its template, and the format in which it writes reasoning and tool calls,
 * which is learned from the template. Prompts of one chat are made by one thread at a time; prompts
 * and readers may then be used by a thread each. */
struct sp_chat;

/* Zero but for `size` is valid. */
struct sp_chat_options {
    size_t size;
    const struct sp_template *chat_template; /* borrowed until close; NULL: the package's */
    const struct sp_tokenizer *tokenizer;    /* borrowed until close; NULL: the package's */
};
#define SP_CHAT_OPTIONS_INIT SP_SIZED(struct sp_chat_options)

/* package: borrowed until close; NULL: a template is given, and eos tokens are not known. options
 * NULL: none. SP_E_UNSUPPORTED: there is no template. A format that cannot be learned is no
 * failure: then reasoning and calls stay in the content. */
SP_API SP_MUST_CHECK enum sp_status sp_chat_open(struct sp_chat **out,
                                                 const struct sp_package *package,
                                                 const struct sp_chat_options *options,
                                                 struct sp_err *err);
SP_API void sp_chat_close(struct sp_chat *chat); /* NULL is fine; after its prompts */

/* All pointers are borrowed from the chat. */
struct sp_chat_info {
    size_t size;
    const struct sp_template *chat_template;
    bool has_reasoning, has_tool_calls; /* can be separated from content */
    const char *reasoning;  /* for people: "<think>...</think>", or why it is not known */
    const char *tool_calls; /* for people, the same */
    /* What the template expects of messages with tool calls: */
    bool text_arguments;            /* arguments are JSON in a string, not an object */
    bool null_content;              /* content is null where it is empty */
    bool no_content_with_reasoning; /* content is absent where there is reasoning */
    bool has_end_id;
    uint32_t end_id; /* the special token that ends an answer in the template */
};
#define SP_CHAT_INFO_INIT SP_SIZED(struct sp_chat_info)
SP_API void sp_chat_describe(const struct sp_chat *chat, struct sp_chat_info *info);

/* A message of plain text; all NUL-terminated UTF-8. */
struct sp_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
    const char *reasoning; /* of an assistant's message; NULL: none */
};

/* A conversation, and the answer that is asked for. JSON texts are NUL-terminated and have the form
 * of OpenAI's chat completions API; NULL: none. Everything is borrowed during the call. Zero but
 * for `size` and the messages is valid. */
struct sp_chat_request {
    size_t size;
    /* The conversation: messages as JSON, or else turns. */
    const char *messages;                /* JSON: [{"role": ..., "content": ...}, ...] */
    const struct sp_chat_message *turns; /* [n_turns] */
    size_t n_turns;
    const char *tools;           /* JSON: [{"type": "function", "function": {...}}, ...] */
    const char *kwargs;          /* JSON: an object of further variables of a Jinja template */
    const char *vars;            /* JSON: an object, all variables there are */
    const char *prompt, *suffix; /* JSON strings: text around a gap, in place of messages (Go) */
    const uint32_t *ids;         /* [n_ids] a prompt that is ready, in place of a conversation */
    size_t n_ids;
    bool omit_generation_prompt; /* the text does not open the assistant's message (Jinja) */
    bool is_think_set, think;    /* asks for reasoning, or for none, where the template can */
    const char *think_level;     /* "low", "high", ...; NULL: none */
    const struct sp_template_time *now; /* NULL: the local time */
    /* The answer: */
    const char *prefix; /* [prefix_size] how it begins, which it does not repeat */
    size_t prefix_size;
    const struct sp_grammar *response_format; /* of its content; borrowed until the prompt is
                                                 closed; NULL: any text */
    bool strict_calls;                        /* calls match the schemas of their tools; */
    bool must_call;                           /* the answer is calls, which do so too, */
    const char *function;                     /* of this function; NULL: of any */
    bool one_call;                            /* at most one call */
    const uint32_t *end_ids;                  /* [n_end_ids] more tokens that end it */
    size_t n_end_ids;
    bool ignore_eos; /* the template's own end of an answer does not end it */
};
#define SP_CHAT_REQUEST_INIT SP_SIZED(struct sp_chat_request)

/* A rendered conversation; immutable. */
struct sp_chat_prompt;

/* SP_E_INPUT: invalid JSON, or a prompt without a token; SP_E_UNSUPPORTED: the calls of this model
 * cannot be constrained, a schema is not supported, or a `prefix` where answers begin with
 * reasoning. Errors of tools begin with "tools" or "tool_choice". */
SP_API SP_MUST_CHECK enum sp_status sp_chat_prompt_open(struct sp_chat_prompt **out,
                                                        const struct sp_chat *chat,
                                                        const struct sp_chat_request *request,
                                                        struct sp_err *err);
SP_API void
sp_chat_prompt_close(struct sp_chat_prompt *prompt); /* NULL is fine; after its readers */

/* All pointers are borrowed from the prompt. */
struct sp_chat_prompt_info {
    size_t size;
    const char *text; /* [text_size] and a NUL */
    size_t text_size;
    const uint32_t *ids; /* [n_ids] */
    size_t n_ids;
    bool plain; /* the whole answer is content: it has no reasoning and no calls */
};
#define SP_CHAT_PROMPT_INFO_INIT SP_SIZED(struct sp_chat_prompt_info)
SP_API void sp_chat_prompt_describe(const struct sp_chat_prompt *prompt,
                                    struct sp_chat_prompt_info *info);

/* Sets prompt, end_ids, grammar and special_ids of a request, borrowed from the prompt. */
SP_API void sp_chat_prompt_apply(const struct sp_chat_prompt *prompt, struct sp_request *request);

/* *n_tokens = the length of the prompt. Reads the conversation and the prefix only. */
SP_API SP_MUST_CHECK enum sp_status sp_chat_count_tokens(const struct sp_chat *chat,
                                                         const struct sp_chat_request *request,
                                                         size_t *n_tokens, struct sp_err *err);

enum sp_chat_part_kind {
    SP_CHAT_CONTENT,
    SP_CHAT_REASONING,
    SP_CHAT_TOOL_CALL, /* a complete one */
    /* With stream_calls, in place of a constrained call: its name, then its arguments as the model
     * writes them. The end of the answer may cut such a call. */
    SP_CHAT_TOOL_CALL_START,
    SP_CHAT_TOOL_CALL_ARGUMENTS,
};

/* A part of an answer as it comes. Borrowed during the callback. */
struct sp_chat_part {
    enum sp_chat_part_kind kind;
    const char *text; /* [size], empty for SP_CHAT_TOOL_CALL_START only; of a complete call: its
                       * arguments, a JSON object */
    size_t size;
    const char *name; /* the function of SP_CHAT_TOOL_CALL and SP_CHAT_TOOL_CALL_START */
};

/* Zero but for `size` is valid. */
struct sp_chat_reader_options {
    size_t size;
    bool stream_calls;     /* emit constrained calls as they are written */
    uint64_t call_id_seed; /* of the ids of calls: other answers shall have others */
    /* Receives each part; NULL: none does. Nonzero: no more parts, and SP_E_CHECK "interrupted". */
    int (*part)(void *context, const struct sp_chat_part *part);
    void *context;
};
#define SP_CHAT_READER_OPTIONS_INIT SP_SIZED(struct sp_chat_reader_options)

/* Separates one answer into reasoning, content and tool calls while it is generated. */
struct sp_chat_reader;

/* prompt: borrowed until close; NULL: the whole answer is content. options NULL: none. */
SP_API SP_MUST_CHECK enum sp_status
sp_chat_reader_open(struct sp_chat_reader **out, const struct sp_chat_prompt *prompt,
                    const struct sp_chat_reader_options *options, struct sp_err *err);
SP_API void sp_chat_reader_close(struct sp_chat_reader *reader); /* NULL is fine */

/* What sp_request.text and sp_request.special deliver, in this order. After a failure (SP_E_NOMEM,
 * or the callback stopped) the reader takes no more. */
SP_API SP_MUST_CHECK enum sp_status sp_chat_reader_text(struct sp_chat_reader *reader,
                                                        const char *text, size_t size,
                                                        struct sp_err *err);
SP_API SP_MUST_CHECK enum sp_status sp_chat_reader_special(struct sp_chat_reader *reader,
                                                           uint32_t id, struct sp_err *err);
/* Counts a token of the answer; optional: it is for the numbers of tokens in struct sp_chat_answer.
 */
SP_API void sp_chat_reader_count_token(struct sp_chat_reader *reader);
/* The answer is complete: emits what could still have become a tag. */
SP_API SP_MUST_CHECK enum sp_status sp_chat_reader_finish(struct sp_chat_reader *reader,
                                                          struct sp_err *err);

struct sp_chat_span {
    const char *at; /* [len] and a NUL; never NULL */
    size_t len;
};

enum { SP_CHAT_CALL_ID_SIZE = 10 };

struct sp_chat_call {
    char id[SP_CHAT_CALL_ID_SIZE]; /* nine letters and digits */
    char *name;
    char *arguments; /* [size] and a NUL; a JSON object */
    size_t size;
};

/* A run of content or of reasoning, or a call: the order in which the model wrote them. */
struct sp_chat_segment {
    enum sp_chat_part_kind kind; /* CONTENT, REASONING or TOOL_CALL */
    size_t at, size;             /* bytes of content or reasoning; of a call: its index, and 1 */
    size_t n_tokens;             /* that were counted */
};

/* The answer so far. All pointers are borrowed from the reader until it reads on. */
struct sp_chat_answer {
    size_t size;
    struct sp_chat_span content, reasoning;
    const struct sp_chat_call *calls; /* [n_calls] */
    size_t n_calls;
    const struct sp_chat_segment
        *segments; /* [n_segments] neighbours differ in kind, or are calls */
    size_t n_segments;
    size_t n_reasoning_tokens; /* that were counted */
};
#define SP_CHAT_ANSWER_INIT SP_SIZED(struct sp_chat_answer)
SP_API void sp_chat_reader_answer(const struct sp_chat_reader *reader,
                                  struct sp_chat_answer *answer);

/* ---- logits -----------------------------------------------------------------------------------
 */

/* Told row after row: logits [n_vocab] of position `row`. Nonzero: stop (SP_E_CHECK "interrupted").
 */
typedef int sp_logits_fn(void *context, size_t row, const float *logits, size_t n_vocab);

/* Logits of every position of ids[0..n-1], from an empty cache. */
SP_API SP_MUST_CHECK enum sp_status sp_session_logits(struct sp_session *session,
                                                      const uint32_t *ids, size_t n,
                                                      sp_logits_fn *fn, void *context,
                                                      struct sp_err *err);

/* The draft's rows: ids[n-1] is the anchor, known but not yet seen by the target. Block draft:
 * block_size - 1 rows for the positions after it; autoregressive draft: one row per id; heads:
 * `steps` rows of their own greedy chain. */
SP_API SP_MUST_CHECK enum sp_status sp_session_draft_logits(struct sp_session *session,
                                                            const uint32_t *ids, size_t n,
                                                            size_t steps, sp_logits_fn *fn,
                                                            void *context, struct sp_err *err);

/* Told each timing: of the rows at `which`, one target pass with all their logits, and one proposal
 * of a guess less (0 without draft). Nonzero: stop (SP_E_CHECK "interrupted"). */
typedef int sp_timing_fn(void *context, size_t which, double verify_seconds, double draft_seconds);

/* Times passes of n_rows[0..n-1] rows at context depth n_before, one of each in turn, `repeats`
 * times: a machine whose mood changes treats all alike. */
SP_API SP_MUST_CHECK enum sp_status sp_session_benchmark(struct sp_session *session,
                                                         size_t n_before, const size_t *n_rows,
                                                         size_t n, size_t repeats, sp_timing_fn *fn,
                                                         void *context, struct sp_err *err);

/* Bytes that a target pass of one row reads at context depth n_before: the weights it uses (of
 * experts, those of one row) and the keys, values and states it looks at. */
SP_API uint64_t sp_session_read_size(const struct sp_session *session, size_t n_before);

/* ---- evaluation -------------------------------------------------------------------------------
 */

/* A mean over positions and its standard error, as if positions were independent of each other. */
struct sp_estimate {
    double mean, error;
};

/* e^loss: the perplexity of a mean loss, or the ratio of perplexities of a mean difference of
 * losses. The error is to first order. */
SP_API struct sp_estimate sp_perplexity(struct sp_estimate loss);

/* A text is read in windows. What the tokenizer puts before a text, if the ids begin with it, leads
 * every window. Window k holds ids from k * stride on; each id behind the lead is scored once, by
 * the first window that holds it and something before it. */
struct sp_evaluation_request {
    size_t size;
    const uint32_t *ids; /* [n] */
    size_t n;
    size_t n_window; /* ids of a window, the lead included; 0: the model's context, at most 2048 */
    size_t stride;   /* 0: half of what a window holds of the text */
    size_t max_windows;           /* 0: all */
    struct sp_package *reference; /* reads the same ids; NULL: none */
    enum sp_cache_type cache;
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* tokens; nonzero: stop */
};
#define SP_EVALUATION_REQUEST_INIT SP_SIZED(struct sp_evaluation_request)

/* Logarithms are natural. The numbers do not depend on threads or kernels. */
struct sp_evaluation {
    size_t size;
    size_t n_windows, n_window, stride, n_lead; /* as settled */
    size_t first_scored, n_scored;              /* ids[first_scored..first_scored + n_scored - 1] */
    struct sp_estimate loss;  /* -ln of a token's probability; perplexity is e^mean */
    struct sp_estimate right; /* 1 where the most likely token is the text's */
    /* With a reference: */
    struct sp_estimate reference_loss;
    struct sp_estimate loss_change; /* loss - reference_loss */
    struct sp_estimate divergence;  /* KL(reference || this), nats */
    double divergence_50, divergence_90, divergence_99, divergence_999; /* percentiles */
    double divergence_max;
    struct sp_estimate agreement;   /* 1 where both hold the same token for most likely */
    struct sp_estimate prob_change; /* of the text's token */
    double prob_change_rms;
};
#define SP_EVALUATION_INIT SP_SIZED(struct sp_evaluation)

/* Memory is bounded by the window, plus 8 bytes a token for percentiles. SP_E_INPUT when a logit is
 * not finite, or when the reference has other tokens; SP_E_CHECK "interrupted". */
SP_API SP_MUST_CHECK enum sp_status sp_package_evaluate(struct sp_package *package,
                                                        const struct sp_evaluation_request *request,
                                                        struct sp_evaluation *out,
                                                        struct sp_err *err);

/* ---- calibration ------------------------------------------------------------------------------
 */

struct sp_calibration_text {
    const uint32_t *ids; /* [n] */
    size_t n;
};

/* Texts are read in windows of at most 1024 ids that do not overlap. What the tokenizer puts before
 * a text, if its ids begin with it, leads every window. */
struct sp_calibration_request {
    size_t size;
    const struct sp_calibration_text *texts; /* [n_texts] */
    size_t n_texts;
    const char *path; /* the file to write */
    bool force;       /* replace an existing packed file or calibration */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* tokens; nonzero: stop */
};
#define SP_CALIBRATION_REQUEST_INIT SP_SIZED(struct sp_calibration_request)

struct sp_calibration {
    size_t size;
    size_t n_tokens;             /* read, repeated leads included */
    size_t n_inputs, n_matrices; /* that were seen, and that read them */
    uint64_t n_bytes;            /* of numbers about them, held in memory and written */
};
#define SP_CALIBRATION_INIT SP_SIZED(struct sp_calibration)

/* Learns from texts which errors of the target's weights matter, for quantizing it to q4. The file
 * depends on the package and the ids alone, and does not replace the package's. SP_E_CHECK
 * "interrupted". */
SP_API SP_MUST_CHECK enum sp_status
sp_package_calibrate(struct sp_package *package, const struct sp_calibration_request *request,
                     struct sp_calibration *out, struct sp_err *err);

/* How good is the draft on a text? At places spread evenly over the ids, generation goes on from
 * at most SP_DRAFT_EVAL_PROMPT of them, greedily, round after round of the same depth. */
enum { SP_DRAFT_EVAL_PROMPT = 512, SP_DRAFT_EVAL_LENGTH = 16 };

struct sp_draft_eval_request {
    size_t size;
    const uint32_t *ids; /* [n] */
    size_t n;
    size_t n_places;
    size_t n_predict; /* tokens of each place: the round that reaches it is the last */
    int draft_len;    /* guesses a round; SP_DRAFT_LENGTH_AUTO: what the draft can, at most
                         SP_DRAFT_EVAL_LENGTH */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* tokens; nonzero: stop */
};
#define SP_DRAFT_EVAL_REQUEST_INIT SP_SIZED(struct sp_draft_eval_request)

struct sp_draft_eval {
    size_t size;
    size_t n_places, draft_len;
    size_t n_tokens;                           /* written, by rounds */
    size_t n_rounds;                           /* target passes that wrote them */
    size_t drafted, accepted;                  /* guesses */
    struct sp_position_count *draft_positions; /* [n_draft_positions] of the first, second, ...
                                                  draft token of a round; owned */
    size_t n_draft_positions;
    struct sp_estimate per_round; /* tokens of a round */
};
#define SP_DRAFT_EVAL_INIT SP_SIZED(struct sp_draft_eval)

/* The session has a draft (else SP_E_USAGE). Which numbers come out depends on the file, the cache
 * type and the request alone. On failure *out is released. */
SP_API SP_MUST_CHECK enum sp_status
sp_session_eval_draft(struct sp_session *session, const struct sp_draft_eval_request *request,
                      struct sp_draft_eval *out, struct sp_err *err);
SP_API void sp_draft_eval_release(struct sp_draft_eval *eval);

/* ---- sampling ------------------------------------------------------------------------------- */

/* Sampling without a session: any number of sequences over one vocabulary, each in a slot of its
 * own. Rows of different slots may be sampled in one call and do not influence each other. A token
 * is a function of the row, the options, the seed and the position (tokens so far) alone. */
struct sp_sampler;

/* n_context: what a repeat_last_n of -1 looks back on. */
SP_API SP_MUST_CHECK enum sp_status sp_sampler_open(struct sp_sampler **out, size_t n_vocab,
                                                    size_t n_context, struct sp_err *err);
SP_API void sp_sampler_close(struct sp_sampler *sampler); /* NULL is fine */

/* Registers a sequence; options are copied. prior: its tokens so far, of which the last ones count.
 */
SP_API SP_MUST_CHECK enum sp_status sp_sampler_add(struct sp_sampler *sampler, size_t *slot,
                                                   const struct sp_sampling *sampling,
                                                   const uint32_t *prior, size_t n_prior,
                                                   struct sp_err *err);
SP_API void sp_sampler_remove(struct sp_sampler *sampler, size_t slot);
/* Forgets the history and takes this one. */
SP_API SP_MUST_CHECK enum sp_status sp_sampler_reset(struct sp_sampler *sampler, size_t slot,
                                                     const uint32_t *prior, size_t n_prior,
                                                     struct sp_err *err);
/* Tokens that were chosen, here or elsewhere, join the history. */
SP_API SP_MUST_CHECK enum sp_status sp_sampler_commit(struct sp_sampler *sampler, size_t slot,
                                                      const uint32_t *ids, size_t n,
                                                      struct sp_err *err);

/* One row to sample: the slot's history plus `drafts` (tokens assumed, not committed). */
struct sp_sampler_row {
    size_t slot;
    const float *logits; /* [n_vocab] */
    const uint32_t *drafts;
    size_t n_drafts;
};

/* ids[i] = the token of rows[i]. No history changes: commit what is kept. Rows with the same logits
 * (the pointer) and equal options share the work, apart from the draw with each one's own seed. */
SP_API SP_MUST_CHECK enum sp_status sp_sampler_sample(struct sp_sampler *sampler, uint32_t *ids,
                                                      const struct sp_sampler_row *rows, size_t n,
                                                      struct sp_err *err);

#ifdef __cplusplus
}
#endif

#endif
