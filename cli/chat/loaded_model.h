/* An open packed file with its session, settings and conversation. `run` uses it for single
 * prompts (cmd_run.c) and in its interactive session (repl.c), `serve` for all requests. */
#ifndef SP_CLI_CHAT_LOADED_MODEL_H
#define SP_CLI_CHAT_LOADED_MODEL_H

#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/settings.h"
#include "cli/chat/conversation.h"
#include "runtime/spectool.h"

#include <stdio.h>

/* Fill-in-the-middle: the prompt for the text between a prefix and a suffix, by the tokens that the
 * model's tokenizer has for it. They are found by their names, as in llama.cpp. */

/* Absent tokens are SP_INFILL_NONE. */
#define SP_INFILL_NONE UINT32_MAX
enum { SP_INFILL_MAX_ENDS = 12 };

struct sp_infill_tokens {
    bool found;                        /* the model fills gaps; else nothing else is set */
    uint32_t prefix, suffix;           /* written before the prefix and before the suffix */
    uint32_t middle;                   /* before the text to generate */
    bool suffix_first;                 /* the suffix precedes the prefix: Codestral */
    uint32_t repository, file;         /* before the names of a repository and of a file */
    uint32_t ends[SP_INFILL_MAX_ENDS]; /* [n_ends] tokens that end the text */
    size_t n_ends;
};

/* Finds the tokens of a tokenizer. */
SP_MUST_CHECK enum sp_status sp_infill_find(struct sp_infill_tokens *out,
                                            const struct sp_tokenizer *tok, struct sp_err *err);

struct sp_infill_text {
    const char *at; /* [size]; NULL if size is 0 */
    size_t size;
};

/* A file, or a part of one, that the model may draw on. */
struct sp_infill_extra {
    struct sp_infill_text name, text;
};

/* A gap to fill. All texts are borrowed. A text that spells a special token stays text. */
struct sp_infill_gap {
    struct sp_infill_text prefix, suffix;
    struct sp_infill_text begun;         /* text with which the answer has begun */
    const struct sp_infill_extra *extra; /* [n_extra] the nearest one last */
    size_t n_extra;
    size_t n_most; /* tokens of the prompt; longer ones lose extras, then the ends that are far from
                      the gap, of the suffix a quarter of the tokens at most; 0: no limit */
};

/* Makes the prompt: [repository and extras] prefix-token prefix suffix-token suffix middle-token.
 * *ids is owned by the caller. SP_E_INPUT: a text is not valid UTF-8. */
SP_MUST_CHECK enum sp_status sp_infill_prompt(struct sp_ids *ids,
                                              const struct sp_infill_tokens *tokens,
                                              const struct sp_tokenizer *tok,
                                              const struct sp_infill_gap *gap, struct sp_err *err);

/* Shows an answer while it is generated, as text or as JSON lines, and its figures at the end. */

struct sp_console_style {
    /* JSON lines: an object per token and per part of text, the last one with everything */
    bool json;
    bool ids;        /* the file has no tokenizer: ids separated by commas are shown */
    bool show_draft; /* accepted draft tokens are shown in color */
    bool verbose;    /* all figures are shown */
    bool digest;     /* the last object contains logits_xxh3 */
    bool rounds;     /* the last object lists the rounds */
    bool plain;      /* --no-draft was given: no rounds are listed */
    bool hide_reasoning;
    bool wrap;                  /* lines of text are broken between words on a screen */
    bool quiet;                 /* no figures and no notes */
    bool reported_useless;      /* the note that the draft does not help was printed */
    bool session;               /* notes name commands of the session instead of options */
    bool reported_loop;         /* the note that an answer repeats itself was printed */
    double started;             /* sp_seconds() when the user asked; 0: when the answer began */
    double first_token_seconds; /* from then to the first token of the last answer */
    double joules; /* of the processors since then, in that answer; 0: the machine does not tell */
    const char *custom_id; /* first member of the last object; borrowed; NULL: none */
};

/* Generates an answer and shows it, then its figures. `request` has no callbacks. A caught signal
 * stops the answer (SP_STOP_CANCELLED). prompt NULL: all text is content. Otherwise *reader
 * separates content and reasoning; the caller closes it, also on failure, and it is NULL if it
 * could not be opened. On a terminal, or if reasoning is hidden, the two are shown separately;
 * elsewhere the text is shown as it is generated. A note says once that a greedy answer repeats
 * itself without end. */
SP_MUST_CHECK enum sp_status
sp_console_answer(struct sp_result *result, struct sp_chat_reader **reader,
                  struct sp_session *session, const struct sp_request *request,
                  const struct sp_chat_prompt *prompt, const struct sp_package_info *info,
                  struct sp_console_style *style, struct sp_err *err);

/* Returns the seconds that an answer took after its prompt. */
double sp_answer_seconds(const struct sp_result *result);

/* Writes the last JSON object of an answer, and a line end. answer: its content and reasoning, if
 * they were separated; NULL: they were not. */
void sp_console_write_json(struct sp_json_out *out, const struct sp_result *result,
                           const struct sp_chat_answer *answer, const struct sp_package_info *info,
                           uint64_t seed, const struct sp_console_style *style);

struct sp_loaded_model {
    const char *name;          /* what the user calls the file; borrowed, or own_name */
    const char *path;          /* borrowed, or own_path */
    char *own_name, *own_path; /* owned; NULL: none */
    struct sp_package *package;
    struct sp_package_info info;
    const char *const *adapters; /* [n_adapters] paths of LoRA adapters to open; borrowed */
    size_t n_adapters;
    struct sp_lora **loras;     /* [n_adapters] the adapters; owned */
    const struct sp_lora *lora; /* of the prompts, one of `loras`; NULL: none */
    struct sp_session *session;
    struct sp_backend_opts backend; /* the session's options */
    struct sp_settings *settings;
    struct sp_conversation conversation;
    struct sp_infill_tokens infill; /* by which the model fills gaps */
    size_t n_used; /* positions in use after the last answer, whose last token is not counted */
    struct sp_console_style style;
    struct sp_record *record;         /* of all answers; borrowed; NULL: none */
    const struct sp_grammar *grammar; /* constrains answers; borrowed; NULL: no constraint */
    bool no_draft, ignore_eos, logprobs;
    bool shift; /* a full context drops the oldest messages of the conversation */
    unsigned n_top;
};

/* Reads settings and conversation, which the file's records complete. It is called before
 * sp_loaded_model_open, since the number of threads is a setting. `raw` and `system` are those of
 * sp_conversation_open. */
SP_MUST_CHECK enum sp_status sp_loaded_model_read(struct sp_loaded_model *model,
                                                  const struct sp_args *args, bool raw,
                                                  const char *system, struct sp_err *err);
/* Opens package, adapters and session. Threads and context length come from the settings, all other
 * options from `backend_opts`. A context length from the file is cut to the model's maximum; one
 * from the command line is not. */
SP_MUST_CHECK enum sp_status sp_loaded_model_open(struct sp_loaded_model *model,
                                                  const struct sp_args *args,
                                                  const struct sp_backend_opts *backend_opts,
                                                  struct sp_err *err);
/* Opens the session again with a context of n_context tokens (0: the model's maximum); the next
 * prompt is read as a whole. On failure the session stays as it was. */
SP_MUST_CHECK enum sp_status sp_loaded_model_set_context(struct sp_loaded_model *model,
                                                         int64_t n_context, struct sp_err *err);
/* Closes what sp_loaded_model_read and sp_loaded_model_open opened, and releases the settings. */
void sp_loaded_model_close(struct sp_loaded_model *model);

/* Prints a note for each given option that has no effect because nothing is drafted. no_draft:
 * --no-draft was given; `drafting`: the command's drafting options other than --draft-by. */
void sp_loaded_model_note_no_effect(const struct sp_loaded_model *model, const struct sp_args *args,
                                    bool no_draft, const char *const *drafting);

/* Drops the oldest messages of the conversation until its prompt leaves a quarter of the context
 * for answers, if it leaves less than an eighth; the file's messages and the newest one stay.
 * *n = messages dropped. */
SP_MUST_CHECK enum sp_status sp_loaded_model_shift(struct sp_loaded_model *model, size_t *n,
                                                   struct sp_err *err);

/* SP_E_USAGE if a prompt of n tokens does not fit into the context, with how to enlarge it. */
SP_MUST_CHECK enum sp_status sp_loaded_model_check_context(const struct sp_loaded_model *model,
                                                           size_t n, struct sp_err *err);

/* SP_E_UNSUPPORTED if --reasoning-budget was given and the model's reasoning cannot be limited. */
SP_MUST_CHECK enum sp_status
sp_loaded_model_check_reasoning_budget(const struct sp_loaded_model *model,
                                       const struct sp_args *args, struct sp_err *err);

/* Fills the request for the session, without callbacks and log-probabilities. The request borrows
 * from all arguments. */
void sp_loaded_model_request(struct sp_request *out, struct sp_sampling *sampling,
                             uint32_t end_ids[SP_MAX_STOPS], const struct sp_loaded_model *model,
                             const struct sp_settings *settings, const struct sp_ids *prompt);

/* Generates and shows one answer to a prompt, with its figures. rendered: the chat prompt that the
 * ids belong to; NULL: none. *result is owned by the caller. An interrupted answer is not a
 * failure: result->stop says so; an interrupted prompt is SP_E_CANCELLED. *reader, which the caller
 * closes before the prompt, separates content and reasoning; NULL: nothing was separated. */
SP_MUST_CHECK enum sp_status
sp_loaded_model_answer(struct sp_result *result, struct sp_chat_reader **reader,
                       struct sp_loaded_model *model, const struct sp_ids *ids,
                       const struct sp_chat_prompt *rendered, struct sp_err *err);

/* Appends an answer of the model's session, unless it was cancelled, to the record, if there is
 * one; the `digest` of the request was set. [any thread] (record.c) */
SP_MUST_CHECK enum sp_status sp_loaded_model_record(const struct sp_loaded_model *model,
                                                    const struct sp_request *request,
                                                    const struct sp_result *result,
                                                    struct sp_err *err);

/* ---- answers that repeat themselves (repetition.c) ----
 *
 * Finds out that a sequence repeats a few tokens without end, as answers of small models do. */

/* A repetition spans four periods and at least half of SP_REPETITION_SPAN tokens, and its period is
 * a fourth of SP_REPETITION_SPAN at most. */
enum { SP_REPETITION_SPAN = 256 };

/* Valid when zeroed. */
struct sp_repetition {
    uint32_t ids[SP_REPETITION_SPAN]; /* the last tokens, a ring */
    size_t n;                         /* tokens so far */
    size_t period;                    /* of the repetition; 0: none was found */
};

/* Adds a token. True once, when the sequence is found to repeat itself. */
bool sp_repetition_add(struct sp_repetition *repetition, uint32_t id);

/* ---- several sessions (session_pool.c) ----
 *
 * The sessions of the server or of a batch. Alternating conversations find their prompts cached,
 * each in a session. */

struct sp_session_pool; /* opaque */

/* Creates a pool of up to n sessions: `first`, which is borrowed, and others like it, which are
 * opened when they are needed. */
SP_MUST_CHECK enum sp_status sp_session_pool_new(struct sp_session_pool **out,
                                                 struct sp_session *first, size_t n,
                                                 struct sp_err *err);
void sp_session_pool_free(
    struct sp_session_pool *sessions); /* accepts NULL; does not close the first session */

/* Takes a session to answer a prompt with by an adapter with a finite scale, lora NULL: none, until
 * sp_session_pool_give. It is the one with the least to process and the least useful cache to
 * overwrite. If memory does not suffice for a new session, an existing one is used; if all are
 * taken the call blocks. Any thread may call. */
struct sp_session *sp_session_pool_take(struct sp_session_pool *sessions,
                                        const struct sp_lora *lora, float scale,
                                        const uint32_t *prompt, size_t n_prompt);
/* True if the session of this number, below the n of sp_session_pool_new, is taken. [any thread] */
bool sp_session_pool_is_taken(struct sp_session_pool *sessions, size_t number);
/* Clears the least recently used session that is not taken and has memory in its caches. Returns
 * false if there is none. [any thread] */
bool sp_session_pool_clear_oldest(struct sp_session_pool *sessions);
void sp_session_pool_give(struct sp_session_pool *sessions, struct sp_session *session);

/* ---- the user's cache folders (drafting_cache.c) ----
 *
 * The statistics of drafting with a packed file on this machine, in the user's cache folder: run
 * and serve begin with what earlier processes learned. They change no text. Failures are ignored:
 * the process then learns everything itself. */

/* Creates the folder of the files, which has nothing else. Returns its path, owned by the caller;
 * NULL: there is none. */
char *sp_drafting_cache_folder(void);

/* Begins with the statistics of earlier processes with the same file, machine, kernels and numbers
 * of threads and ranks. One run in eight tries to draft even if it did not pay in the last one. */
void sp_drafting_cache_load(struct sp_package *package);

/* Keeps what this process learned, unless the file was changed meanwhile. */
void sp_drafting_cache_save(const struct sp_package *package);

/* ---- the folder of processed prompts ---- */

/* Opens the prompt cache that the options name, or that of the user. *folder: its path, owned by
 * the caller. Without a folder of the user both are NULL; one that is named and cannot be used is
 * SP_E_IO or SP_E_USAGE. command: of notes, static. */
SP_MUST_CHECK enum sp_status sp_prompt_folder_open(struct sp_prompt_cache **out, char **folder,
                                                   const struct sp_backend_opts *options,
                                                   const char *command, struct sp_err *err);

/* ---- the record of answers (record.c) ----
 *
 * The record of answers that `spectool replay` computes again: a JSON object a line, with all that
 * the ids of an answer depend on, and no text. */

struct sp_record;

/* Opens a file to append answers to, or makes it, readable by its owner alone. Refuses a regular
 * file that begins with anything else than an answer. */
SP_MUST_CHECK enum sp_status sp_record_open(struct sp_record **out, const char *path,
                                            struct sp_err *err);
void sp_record_close(struct sp_record *record); /* NULL is fine */

/* A line that was read. The owner calls sp_record_line_release. */
struct sp_record_line {
    uint64_t identity, adapter, digest; /* adapter: of it and its scale; 0: none */
    float lora_scale;
    const char *kv_type;
    int64_t n_context;      /* of the session; rotary embeddings of some models depend on it */
    uint32_t *prompt, *ids; /* [n_prompt], [n_ids] owned */
    size_t n_prompt, n_ids;
    bool logits_only; /* the ids depend on more than the line says */
    struct sp_sampling sampling;
    void *biases, *breakers; /* of `sampling`; owned */
    struct sp_json *root;    /* from which the breakers are borrowed; owned */
};

SP_MUST_CHECK enum sp_status sp_record_line_read(struct sp_record_line *out, const char *text,
                                                 size_t size, struct sp_err *err);
void sp_record_line_release(struct sp_record_line *line);

#endif
