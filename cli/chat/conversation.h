/* A conversation and the prompt for its next answer.
 *
 * With a template every prompt is the whole conversation, rendered anew; the session's caches make
 * its common prefix free. Without a template (or with --raw) the conversation is one growing
 * sequence of token ids. */
#ifndef SP_CLI_CHAT_CONVERSATION_H
#define SP_CLI_CHAT_CONVERSATION_H

#include "cli/base/opt.h"
#include "format/packfile.h"
#include "cli/base/input_text.h"
#include "cli/base/settings.h"
#include "runtime/spectool.h"

enum { SP_THINK_LEVEL_SIZE = 16 };

/* Whether reasoning is requested from the template; SP_THINK_DEFAULT leaves it to the template. */
struct sp_thinking {
    enum { SP_THINK_DEFAULT, SP_THINK_ON, SP_THINK_OFF } mode;
    char level[SP_THINK_LEVEL_SIZE]; /* of the effort; empty: none */
};

/* A message of the conversation. */
struct sp_turn {
    const char *role; /* static */
    char *content;    /* owned */
    char *reasoning;  /* owned; NULL: none */
};

struct sp_conversation {
    const struct sp_package *package; /* borrowed; set before the first prompt */
    struct sp_template *template;     /* owned; NULL: raw */
    struct sp_chat *chat;             /* chat of the template; owned; NULL: raw */
    struct sp_chat_info chat_info;    /* description of the chat */
    char *system;                     /* system message; owned; NULL: none */
    struct sp_turn *turns;
    size_t n_turns, cap_turns;
    size_t n_given; /* number of turns that are MESSAGE records of the file */
    /* The following two fields constrain and end answers; they are set before a prompt is made. */
    const struct sp_grammar *response_format; /* borrowed; NULL: none */
    const struct sp_settings *settings;       /* for its stop texts; borrowed; NULL: none */
    bool ignore_eos;
    struct sp_thinking thinking;
    struct sp_template_time now;     /* time shown to the template, the same in all prompts */
    struct sp_chat_prompt *rendered; /* the last prompt as rendered; owned; NULL: raw */
    struct sp_ids prompt;            /* token ids of the last prompt; owned */
    size_t n_kept;                   /* raw: number of ids before the last user message */
};

/* Opens a conversation with the template of a packed file, and its SYSTEM and MESSAGE records;
 * `raw`: without them. `system` replaces the file's system message. */
SP_MUST_CHECK enum sp_status sp_conversation_open(struct sp_conversation *c,
                                                  const struct sp_file_settings *file,
                                                  const char *path, bool raw, const char *system,
                                                  struct sp_err *err);
void sp_conversation_release(struct sp_conversation *c);

/* Sets the package that the prompts are for. */
SP_MUST_CHECK enum sp_status sp_conversation_attach(struct sp_conversation *c,
                                                    const struct sp_package *package,
                                                    struct sp_err *err);

/* True if reasoning is separated from content in answers to the prompt. */
bool sp_conversation_separates_reasoning(const struct sp_conversation *c,
                                         const struct sp_chat_prompt *prompt);

SP_MUST_CHECK enum sp_status sp_conversation_set_system(struct sp_conversation *c, const char *text,
                                                        struct sp_err *err);

/* The option for sp_thinking_read; its words are those of ollama and of gpt-oss. */
extern const char *const sp_thinking_words[];
#define SP_OPT_THINK(type, member)                                                                 \
    {                                                                                              \
        SP_OPT_STRING, 0, "think", NULL, "true|false|LEVEL", offsetof(type, member),               \
            .words = sp_thinking_words, .shown = "left to the template",                           \
            .help = "Turn the model's reasoning on (also without a value) or off, or set its "     \
                    "level: low, medium, high, or one of the template's own after ="               \
    }

/* Reads whether a model is to reason from a word: true or on, false or off, or a level, which
 * consists of letters. `chat`: what its template can do; NULL: it has none. SP_E_UNSUPPORTED if
 * reasoning is to be on, and the template has none. */
SP_MUST_CHECK enum sp_status sp_thinking_read(struct sp_thinking *thinking, const char *word,
                                              const struct sp_chat_info *chat, struct sp_err *err);
/* Sets `thinking` the same way. Call after sp_conversation_attach. */
SP_MUST_CHECK enum sp_status sp_conversation_set_thinking(struct sp_conversation *c,
                                                          const char *word, struct sp_err *err);

/* Adds the user's next message and makes c->prompt for the answer; on failure drops the message. */
SP_MUST_CHECK enum sp_status sp_conversation_add_user(struct sp_conversation *c, const char *text,
                                                      size_t size, struct sp_err *err);
/* Replaces the messages after those of the file by an array of objects with `role`, `content` and
 * an optional `reasoning`, and the system message (NULL: none). A failure changes nothing. */
SP_MUST_CHECK enum sp_status sp_conversation_restore(struct sp_conversation *c, const char *system,
                                                     const struct sp_json *messages,
                                                     struct sp_err *err);
/* Adds an answer, complete or interrupted, to the conversation. reader: separated its reasoning;
 * NULL: nothing was separated. */
SP_MUST_CHECK enum sp_status sp_conversation_add_answer(struct sp_conversation *c,
                                                        const struct sp_result *result,
                                                        const struct sp_chat_reader *reader,
                                                        struct sp_err *err);
/* Drops the oldest message that is not the file's, and what follows it up to the next message of
 * the user, and makes c->prompt again. *n = messages dropped; 0: only the newest message is left,
 * or there is no template. */
SP_MUST_CHECK enum sp_status sp_conversation_drop_oldest(struct sp_conversation *c, size_t *n,
                                                         struct sp_err *err);
/* Drops the user's last message and its answer. *text = the message, owned by the caller; NULL:
 * there is none besides the file's, or there is no template. */
void sp_conversation_undo(struct sp_conversation *c, char **text);
/* Drops the last message, which has no answer. */
void sp_conversation_withdraw(struct sp_conversation *c);
/* Drops everything except the file's messages. */
void sp_conversation_clear(struct sp_conversation *c);

/* ---- prompts ----
 *
 * Converts plain text to the ids of a prompt, and finds the special tokens among the stop texts. */

/* Tokenizes a text without a template. Special tokens in it are recognized; `first` adds what the
 * post-processor puts around a text. *ids is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package,
                                           const char *text, size_t size, bool first,
                                           struct sp_err *err);

/* Writes the ids of the stop texts that are special tokens, since the text of an answer never
 * contains such a token. Returns their number. */
size_t sp_prompt_stop_ids(uint32_t ids[SP_MAX_STOPS], const struct sp_package *package,
                          const struct sp_settings *settings);

/* Limits the reasoning of the answer as the settings say. */
void sp_prompt_limit_reasoning(struct sp_chat_request *request, const struct sp_settings *settings);

#endif
