/* An open packed file with its session, settings and conversation. `run` uses it for single
 * prompts (cmd_run.c) and in its interactive session (repl.c), `serve` for all requests. */
#ifndef SP_CLI_CHAT_LOADED_MODEL_H
#define SP_CLI_CHAT_LOADED_MODEL_H

#include "cli/chat/console_answer.h"
#include "cli/chat/conversation.h"
#include "cli/chat/infill.h"
#include "cli/chat/record.h"
#include "cli/base/backend_opts.h"
#include "cli/base/settings.h"

struct sp_loaded_model {
    const char *name; /* what the user calls the file; borrowed */
    const char *path; /* borrowed */
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

/* Appends an answer of the model's session to the record, if there is one. */
SP_MUST_CHECK enum sp_status sp_loaded_model_record(const struct sp_loaded_model *model,
                                                    const struct sp_request *request,
                                                    const struct sp_result *result,
                                                    struct sp_err *err);

#endif
