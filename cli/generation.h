/* What `run` has open: shared by its one-shot form (cmd_run.c) and its session (chat.c). */
#ifndef SP_CLI_GENERATION_H
#define SP_CLI_GENERATION_H

#include "cli/answer.h"
#include "cli/conversation.h"
#include "cli/engine_opts.h"
#include "cli/settings.h"

struct sp_generation {
    const char *path;
    struct sp_package *package;
    struct sp_package_info info;
    struct sp_session *session;
    struct sp_settings *settings;
    struct sp_conversation conversation;
    size_t n_used; /* of the context, by the last prompt and its answer but for its last token */
    struct sp_answer_style style;
    bool no_draft, ignore_eos, logprobs;
    unsigned n_top;
};

/* One answer to these ids, shown with its figures. result owned by the caller. An interrupted
 * answer is no failure: result->stop says so; a prompt that was interrupted is SP_E_CHECK. */
SP_MUST_CHECK enum sp_status sp_generation_answer(struct sp_result *result,
                                                  struct sp_generation *generation,
                                                  const struct sp_ids *ids, struct sp_err *err);

/* The interactive session: until /bye or the end of input. */
SP_MUST_CHECK enum sp_status sp_chat(struct sp_generation *generation, struct sp_err *err);

#endif
