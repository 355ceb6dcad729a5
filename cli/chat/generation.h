/* What is open to generate from a packed file: shared by `run` in its one-shot form (cmd_run.c) and
 * its interactive session (repl.c), and by `serve`. */
#ifndef SP_CLI_CHAT_GENERATION_H
#define SP_CLI_CHAT_GENERATION_H

#include "cli/chat/console_answer.h"
#include "cli/chat/conversation.h"
#include "cli/base/backend_opts.h"
#include "cli/base/settings.h"

struct sp_generation {
    const char *path;
    struct sp_package *package;
    struct sp_package_info info;
    struct sp_session *session;
    struct sp_settings *settings;
    struct sp_conversation conversation;
    size_t n_used; /* of the context, by the last prompt and its answer but for its last token */
    struct sp_console_style style;
    const struct sp_grammar *grammar; /* answers are held to it; NULL: to nothing; borrowed */
    bool no_draft, ignore_eos, logprobs;
    unsigned n_top;
};

/* Settings and conversation, which a file's records complete: threads are a setting, so they come
 * before the rest. `raw` and `system` are sp_conversation_open's. */
SP_MUST_CHECK enum sp_status sp_generation_read(struct sp_generation *generation,
                                                const struct sp_args *args, bool raw,
                                                const char *system, struct sp_err *err);
/* Package, info, and session; `engine` but for what the settings say. A context that the file asks
 * for is cut to what its model has; one on the command line is not. */
SP_MUST_CHECK enum sp_status sp_generation_open(struct sp_generation *generation,
                                                const struct sp_args *args,
                                                const struct sp_backend_opts *backend,
                                                struct sp_err *err);
/* Releases all that the two have opened, and the settings. */
void sp_generation_close(struct sp_generation *generation);

/* Notes which of the options that say how to draft were given in vain. no_draft: --no-draft was;
 * `drafting`: those beside --draft-by. */
void sp_generation_note_no_gain(const struct sp_generation *generation, const struct sp_args *args,
                                bool no_draft, const char *const *drafting);

/* SP_E_USAGE says what to do about a prompt of n tokens that is too long. */
SP_MUST_CHECK enum sp_status sp_generation_check_context(const struct sp_generation *generation,
                                                         size_t n, struct sp_err *err);

/* What is asked of the session: no callbacks, no log-probabilities. Borrows from everything. */
void sp_generation_request(struct sp_request *out, struct sp_sampling *sampling,
                           uint32_t end_ids[SP_MAX_STOPS], const struct sp_generation *generation,
                           const struct sp_settings *settings, const struct sp_ids *prompt);

/* One answer to these ids, shown with its figures. rendered: the prompt of a chat that has these
 * ids; NULL: none. *result is owned by the caller. An interrupted answer is no failure:
 * result->stop says so; a prompt that was interrupted is SP_E_CHECK. *reader (closed by the caller,
 * before the prompt) separated content and reasoning; NULL: nothing was separated. */
SP_MUST_CHECK enum sp_status
sp_generation_answer(struct sp_result *result, struct sp_chat_reader **reader,
                     struct sp_generation *generation, const struct sp_ids *ids,
                     const struct sp_chat_prompt *rendered, struct sp_err *err);

#endif
