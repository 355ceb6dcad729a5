/* Probes: conversations of known words, rendered to see how a template writes an answer. Only for
 * learning a chat format. */
#ifndef SP_RUNTIME_CHAT_CHAT_PROBE_H
#define SP_RUNTIME_CHAT_CHAT_PROBE_H

#include "runtime/chat/chat_format.h"

/* The known words. The arguments of a call are {"kqa": "vqx", "kqb": "vqy", "kqc": 73519}. */
#define SP_PROBE_NAME "fnzq"        /* name of the first function */
#define SP_PROBE_SECOND_NAME "gnzq" /* name of the second function */
#define SP_PROBE_CONTENT "Contqz"
#define SP_PROBE_REASONING "Thouqz"
#define SP_PROBE_IDS                                                                               \
    {                                                                                              \
        "call12345", "call67890"                                                                   \
    }
enum { SP_PROBE_ARGUMENTS = 3 };
extern const char *const sp_probe_keys[SP_PROBE_ARGUMENTS], *const sp_probe_values[];

enum sp_probe_answer {
    SP_PROBE_NONE, /* no answer: the prompt for one */
    SP_PROBE_PLAIN,
    SP_PROBE_REASONING_ALONE, /* reasoning in a member of its own */
    SP_PROBE_REASONING_PARTS, /* reasoning in a part of the content */
    SP_PROBE_CALLS,
};

struct sp_probe {
    enum sp_probe_answer answer;
    bool tools; /* the model is shown the functions */
    bool think, is_think_set;
    unsigned n_calls; /* 1 or 2 */
    bool text_arguments,
        null_content; /* notation of a call's arguments and of the content beside it */
};

/* Renders a probe. *text: what follows the question, or everything with `whole`; owned by the
 * caller. NULL if the template does not render it. SP_E_CHECK: it exceeds a limit of work or
 * memory, so that further probes are not worth their time. */
SP_MUST_CHECK enum sp_status sp_probe_render(char **text, const struct sp_template *t,
                                             const struct sp_probe *probe, bool whole,
                                             struct sp_err *err);

/* Renders messages, a JSON array that is taken from `messages`, with `tools` (JSON; NULL: none) and
 * what else the input says. *text as above, with *size bytes. */
struct sp_json_out;
SP_MUST_CHECK enum sp_status
sp_probe_render_messages(char **text, size_t *size, const struct sp_template *t,
                         struct sp_json_out *messages, const char *tools,
                         struct sp_template_input *in, struct sp_err *err);

/* The functions of the probes, as `tools`; owned by the caller. */
SP_MUST_CHECK enum sp_status sp_probe_tools(struct sp_json **out, struct sp_err *err);

/* The length of the common prefix of two texts, shortened so that it does not divide a <tag>. */
size_t sp_probe_same(const char *a, size_t n_a, const char *b, size_t n_b);

/* Copies a text without the whitespace at its ends, ids and numbers of calls replaced by
 * SP_TAG_ANY; false: it is too long for a tag. */
bool sp_probe_tag(char tag[SP_TAG_SIZE], const char *text, size_t size);

/* ---- what probes show (chat_learn_*.c) ---- */

/* Learns which conversations a template does not take, by rendering short ones of known words: a
 * conversation is taken if it is rendered and all of its words are in the text. */

/* *refused = the changes (enum sp_chat_change) that conversations need. Learning nothing is not an
 * error. SP_E_CHECK: the template exceeds a limit of work or memory. */
SP_MUST_CHECK enum sp_status sp_chat_learn_refusals(unsigned *refused, const struct sp_template *t,
                                                    const struct sp_chat_format *format,
                                                    struct sp_err *err);

/* Sets the format of tool calls in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_calls(struct sp_chat_format *out,
                                                 const struct sp_template *t, struct sp_err *err);

/* Sets the tags around reasoning in *out. */
SP_MUST_CHECK enum sp_status sp_chat_learn_reasoning(struct sp_chat_format *out,
                                                     const struct sp_template *t,
                                                     struct sp_err *err);

#endif
