/* spectool: speculative text generation on the CPU from one packed file.
 *
 *   const struct sp_chat_message question = {"user", "Why is the sky blue?", NULL};
 *   const struct sp_chat_request chat = {.size = sizeof chat, .turns = &question, .n_turns = 1};
 *   struct sp_package *package;
 *   if (sp_package_open(&package, "packed.bin", NULL, &err)) return 1;
 *   sp_ask(package, &chat, print_part, NULL, NULL, &err);
 *   sp_package_close(package);
 *
 * The simple API is sp_ask, which answers with the file's own settings. Everything below it is for
 * those who want more: sessions that keep their caches, requests, and a conversation step by step.
 *
 * A package is a mapped file with weights, tokenizer and settings. It serves any number of
 * sessions. A session is one token sequence with its caches. Tokens and logits are functions of the
 * file, the prompt, the sampling options and the seed alone. They do not depend on drafting,
 * threads, kernels or the sizes of passes, nor on what else is generated at the same time, nor on
 * the locale of the program.
 *
 * Every function that can fail returns a status and writes one sentence to err, which may be NULL.
 *
 * Threads: the comment of a function names its rule in brackets.
 *   [any thread]   Any number of threads may call it at the same time, also for the same object.
 *   [one thread]   One thread at a time uses the object that the function takes or closes.
 *   [group]        One thread at a time uses the group.
 *   [opening]      One thread at a time opens or closes sessions of the package; other threads may
 *                  use the sessions that are open.
 *   [session]      One thread at a time uses the session; other threads may use other sessions of
 *                  the package. Sessions that share passes generate together. All others wait for
 *                  each other, and all wait while one of them is in a callback.
 *   [package]      No other thread uses the package or a session of it meanwhile.
 * A callback may call the functions of its own session that take it as const. It calls no [package]
 * function, and no function of another session of the package. */
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
#define SPECTOOL_VERSION_MINOR 2
#define SPECTOOL_VERSION_PATCH 0
#define SPECTOOL_VERSION_DOTTED(major, minor, patch) #major "." #minor "." #patch
#define SPECTOOL_VERSION_OF(major, minor, patch) SPECTOOL_VERSION_DOTTED(major, minor, patch)
#define SPECTOOL_VERSION                                                                           \
    SPECTOOL_VERSION_OF(SPECTOOL_VERSION_MAJOR, SPECTOOL_VERSION_MINOR, SPECTOOL_VERSION_PATCH)

/* The version of the library that the program runs with, "0.2.0"; static. [any thread] */
SP_API const char *sp_version(void);

/* A struct that the caller allocates begins with its size in the version that the caller was
 * compiled for, so that later versions can add members at its end. The macro SP_..._INIT after the
 * struct sets the size, and those defaults that are not zero, such as drafting in SP_REQUEST_INIT;
 * an initializer without it says `.size = sizeof options`. The library takes members beyond the
 * size as zero, and does not write them. If the size is not set, or larger than the library knows,
 * a function that can fail returns SP_E_USAGE, and a function that cannot fail does nothing. */
#define SP_SIZED(type)                                                                             \
    {                                                                                              \
        .size = sizeof(type)                                                                       \
    }

struct sp_package;
struct sp_session;
struct sp_tokenizer; /* turns text into ids and back; immutable */
struct sp_template;
struct sp_request;
struct sp_result;
struct sp_chat_message;
struct sp_chat_part;
struct sp_chat_request;
struct sp_chat_reader;
struct sp_simulation; /* spectool_measure.h */
struct sp_rank_group;
struct sp_cache_budget;
struct sp_prompt_cache;

/* ---- simple API ---- */

/* Answers a conversation with the settings that the file states, as `spectool run` does: the turns
 * follow the file's own messages, and its system message unless they begin with one. `part` (may be
 * NULL) receives the answer as it comes; a number other than 0 ends it. *result (may be NULL) is
 * the caller's to release. Errors as of sp_chat_prompt_open and sp_session_generate. [opening] */
SP_API_STATUS sp_ask(struct sp_package *package, const struct sp_chat_request *conversation,
                     int (*part)(void *context, const struct sp_chat_part *part), void *context,
                     struct sp_result *result, struct sp_err *err);

/* A PARAMETER record of a file's Modelfile, or a value of the checkpoint's generation_config.json
 * in place of such a record. */
struct sp_file_setting {
    const char *name, *value; /* "top_k", "40" */
    bool of_checkpoint;
};

/* What a file states about its answers; made by the library alone, and read by the caller. */
struct sp_file_settings {
    const struct sp_file_setting *settings; /* [n_settings] each name once, except for "stop" and
                                             * "dry_sequence_breakers" */
    size_t n_settings;
    const char *system;                     /* the SYSTEM record; NULL: none */
    const struct sp_chat_message *messages; /* [n_messages] the MESSAGE records */
    size_t n_messages;
};

/* Reads the settings of a packed file, or of a package. [any thread] */
SP_API_STATUS sp_file_settings_open(struct sp_file_settings **out, const char *path,
                                    struct sp_err *err);
SP_API_STATUS sp_package_settings(const struct sp_package *package, struct sp_file_settings **out,
                                  struct sp_err *err);
/* NULL is fine. [one thread] */
SP_API void sp_file_settings_close(struct sp_file_settings *settings);
/* Sets sampling, max_tokens, draft_len and stops of a request, borrowed from the settings. A seed
 * that the file does not state is drawn. [one thread] */
SP_API_STATUS sp_file_settings_apply(struct sp_file_settings *settings, struct sp_request *request,
                                     struct sp_err *err);

/* ---- packages ---- */

struct sp_package_options {
    size_t size;
    const char *kernels; /* "scalar"; on x86-64 "avx2", "avx512vnni", "avxvnni", "avx512", "amx"; on
                          * ARM "neon", "neon-i8mm"; NULL: the fastest that this CPU supports, of
                          * those that were timed: never "amx" or "neon-i8mm" */
    unsigned n_threads;  /* 0: as many as the cores that this process may use */
    bool huge_pages;     /* read the file into memory of huge pages instead of mapping it: opening
                          * takes longer and the memory is not shared, but reading is faster */
    size_t cache_memory; /* bytes that the caches of all sessions may hold together; 0: what the
                          * machine and the limits of the process leave beside the weights when a
                          * cache grows */
    unsigned n_ranks;    /* processes on this machine that compute together, each with n_threads
                          * threads and, if there are several NUMA nodes, on nodes of its own; they are
                          * started by sp_package_open and end with the package; 0: 1. n_threads 0 then
                          * means the cores divided by n_ranks. Not with huge_pages. */
    /* Is called once, by a thread that generates or looks after the ranks, if a rank ends or does
     * not answer. It may end the process, and calls no function of the library. If it returns, or
     * is NULL, everything that computes fails from then on: SP_E_IO with the same sentence. */
    void (*rank_lost)(void *context, const char *sentence);
    void *rank_context;
    struct sp_rank_group *group;    /* processes of mpirun that compute together instead of n_ranks;
                                     * borrowed until the package is closed; NULL: none */
    struct sp_cache_budget *budget; /* shared with other packages and used instead of cache_memory;
                                     * borrowed until the package is closed; NULL: none */
};
#define SP_PACKAGE_OPTIONS_INIT SP_SIZED(struct sp_package_options)

/* Opens a packed file; the options may be NULL. [any thread] */
SP_API_STATUS sp_package_open(struct sp_package **out, const char *path,
                              const struct sp_package_options *options, struct sp_err *err);
/* Looks whether the package's ranks still run; a generation finds out by itself. SP_E_IO, after
 * rank_lost was called, if one has ended. mpirun watches its own. [any thread] */
SP_API_STATUS sp_package_check_ranks(const struct sp_package *package, struct sp_err *err);
/* SP_E_IO if the package's file was cut short while it was mapped, which a generation finds out by
 * itself. Reading such a file ends every program but `spectool serve`. [any thread] */
SP_API_STATUS sp_package_check_file(const struct sp_package *package, struct sp_err *err);
/* Closes a package whose sessions are closed; NULL is fine. [package] */
SP_API void sp_package_close(struct sp_package *package);

enum { SP_EOS_MAX = 16 };

/* Which hidden states of a text become its embedding. */
enum sp_pooling {
    SP_POOLING_OF_FILE, /* as the files of sentence-transformers beside the checkpoint stated */
    SP_POOLING_LAST,    /* that of the last token */
    SP_POOLING_MEAN,    /* the mean over all tokens */
    SP_POOLING_CLS,     /* that of the first token */
    SP_POOLING_RANK,    /* none: the embedding is one number, the score of a reranker: how much more
                         * probable "yes" is than "no" after the text, from 0 to 1 unless the file
                         * states otherwise */
};

/* Facts about a package. All pointers are borrowed from the package. */
struct sp_package_info {
    size_t size;
    const char *kernels;
    unsigned n_threads;
    size_t n_vocab;       /* logits of a row */
    size_t max_positions; /* longest context of the model */
    const char *draft;    /* kind of the draft model, "dflash", "autoregressive", ...; NULL: none */
    size_t max_draft_len; /* longest proposal of the draft model, in tokens; 0: none */
    size_t block_size;    /* tokens of a block, its first included; 0: no block draft */
    uint32_t eos[SP_EOS_MAX]; /* ids that end a sequence */
    size_t n_eos;
    bool has_tokenizer;
    uint64_t identity; /* hash that identifies the content of the file */
    bool generates;    /* false: the model embeds texts and has no output matrix, or its tokens see
                        * those after them */
    enum sp_pooling pooling;     /* that the file states; SP_POOLING_OF_FILE: none */
    size_t n_embedding;          /* numbers of an embedding */
    size_t max_embedding_tokens; /* longest text to embed, its special tokens included */
    unsigned n_ranks;            /* processes that compute together, this one included */
    unsigned n_ranks_here;       /* those on this machine */
    /* With SP_CACHE_AUTO, how many layers have a cache of each type (enum sp_cache_type), and the
     * KL divergence that was measured with these types; all 0: the file states none. */
    unsigned n_auto_caches[7];
    double auto_divergence;
};
#define SP_PACKAGE_INFO_INIT SP_SIZED(struct sp_package_info)
/* [any thread] */
SP_API void sp_package_describe(const struct sp_package *package, struct sp_package_info *info);

/* What drafting with the file's draft has learned on this machine: times, acceptances. A process
 * may begin with what an earlier one learned; no text changes. Without a session that generates.
 * [package]
 *
 * *json: text owned by the caller (free); NULL: too little was drafted to be worth keeping. */
SP_API_STATUS sp_package_drafting_statistics(const struct sp_package *package, char **json,
                                             struct sp_err *err);
/* json: text of sp_package_drafting_statistics. If drafting did not pay by it, it begins paused,
 * unless `retry`. SP_E_INPUT, without effect: no such text, or of another draft. [package] */
SP_API_STATUS sp_package_set_drafting_statistics(struct sp_package *package, const char *json,
                                                 size_t size, bool retry, struct sp_err *err);

/* ---- prompts that were processed before ---- */

struct sp_prompt_cache_options {
    size_t size;
    const char *folder; /* made if it does not exist; several processes may use it */
    uint64_t limit;     /* bytes that its files may take; 0: a tenth of what is free there */
    /* Is told, in a sentence, of files that cannot be used or written, by any thread that
     * generates. Nothing else comes of that: the prompt is processed. NULL: nobody is told. */
    void (*note)(void *context, const char *sentence);
    void *context;
};

/* Opens a folder of processed prompts. A session that has it stores each 256 tokens with what they
 * left in its caches, and later prompts with the same beginning, of any session, are read from
 * there: the answer has the same bits. Sessions of the process whose caches have the same tokens
 * hold their keys and values in memory once, but for layers with a window; not with several ranks,
 * and on Linux only. The files that were not used for longest are removed first. Whoever can read
 * them can tell the prompts. [any thread] */
SP_API_STATUS sp_prompt_cache_open(struct sp_prompt_cache **out,
                                   const struct sp_prompt_cache_options *options,
                                   struct sp_err *err);
/* Closes one whose sessions are closed; NULL is fine. [one thread] */
SP_API void sp_prompt_cache_close(struct sp_prompt_cache *cache);

/* ---- sessions ---- */

/* Type of the numbers in a KV cache. */
enum sp_cache_type {
    SP_CACHE_F16,
    SP_CACHE_F32,
    SP_CACHE_Q8,
    SP_CACHE_Q8_Q4, /* keys of 8 bits, values of 4 */
    SP_CACHE_Q4,
    SP_CACHE_F16_Q8, /* keys of f16, values of 8 bits */
    SP_CACHE_F16_Q4,
    /* A type for each layer, as the file's calibration chose them: small ones with which the output
     * diverges by at most 0.004 nats per token in most texts. SP_E_UNSUPPORTED: the file states
     * none. The caches of a draft get q8, or f16 if its heads cannot have that. */
    SP_CACHE_AUTO,
};
/* The names of those before SP_CACHE_AUTO, in the same order: the initializers of an array. */
#define SP_CACHE_TYPE_NAMES "f16", "f32", "q8", "q8:q4", "q4", "f16:q8", "f16:q4"

/* What proposes the draft tokens. An n-gram draft proposes the tokens that followed the last few
 * tokens where these stood in the text before. */
enum sp_draft_by {
    /* N-grams, and the file's draft model if there is one: sp_package_draft_name then describes
     * the draft model, which proposes alone if a request gives a draft length. */
    SP_DRAFT_BY_DEFAULT,
    SP_DRAFT_BY_MODEL,
    SP_DRAFT_BY_NGRAM,
    SP_DRAFT_BY_BOTH,    /* the more promising of the two in each round */
    SP_DRAFT_BY_NOTHING, /* every session generates without drafting, and needs less memory */
};

/* The name of the draft of such sessions, borrowed from the package: the kind of the draft model,
 * "lookup", "lookup and KIND", or NULL if nothing drafts. *max_draft_len is the largest number of
 * draft tokens of a round, 0 if nothing drafts. [any thread] */
SP_API const char *sp_package_draft_name(const struct sp_package *package, enum sp_draft_by by,
                                         size_t *max_draft_len);

struct sp_session_options {
    size_t size;
    /* The most positions of a sequence. The caches grow with the sequence, so a large number costs
     * nothing before it is used. 0: the model's maximum. Two exceptions: models whose rotation
     * depends on the context (longrope, dynamic) get 4096, or as many as they were trained with;
     * and under a limit of the address space the context is halved until the caches fit. */
    size_t n_context;
    enum sp_cache_type cache;
    enum sp_draft_by draft_by;
    size_t rows_per_pass; /* tokens of a prompt that one pass reads; 0: chosen by the library; the
                           * result does not depend on it */
    size_t max_batch;     /* sessions that can share passes: this one and those that
                           * sp_session_open_shared opens from it; 0: 1 */
    /* From which prompts are read that were processed before, and which keeps others; borrowed
     * until the session is closed; NULL: none. No output depends on it. */
    struct sp_prompt_cache *prompt_cache;
};
#define SP_SESSION_OPTIONS_INIT SP_SIZED(struct sp_session_options)

/* Opens a session, which borrows the package; the options may be NULL. [opening] */
SP_API_STATUS sp_session_open(struct sp_session **out, struct sp_package *package,
                              const struct sp_session_options *options, struct sp_err *err);
/* Opens another session of the same package with the same options. It shares passes with
 * `shared_with`: the weights are read once for the tokens of both. [opening] */
SP_API_STATUS sp_session_open_shared(struct sp_session **out, const struct sp_session *shared_with,
                                     struct sp_err *err);
/* Closes a session that no thread uses; NULL is fine. [opening] */
SP_API void sp_session_close(struct sp_session *session);

/* The number of tokens in the caches. [session] */
SP_API size_t sp_session_n_cached(const struct sp_session *session);
/* The bytes of memory that the caches hold, which grows with their tokens. What several sessions
 * share counts for each. [session] */
SP_API size_t sp_session_cache_memory(const struct sp_session *session);
/* The bytes of memory that the caches need for n tokens. [any thread] */
SP_API size_t sp_session_cache_memory_for(const struct sp_session *session, size_t n);
/* Empties the caches and frees their memory; the next prompt is processed as a whole. Not in a
 * callback of the session. [session] */
SP_API void sp_session_clear(struct sp_session *session);
/* The number of tokens at the beginning of a prompt that the target's caches hold. [session] */
SP_API size_t sp_session_match_prefix(const struct sp_session *session, const uint32_t *prompt,
                                      size_t n);

/* The seconds that n more tokens of a prompt are expected to take, by those that were processed
 * before; 0: none were. Others that generate meanwhile delay them. [session] */
SP_API double sp_session_prompt_seconds(const struct sp_session *session, size_t n);

/* The context of the session, in positions. [session] */
SP_API size_t sp_session_n_context(const struct sp_session *session);

/* ---- generation ---- */

/* A number that is added to the logit of one token. */
struct sp_logit_bias {
    uint32_t id;
    float bias;
};

/* How draft tokens are accepted while sampling. */
enum sp_accept {
    SP_ACCEPT_COUPLED,   /* draft and target use the same noise: the text without drafting */
    SP_ACCEPT_REJECTION, /* min(1, p/q), residual: the same distribution, more acceptance */
};

/* SP_SAMPLING_INIT chooses greedily: the temperature is 0, and everything else is off. */
struct sp_sampling {
    size_t size;
    float temperature;       /* 0: greedy */
    int top_k;               /* 0: off */
    float top_p;             /* 1: off; 0: the most likely token alone */
    float min_p;             /* 0: off */
    float typical_p;         /* 1: off; 0: the most typical token alone */
    int repeat_last_n;       /* last tokens that are penalized; 0: none, -1: the context */
    float repeat_penalty;    /* above 0; 1: off */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    const struct sp_logit_bias *biases;
    size_t n_biases;
    uint64_t seed;
    enum sp_accept accept;
    float top_n_sigma; /* keep logits within this many standard deviations of the largest; at most
                          0: off */
    float xtc_probability;  /* 0: off; of a position at which XTC excludes tokens */
    float xtc_threshold;    /* XTC keeps the least likely of the tokens of this probability */
    float dry_multiplier;   /* 0: off */
    float dry_base;         /* 1 or more */
    int dry_allowed_length; /* longest repetition that DRY does not penalize, less one */
    int dry_penalty_last_n; /* last tokens that DRY compares; 0: none, -1: the context */
    /* [n_dry_breakers] texts over which no repetition extends; NULL: in a session with a tokenizer,
     * a line feed, a colon, a quotation mark and an asterisk */
    const char *const *dry_breakers;
    size_t n_dry_breakers;                    /* <= 32, each of 1 to 128 bytes */
    const struct sp_tokenizer *dry_tokenizer; /* of the breakers; NULL: that of the session */
};
#define SP_SAMPLING_INIT                                                                           \
    {                                                                                              \
        .size = sizeof(struct sp_sampling), .top_p = 1, .typical_p = 1, .repeat_last_n = 64,       \
        .repeat_penalty = 1, .xtc_threshold = 0.1f, .dry_base = 1.75f, .dry_allowed_length = 2,    \
        .dry_penalty_last_n = -1                                                                   \
    }

/* Sets a number among the options by its name in a Modelfile, such as "top_k". SP_E_USAGE: there is
 * none of this name, as with "seed", whose values below 0 ask for a random one, which
 * sp_file_settings_apply draws: set the member; SP_E_INPUT: the value is not in its range. [any
 * thread] */
SP_API_STATUS sp_sampling_set(struct sp_sampling *sampling, const char *name, const char *value,
                              struct sp_err *err);
enum { SP_SAMPLING_VALUE_SIZE = 32 };
/* The name of the number i, from 0, and its value as text unless that is NULL; NULL: there are no
 * more. [any thread] */
SP_API const char *sp_sampling_get(const struct sp_sampling *sampling, size_t i,
                                   char value[SP_SAMPLING_VALUE_SIZE]);

struct sp_logprob {
    uint32_t id;
    float logprob; /* natural logarithm of the raw softmax over the whole vocabulary */
};

/* One token of the answer. */
struct sp_token {
    uint32_t id;
    bool drafted;                 /* it was an accepted draft token */
    float logprob;                /* if the request has logprobs or n_top */
    const struct sp_logprob *top; /* [n_top], best first; borrowed during the call */
    size_t n_top;
};

enum { SP_DRAFT_LENGTH_AUTO = -1 };

/* The most tokens of an answer's reasoning. After so many, the tokens of the closing tag follow,
 * whatever the model would choose, and then the answer goes on. Characters of several tokens are
 * completed first. */
struct sp_reasoning_limit {
    size_t size;
    size_t max_tokens;
    const char *open, *close; /* tags as a chat has learned them; NUL-terminated; borrowed */
    bool is_open;             /* the prompt ends inside reasoning */
};

/* A prompt and how to answer it. Everything is borrowed during the call. */
struct sp_request {
    size_t size;
    const uint32_t *prompt; /* [n_prompt], 1 <= n_prompt <= context */
    size_t n_prompt;
    size_t max_tokens; /* of the answer; 0: as many as the context holds */
    bool ignore_eos;
    const uint32_t *end_ids; /* [n_end_ids] tokens that end the answer, also with ignore_eos */
    size_t n_end_ids;
    int draft_len; /* draft tokens of a round, at most; 0: none; SP_DRAFT_LENGTH_AUTO: as many as
                    * are worth their time, the default of SP_REQUEST_INIT and of `spectool run` */
    bool measure;  /* also time steps without drafting, for speed_up */
    const struct sp_sampling *sampling;     /* NULL: greedy */
    const struct sp_simulation *simulation; /* NULL: none; not with `sampling` or `grammar` */
    /* The answer is constrained by it; NULL: the answer is any text. The answer may end where the
     * text is complete, and ends where no text can follow. Not with ignore_eos or `simulation`. */
    const struct sp_grammar *grammar;
    const char *const *stops; /* [n_stops] texts that end the answer and are not shown; UTF-8, not
                               * empty */
    size_t n_stops;
    bool logprobs;
    unsigned n_top;              /* most likely tokens in sp_token.top */
    bool digest;                 /* compute logits_digest */
    const uint32_t *special_ids; /* [n_special_ids] special tokens that `special` receives */
    size_t n_special_ids;
    /* The first argument of the callbacks, each of which may be NULL. A callback that returns a
     * number other than 0 ends the answer with SP_STOP_CANCELLED, or with SP_E_CANCELLED
     * while the prompt is read. No callback is called after it. */
    void *context;
    int (*prompt_progress)(void *context, size_t done, size_t total);
    int (*token)(void *context, const struct sp_token *token);
    /* The next part of the text: whole UTF-8 characters that belong to no stop text. */
    int (*text)(void *context, const char *text, size_t size, bool drafted);
    /* One of special_ids, in its place between the parts of the text, which do not show it. */
    int (*special)(void *context, uint32_t id);
    /* NULL: none; not with `simulation`, and only with a tokenizer. */
    const struct sp_reasoning_limit *reasoning_limit;
    /* Separates the answer, after the callbacks `text` and `special`; NULL: none does. If its
     * callback stops it, the answer ends with SP_STOP_CANCELLED. */
    struct sp_chat_reader *reader;
    size_t min_tokens; /* the first so many tokens are no end tokens; not with a grammar */
};
#define SP_REQUEST_INIT                                                                            \
    {                                                                                              \
        .size = sizeof(struct sp_request), .draft_len = SP_DRAFT_LENGTH_AUTO                       \
    }

enum sp_stop {
    SP_STOP_EOS,
    SP_STOP_TEXT,
    SP_STOP_LENGTH,
    SP_STOP_CONTEXT, /* the context is full */
    SP_STOP_CANCELLED,
    SP_STOP_MEMORY, /* the caches cannot grow: memory, or cache_memory, is used up */
};
/* "eos", "stop", "length", "context", "cancelled" or "memory"; static. [any thread] */
SP_API const char *sp_stop_name(enum sp_stop stop);

/* Why a round verified as many draft tokens as it did. */
enum sp_round_reason {
    SP_ROUND_GIVEN,      /* the draft length was given, or nothing drafts */
    SP_ROUND_LIMIT,      /* automatic: no more could be proposed */
    SP_ROUND_CONFIDENCE, /* automatic: one more draft token was not worth its time */
    SP_ROUND_MEASURE,    /* automatic: a plain step that was timed for comparison */
    SP_ROUND_PAUSE,      /* automatic: a plain step, since drafting did not pay lately */
    SP_ROUND_PROBE,      /* automatic: a proposal that tests whether drafting pays again */
    SP_ROUND_CATCH_UP,   /* automatic: a plain step, since processing the tokens that the draft
                          * has not read would take longer than drafting is expected to save */
};
/* "given", "limit", "confidence", "measure", "pause", "probe", "catch-up"; static. [any thread] */
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

/* An answer and the figures of its generation. The caller calls sp_result_release. */
struct sp_result {
    size_t size;
    uint32_t *ids; /* [n_ids] of the answer, the EOS that ends it included; owned */
    size_t n_ids;
    char *text; /* NUL-terminated, owned; NULL without a tokenizer */
    size_t text_size;
    enum sp_stop stop;
    size_t stop_index;             /* SP_STOP_TEXT: index into the stops of the request */
    uint64_t logits_digest;        /* XXH3-64 of the rows that chose each id, in order */
    struct sp_round_count *rounds; /* [n_rounds] one per target pass after the prompt's; owned */
    size_t n_rounds;
    size_t n_shared;                      /* passes that were shared with other sessions */
    size_t n_prompt, n_reused;            /* tokens of the prompt; those already cached */
    size_t n_proposed;                    /* draft tokens proposed */
    size_t drafted, accepted;             /* draft tokens verified; accepted */
    size_t ngram_drafted, ngram_accepted; /* those of `drafted` and `accepted` from n-grams */
    /* Those of `drafted` and `accepted` that were the only token that the grammar allowed. */
    size_t grammar_drafted, grammar_accepted;
    size_t all_accepted;                       /* rounds whose draft tokens were all accepted */
    size_t mismatches;                         /* rounds with a draft token that was not accepted */
    struct sp_position_count *draft_positions; /* [n_draft_positions] of the first, second, ...
                                                  draft token of a round; owned */
    size_t n_draft_positions;
    /* Seconds; a pass that is shared with other sessions counts in full. */
    double prompt_seconds;     /* until the first token was chosen */
    double draft_seconds;      /* of proposals */
    double verify_seconds;     /* of the target's passes in rounds with draft tokens */
    double plain_seconds;      /* of the target's passes in rounds without draft tokens */
    size_t plain_rounds;       /* rounds without draft tokens */
    double plain_step_seconds; /* of one step without drafting, measured; 0: not known */
    double speed_up;           /* estimated time without drafting / time taken; 0: not known, or
                                * nothing was drafted */
};
#define SP_RESULT_INIT SP_SIZED(struct sp_result)
/* Frees what the result owns, and empties it. [one thread] */
SP_API void sp_result_release(struct sp_result *result);

/* Generates an answer to the prompt. Tokens at its beginning that the caches hold are not read
 * again. `stop` is set in the result before the last texts are delivered. On failure the result is
 * empty, and the session stays usable. SP_E_NOMEM, before the prompt is read, if memory does not
 * hold its caches; err states the numbers. [session] */
SP_API_STATUS sp_session_generate(struct sp_session *session, const struct sp_request *request,
                                  struct sp_result *result, struct sp_err *err);

/* ---- tokenizers ---- */

/* Opens the tokenizer of a packed file, of a checkpoint folder, or of a tokenizer.json. SP_E_INPUT:
 * the file has no tokenizer. [any thread] */
SP_API_STATUS sp_tokenizer_open_file(struct sp_tokenizer **out, const char *path,
                                     struct sp_err *err);
/* NULL is fine. [one thread] */
SP_API void sp_tokenizer_close(struct sp_tokenizer *tok);

/* The tokenizer of a package, borrowed from it; NULL: it has none, and the functions below refuse
 * it with SP_E_UNSUPPORTED. [any thread] */
SP_API const struct sp_tokenizer *sp_package_tokenizer(const struct sp_package *package);

enum sp_encode_flags {
    SP_ENCODE_ADD_SPECIAL = 1,   /* add the special tokens of the tokenizer's post-processor */
    SP_ENCODE_PARSE_SPECIAL = 2, /* recognize special tokens that are written in the text */
};

/* Encodes a text of valid UTF-8 (otherwise SP_E_INPUT), which may contain NULs; flags: enum
 * sp_encode_flags. *ids is owned by the caller (free), also when *n is 0. [any thread] */
SP_API_STATUS sp_tokenizer_encode(const struct sp_tokenizer *tok, const char *text, size_t size,
                                  unsigned flags, uint32_t **ids, size_t *n, struct sp_err *err);

/* A number of tokens that a text of `size` bytes has at least, by which a text that is too long is
 * known without encoding it; 0 where the tokenizer may shorten a text by any amount. A text of more
 * than 4 MiB counts as a token for every 16 bytes at least. [any thread] */
SP_API size_t sp_tokenizer_min_tokens(const struct sp_tokenizer *tok, size_t size);

/* Decodes ids. It skips ids without a token (rows of the embedding beyond the vocabulary). *text is
 * owned by the caller (free), NUL-terminated and valid UTF-8. [any thread] */
SP_API_STATUS sp_tokenizer_decode(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n,
                                  bool skip_special, char **text, size_t *size, struct sp_err *err);

/* One token of a vocabulary. */
struct sp_token_info {
    const char *bytes; /* [len], borrowed; those of a byte-level token need not be UTF-8 */
    size_t len;
    bool special; /* skip_special leaves it out */
    bool added;   /* an added token, which is recognized before the text is split */
};
/* Describes the token of an id; false: the id has no token. [any thread] */
SP_API bool sp_tokenizer_token(const struct sp_tokenizer *tok, uint32_t id,
                               struct sp_token_info *out);

/* Finds the special token that a NUL-terminated text begins with, and the size of the token's text;
 * false: it begins with none. The text of an answer shows no special token, so a special token that
 * ends the answer belongs into sp_request.end_ids, not into its stops. [any thread] */
SP_API bool sp_tokenizer_leading_special(const struct sp_tokenizer *tok, const char *text,
                                         uint32_t *id, size_t *size);

/* ---- chat templates ---- */

/* A chat template turns a conversation into the text that the model reads. It is written in Jinja
 * (as checkpoints have them) or in Go's text/template (as Modelfiles of ollama have them). Both are
 * bounded in memory and work. An error names an unsupported construct. */
enum sp_template_language { SP_TEMPLATE_UNKNOWN, SP_TEMPLATE_JINJA, SP_TEMPLATE_GO };

/* Compiles a template; SP_TEMPLATE_UNKNOWN recognizes its language. SP_E_INPUT or SP_E_UNSUPPORTED:
 * "template:LINE: ...". [any thread] */
SP_API_STATUS sp_template_compile(struct sp_template **out, const char *text, size_t size,
                                  enum sp_template_language language, struct sp_err *err);
/* Opens the template of a packed file (the TEMPLATE of its Modelfile, otherwise that of the
 * checkpoint), of a checkpoint folder, or of a template file. *out = NULL: there is none.
 * SP_E_USAGE: the template is not in the language asked for. [any thread] */
SP_API_STATUS sp_template_open_file(struct sp_template **out, const char *path,
                                    enum sp_template_language language, struct sp_err *err);
/* Compiles the template of a package; *out = NULL: it has none. [any thread] */
SP_API_STATUS sp_package_template(const struct sp_package *package, struct sp_template **out,
                                  struct sp_err *err);
/* NULL is fine. [one thread] */
SP_API void sp_template_close(struct sp_template *t);

/* [any thread] */
SP_API enum sp_template_language sp_template_language(const struct sp_template *t);
/* The text that it was compiled from, *size bytes, borrowed from the template. [any thread] */
SP_API const char *sp_template_text(const struct sp_template *t, size_t *size);

/* A wall clock, to the second, in any time zone. */
struct sp_template_time {
    int year, month, day; /* 2025, 1..12, 1..31 */
    int hour, minute, second;
};
/* The local time. [any thread] */
SP_API struct sp_template_time sp_template_now(void);

/* Renders a conversation; the members of the request that describe the answer do not count. *text
 * is owned by the caller (free) and NUL-terminated. [any thread] */
SP_API_STATUS sp_template_apply(char **text, size_t *size, const struct sp_template *t,
                                const struct sp_chat_request *request, struct sp_err *err);

/* ---- chat -----------------------------------------------------------------------------------
 *
 *   sp_chat_open(&chat, package, NULL, &err);
 *   sp_chat_prompt_open(&prompt, chat, &conversation, &err);
 *   sp_chat_reader_open(&request.reader, prompt, &options, &err);
 *   sp_chat_prompt_apply(prompt, &request);
 *   sp_session_generate(session, &request, &result, &err);
 *
 * cli/examples/chat.c is the whole program. */

/* How a model converses: its template, and the format in which it writes reasoning and tool calls,
 * which is learned from the template. A prompt borrows its chat, and a reader its prompt; once they
 * are made, each of them may be used by a thread of its own. */
struct sp_chat;

/* Zero but for `size` is valid. */
struct sp_chat_options {
    size_t size;
    const struct sp_template *chat_template; /* borrowed until close; NULL: the package's */
    const struct sp_tokenizer *tokenizer;    /* borrowed until close; NULL: the package's */
};
#define SP_CHAT_OPTIONS_INIT SP_SIZED(struct sp_chat_options)

/* Opens a chat. The package is borrowed until close; NULL: the options have a template, and no EOS
 * tokens are known. The options may be NULL. SP_E_UNSUPPORTED: there is no template. If the format
 * cannot be learned, reasoning and calls stay in the content. [any thread] */
SP_API_STATUS sp_chat_open(struct sp_chat **out, const struct sp_package *package,
                           const struct sp_chat_options *options, struct sp_err *err);
/* Closes a chat whose prompts are closed; NULL is fine. [one thread] */
SP_API void sp_chat_close(struct sp_chat *chat);

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
    bool can_limit_reasoning;
};
#define SP_CHAT_INFO_INIT SP_SIZED(struct sp_chat_info)
/* [any thread] */
SP_API void sp_chat_describe(const struct sp_chat *chat, struct sp_chat_info *info);

/* A message of plain text; all NUL-terminated UTF-8. */
struct sp_chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
    const char *reasoning; /* of an assistant's message; NULL: none */
};

/* What the schemas of the tools constrain. */
enum sp_chat_calls {
    SP_CHAT_CALLS_FREE,
    /* Calls that begin with the model's tag match the schemas. The answer is free where there is no
     * such tag, a schema is not supported, or there is a response format. */
    SP_CHAT_CALLS_TAGGED,
    SP_CHAT_CALLS_STRICT,   /* calls match the schemas */
    SP_CHAT_CALLS_REQUIRED, /* the answer is calls that match the schemas */
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
    const char *vars;            /* JSON: an object of all variables; nothing is added to them */
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
    const struct sp_grammar *response_format; /* of the content; borrowed until the prompt is
                                               * closed; NULL: any text */
    enum sp_chat_calls calls;
    const char *function;    /* the only function that calls may name; NULL: any */
    bool one_call;           /* the answer has at most one call */
    const uint32_t *end_ids; /* [n_end_ids] more tokens that end the answer */
    size_t n_end_ids;
    bool ignore_eos;   /* the template's own end of an answer does not end it */
    size_t max_tokens; /* of the prompt: a text that is known to have more is not encoded, and is
                          SP_E_USAGE; 0: any number */

    bool limit_reasoning; /* the answer has at most max_reasoning_tokens of reasoning */
    size_t max_reasoning_tokens;
};
#define SP_CHAT_REQUEST_INIT SP_SIZED(struct sp_chat_request)

/* A rendered conversation; immutable. */
struct sp_chat_prompt;

/* Renders and encodes a conversation, and makes the grammar of its answer. [any thread] SP_E_INPUT:
 * invalid JSON, or a prompt without a token; SP_E_UNSUPPORTED: the calls of this model cannot be
 * constrained, its reasoning cannot be limited, a schema is not supported, or a `prefix` where
 * answers begin with reasoning. Errors of tools begin with "tools" or "tool_choice". */
SP_API_STATUS sp_chat_prompt_open(struct sp_chat_prompt **out, const struct sp_chat *chat,
                                  const struct sp_chat_request *request, struct sp_err *err);
/* Closes a prompt whose readers are closed; NULL is fine. [one thread] */
SP_API void sp_chat_prompt_close(struct sp_chat_prompt *prompt);

/* All pointers are borrowed from the prompt. */
struct sp_chat_prompt_info {
    size_t size;
    const char *text; /* [text_size] and a NUL */
    size_t text_size;
    const uint32_t *ids; /* [n_ids] */
    size_t n_ids;
    bool content_only;   /* the whole answer is content: it has no reasoning and no calls */
    const char *changes; /* made to a conversation that the template would refuse or lose a part of,
                          * and to schemas of tools that are not strict and cannot be enforced, such
                          * as "system merged, schema of f relaxed"; "": none */
};
#define SP_CHAT_PROMPT_INFO_INIT SP_SIZED(struct sp_chat_prompt_info)
/* [any thread] */
SP_API void sp_chat_prompt_describe(const struct sp_chat_prompt *prompt,
                                    struct sp_chat_prompt_info *info);

/* Sets prompt, end_ids, grammar, special_ids and reasoning_limit of a request, borrowed from the
 * prompt. [any thread] */
SP_API void sp_chat_prompt_apply(const struct sp_chat_prompt *prompt, struct sp_request *request);

/* Counts the tokens of the prompt of a conversation and its prefix. [any thread] */
SP_API_STATUS sp_chat_count_tokens(const struct sp_chat *chat,
                                   const struct sp_chat_request *request, size_t *n_tokens,
                                   struct sp_err *err);

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
    uint64_t call_id_seed; /* the ids of calls follow from it: each answer has a seed of its own */
    /* Receives each part; NULL: none does. Nonzero: the answer ends, and no more parts come. */
    int (*part)(void *context, const struct sp_chat_part *part);
    void *context;
};
#define SP_CHAT_READER_OPTIONS_INIT SP_SIZED(struct sp_chat_reader_options)

/* Separates an answer into reasoning, content and tool calls while a request generates it. */
struct sp_chat_reader;

/* Opens a reader for one answer. The prompt is borrowed until close; NULL: the whole answer is
 * content. The options may be NULL. [any thread] */
SP_API_STATUS sp_chat_reader_open(struct sp_chat_reader **out, const struct sp_chat_prompt *prompt,
                                  const struct sp_chat_reader_options *options, struct sp_err *err);
/* NULL is fine. [one thread] */
SP_API void sp_chat_reader_close(struct sp_chat_reader *reader);

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
    size_t n_tokens;             /* tokens of the answer */
};

/* The answer so far. All pointers are borrowed from the reader until it reads on or closes. */
struct sp_chat_answer {
    size_t size;
    struct sp_chat_span content, reasoning;
    const struct sp_chat_call *calls; /* [n_calls] */
    size_t n_calls;
    const struct sp_chat_segment *segments; /* [n_segments] neighbors differ in kind or are calls */
    size_t n_segments;
    size_t n_reasoning_tokens;
};
#define SP_CHAT_ANSWER_INIT SP_SIZED(struct sp_chat_answer)
/* [one thread] */
SP_API void sp_chat_reader_answer(const struct sp_chat_reader *reader,
                                  struct sp_chat_answer *answer);

/* ---- grammars ---- */

/* The set of texts that an answer may be. It is immutable: any number of requests may borrow it, in
 * any number of threads. */
struct sp_grammar;

/* Makes the grammar of a JSON schema. spectool-grammar(7) lists the keywords and says how the texts
 * are written. SP_E_UNSUPPORTED or SP_E_INPUT: "#/path/keyword: ...". [any thread] */
SP_API_STATUS sp_grammar_of_schema(struct sp_grammar **out, const char *text, size_t size,
                                   struct sp_err *err);
/* The same, but keywords and patterns that are not supported restrict nothing. */
SP_API_STATUS sp_grammar_of_schema_relaxed(struct sp_grammar **out, const char *text, size_t size,
                                           struct sp_err *err);
/* Makes a grammar from GBNF, the notation of llama.cpp, which that page describes. SP_E_INPUT:
 * "line:column: ...". [any thread] */
SP_API_STATUS sp_grammar_of_gbnf(struct sp_grammar **out, const char *text, size_t size,
                                 struct sp_err *err);
/* Makes the grammar of all JSON objects. [any thread] */
SP_API_STATUS sp_grammar_of_json(struct sp_grammar **out, struct sp_err *err);
/* Closes a grammar that no request borrows any more; NULL is fine. [one thread] */
SP_API void sp_grammar_close(struct sp_grammar *grammar);

/* ---- adapters ---- */

/* A LoRA adapter of a package, whose products are added to those of the weights while a session
 * runs: sessions of one package may have different adapters, or none, and share passes. Every
 * answer has the bits that it has alone. Drafts propose without the adapter. */
struct sp_lora;

/* A low-rank product that is added to a weight matrix W: W x + left (right x). */
struct sp_lora_product {
    size_t size;
    const char *tensor; /* W's name in the packed file: "layers.0.self_attn.q_proj.weight", ... */
    size_t n_rows, n_cols, rank;
    const float *left;  /* [n_rows][rank], the adapter's scale included */
    const float *right; /* [rank][n_cols] */
};
#define SP_LORA_PRODUCT_INIT SP_SIZED(struct sp_lora_product)

/* Opens an adapter without products, which borrows the package. [package] */
SP_API_STATUS sp_lora_open(struct sp_lora **out, struct sp_package *package, struct sp_err *err);
/* Adds a product, whose numbers are copied; at most one for a matrix, and only before a session
 * that is to have the adapter is opened. SP_E_UNSUPPORTED: the tensor is not a single matrix of a
 * layer. SP_E_INPUT: the shapes differ, or a number is not finite. [package] */
SP_API_STATUS sp_lora_add(struct sp_lora *lora, const struct sp_lora_product *product,
                          struct sp_err *err);
/* NULL is fine. No session has the adapter, and the package is still open. [one thread] */
SP_API void sp_lora_close(struct sp_lora *lora);

/* Sets the adapter of the prompts and the logits that follow, and the finite number by which its
 * products are multiplied, 1 as they are; lora NULL: none. The caches are emptied unless the
 * session had both. The adapter is borrowed until another one is set, or close. SP_E_USAGE: it got
 * its products after the session, or the one that it shares passes with, was opened. Not in a
 * callback of the session. [session] */
SP_API_STATUS sp_session_set_lora(struct sp_session *session, const struct sp_lora *lora,
                                  float scale, struct sp_err *err);
/* True if the session has this adapter with this scale; lora NULL: none. [session] */
SP_API bool sp_session_has_lora(const struct sp_session *session, const struct sp_lora *lora,
                                float scale);

/* ---- embeddings ---- */

/* Encodes a text to embed, with the special tokens of the tokenizer's post-processor. `prompt` is
 * the name of a prompt of the file, which is put before the text; "": none; NULL: the file's
 * default. If the text is longer than max_tokens, tokens before the special ones at its end are
 * left out; 0: none are. *ids is owned by the caller (free). SP_E_USAGE: the file has no such
 * prompt; SP_E_UNSUPPORTED: the package has no tokenizer. [any thread] */
SP_API_STATUS sp_package_encode_for_embedding(const struct sp_package *package, const char *prompt,
                                              const char *text, size_t size, size_t max_tokens,
                                              uint32_t **ids, size_t *n, struct sp_err *err);

struct sp_embedding_text {
    const uint32_t *ids; /* [n] */
    size_t n;
};

/* Texts to embed. Short ones share forward passes. Without texts the model is checked. */
struct sp_embedding_request {
    size_t size;
    const struct sp_embedding_text *texts; /* [n_texts] */
    size_t n_texts;
    enum sp_pooling pooling; /* after a pooling that is not the file's, its dense layers are left
                              * out, and embeddings are normalized */
    size_t n_dimensions;     /* an embedding is cut to so many numbers, and normalized again if the
                              * whole one is; 0: it is not cut */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in tokens; nonzero: stop */
    /* [n_texts] of a text that is a pair: its tokens before the second text; NULL: no pairs */
    const size_t *n_first;
};
#define SP_EMBEDDING_REQUEST_INIT SP_SIZED(struct sp_embedding_request)

/* Computes embeddings [n_texts][width], which the caller owns (free). An embedding depends on the
 * file, the ids, the pooling and n_dimensions alone. Several requests of a package are computed
 * alternately, some texts at a time; between the passes, sessions of other threads generate.
 * SP_E_UNSUPPORTED: the file states no pooling, and the request neither. SP_E_USAGE: a text is
 * empty or too long, or has an unknown id. SP_E_INPUT: a number is not finite. SP_E_CANCELLED: the
 * callback stopped. [any thread] */
SP_API_STATUS sp_package_embed(struct sp_package *package,
                               const struct sp_embedding_request *request, float **embeddings,
                               size_t *width, struct sp_err *err);

/* ---- reranking ---- */

struct sp_rerank_document {
    const char *text; /* [size], valid UTF-8 without NULs, NUL-terminated */
    size_t size;
};

/* Documents to score by how well they answer a query. The model reads each of them in a prompt of
 * its own: that of the file's chat template if it has the roles "query" and "document", otherwise
 * that of Qwen3-Reranker. */
struct sp_rerank_request {
    size_t size;
    const char *query;       /* NUL-terminated */
    const char *instruction; /* NULL: the file's default prompt, or Qwen3-Reranker's */
    const struct sp_rerank_document *documents; /* [n_documents] */
    size_t n_documents;
    bool truncate;  /* shorten documents that are too long */
    bool any_model; /* score with the tokens "yes" and "no" if the file is not a reranker's */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in tokens; nonzero: stop */
    size_t max_document_tokens; /* longer documents are cut to so many tokens; 0: no limit */
};
#define SP_RERANK_REQUEST_INIT SP_SIZED(struct sp_rerank_request)

/* Computes scores [n_documents], which the caller owns (free); *n_tokens: of all prompts. Errors as
 * of sp_package_embed. SP_E_UNSUPPORTED: the file is not a reranker's, or lacks the tokens of the
 * prompt. [any thread] */
SP_API_STATUS sp_package_rerank(struct sp_package *package, const struct sp_rerank_request *request,
                                float **scores, size_t *n_tokens, struct sp_err *err);

/* ---- memory of several packages ---- */

struct sp_cache_budget_options {
    size_t size;
    size_t limit; /* bytes that the caches of all sessions of the packages may hold together; 0:
                   * what the machine and the limits of the process leave beside the weights of
                   * these packages when a cache grows */
    /* Is called by a thread whose caches need more memory than is left. It may free memory of
     * sessions that are not in use, with sp_session_clear or by closing packages, and returns true
     * if it has; then the thread tries again. It may not wait for a session that is in use. NULL:
     * nothing can be freed. */
    bool (*reclaim)(void *context);
    void *context;
};
#define SP_CACHE_BUDGET_OPTIONS_INIT SP_SIZED(struct sp_cache_budget_options)

/* Makes a budget that several packages share (struct sp_package_options). [any thread] */
SP_API_STATUS sp_cache_budget_new(struct sp_cache_budget **out,
                                  const struct sp_cache_budget_options *options,
                                  struct sp_err *err);
/* Closes a budget whose packages are closed; NULL is fine. [one thread] */
SP_API void sp_cache_budget_close(struct sp_cache_budget *budget);
/* The bytes that the caches hold. [any thread] */
SP_API size_t sp_cache_budget_used(const struct sp_cache_budget *budget);

/* ---- processes of an MPI job ---- */

/* Processes that mpirun started as one job, on one machine or several. Each joins the group; rank
 * 0 then opens packages and leaves at the end, the others serve it until then, and leave.
 *
 * module: the file spectool-mpi.so, found as dlopen(3) finds a library. SP_E_UNSUPPORTED: it, or
 * the MPI library, is missing. Once per process. [any thread] */
SP_API_STATUS sp_rank_group_join(struct sp_rank_group **out, const char *module,
                                 struct sp_err *err);
/* The number of this process, from 0, and the number of processes. [any thread] */
SP_API unsigned sp_rank_group_rank(const struct sp_rank_group *group);
SP_API unsigned sp_rank_group_size(const struct sp_rank_group *group);
/* Ranks above 0: maps the files that rank 0 opens, and computes. After a failure the process must
 * end without leaving, which ends the job. [group] */
SP_API_STATUS sp_rank_group_serve(struct sp_rank_group *group, struct sp_err *err);
/* Leaves the group and frees it; on rank 0 its packages are closed. NULL is fine. [group] */
SP_API void sp_rank_group_leave(struct sp_rank_group *group);

/* ---- sampling ---- */

/* Sampling without a session, for schedulers with a forward pass of their own: any number of
 * sequences over one vocabulary, each in a slot. One call samples rows of different slots, which do
 * not influence each other. A token is a function of the logits, the options, the seed, the history
 * and the position alone. cli/examples/sampler.c samples two sequences together. */
struct sp_sampler;

/* n_context: the history that repeat_last_n or dry_penalty_last_n of -1 penalizes. [any thread] */
SP_API_STATUS sp_sampler_open(struct sp_sampler **out, size_t n_vocab, size_t n_context,
                              struct sp_err *err);
/* NULL is fine. [one thread] */
SP_API void sp_sampler_close(struct sp_sampler *sampler);

/* Adds a sequence with the history `prior`; copies its options but the tokenizer. [one thread] */
SP_API_STATUS sp_sampler_add(struct sp_sampler *sampler, size_t *slot,
                             const struct sp_sampling *sampling, const uint32_t *prior,
                             size_t n_prior, struct sp_err *err);
/* Removes a sequence; its slot may be used again. [one thread] */
SP_API void sp_sampler_remove(struct sp_sampler *sampler, size_t slot);
/* Replaces the history of a sequence. [one thread] */
SP_API_STATUS sp_sampler_reset(struct sp_sampler *sampler, size_t slot, const uint32_t *prior,
                               size_t n_prior, struct sp_err *err);
/* Appends tokens to the history of a sequence. [one thread] */
SP_API_STATUS sp_sampler_commit(struct sp_sampler *sampler, size_t slot, const uint32_t *ids,
                                size_t n, struct sp_err *err);

/* One row to sample: it follows the history of its slot and the tokens `drafts`. */
struct sp_sampler_row {
    size_t slot;
    const float *logits; /* [n_vocab] */
    const uint32_t *drafts;
    size_t n_drafts;
};

/* Sets ids[i] to the token of rows[i]. The histories do not change: the caller commits the tokens
 * that it keeps. Rows with the same pointer to logits and equal options share their work, except
 * for the draw with the seed of each. [one thread] */
SP_API_STATUS sp_sampler_sample(struct sp_sampler *sampler, uint32_t *ids,
                                const struct sp_sampler_row *rows, size_t n, struct sp_err *err);

#ifdef __cplusplus
}
#endif

#endif
