/* A conversation and the prompt that asks for its next answer.
 *
 * With a template every prompt is the whole conversation rendered anew; the session's caches make
 * its common beginning free. Without one (or with --raw) the conversation is one growing sequence
 * of ids. */
#ifndef SP_CLI_CHAT_CONVERSATION_H
#define SP_CLI_CHAT_CONVERSATION_H

#include "cli/chat/prompt.h"
#include "format/packfile.h"

enum { SP_THINK_LEVEL_SIZE = 16 };

/* Whether the template is asked for reasoning. */
enum sp_thinking { SP_THINK_DEFAULT, SP_THINK_ON, SP_THINK_OFF };

/* A turn that is kept. */
struct sp_turn {
    const char *role; /* static */
    char *content;    /* owned */
    char *reasoning;  /* owned; NULL: none */
};

struct sp_conversation {
    const struct sp_package *package; /* borrowed; set before the first question */
    struct sp_template *template;     /* owned; NULL: raw */
    struct sp_chat *chat;             /* of the template; owned; NULL: raw */
    struct sp_chat_info chat_info;    /* of the chat */
    char *system;                     /* owned; NULL: none */
    struct sp_turn *turns;
    size_t n_turns, cap_turns;
    size_t n_given; /* of these, MESSAGE records of the file */
    /* By what answers are constrained and ended; set before a question: */
    const struct sp_grammar *response_format; /* borrowed; NULL: none */
    const struct sp_settings *settings;       /* its stops; borrowed; NULL: none */
    bool ignore_eos;
    enum sp_thinking thinking;
    char think_level[SP_THINK_LEVEL_SIZE]; /* empty: none */
    struct sp_template_time now;           /* one for the whole conversation */
    struct sp_chat_prompt *rendered;       /* of the last question; owned; NULL: raw */
    struct sp_ids prompt;                  /* its ids; owned */
    size_t cap_prompt;
    size_t n_kept; /* raw: ids of the turns before the question */
};

/* Template, SYSTEM and MESSAGE records of a packed file; `raw`: without them. A system message that
 * is given replaces the file's. *unused: the file has SYSTEM or MESSAGE records, but no template to
 * put them in. */
SP_MUST_CHECK enum sp_status sp_conversation_open(struct sp_conversation *c,
                                                  const struct sp_pack *pack, bool raw,
                                                  const char *system, bool *unused,
                                                  struct sp_err *err);
void sp_conversation_release(struct sp_conversation *c);

/* Gives it the package that its prompts are for. */
SP_MUST_CHECK enum sp_status sp_conversation_attach(struct sp_conversation *c,
                                                    const struct sp_package *package,
                                                    struct sp_err *err);

/* Is reasoning separated from content in the answer to a prompt of the chat? */
bool sp_conversation_separates_reasoning(const struct sp_conversation *c,
                                         const struct sp_chat_prompt *prompt);

SP_MUST_CHECK enum sp_status sp_conversation_set_system(struct sp_conversation *c, const char *text,
                                                        struct sp_err *err);

/* "true", "false", or a level: a word of letters. */
SP_MUST_CHECK enum sp_status sp_conversation_set_thinking(struct sp_conversation *c,
                                                          const char *word, struct sp_err *err);

/* The user's next message: c->prompt asks for the answer. On failure the message is forgotten. */
SP_MUST_CHECK enum sp_status sp_conversation_ask(struct sp_conversation *c, const char *text,
                                                 size_t size, struct sp_err *err);
/* The same for all of a conversation: an array of objects with `role` and `content`, behind what
 * the file gives; a system message that leads it replaces the file's, for this question. */
SP_MUST_CHECK enum sp_status sp_conversation_ask_all(struct sp_conversation *c,
                                                     const struct sp_json *messages,
                                                     struct sp_err *err);
/* A prompt of ids, without any message. */
SP_MUST_CHECK enum sp_status sp_conversation_ask_ids(struct sp_conversation *c,
                                                     const struct sp_ids *ids, struct sp_err *err);
/* The answer joins the conversation, whole or interrupted; reader: which separated its
 * reasoning; NULL: none did. */
SP_MUST_CHECK enum sp_status sp_conversation_answered(struct sp_conversation *c,
                                                      const struct sp_result *result,
                                                      const struct sp_chat_reader *reader,
                                                      struct sp_err *err);
/* Forgets the question that got no answer. */
void sp_conversation_withdraw(struct sp_conversation *c);
/* Forgets everything but what the file gives. */
void sp_conversation_clear(struct sp_conversation *c);

#endif
