/* Conversations of known words, rendered: what a template writes of an answer. For learning how
 * answers are written alone. */
#ifndef SP_RUNTIME_CHAT_CHAT_PROBE_H
#define SP_RUNTIME_CHAT_CHAT_PROBE_H

#include "runtime/chat/chat_format.h"

/* The words. Arguments of a call: {"kqa": "vqx", "kqb": "vqy", "kqc": 73519}. */
#define SP_PROBE_NAME "fnzq"        /* of the first function, */
#define SP_PROBE_SECOND_NAME "gnzq" /* and of the second */
#define SP_PROBE_CONTENT "Contqz"
#define SP_PROBE_REASONING "Thouqz"
#define SP_PROBE_IDS                                                                               \
    {                                                                                              \
        "call12345", "call67890"                                                                   \
    }
enum { SP_PROBE_ARGUMENTS = 3 };
extern const char *const sp_probe_keys[SP_PROBE_ARGUMENTS], *const sp_probe_values[];

enum sp_probe_answer {
    SP_PROBE_NONE, /* the answer is asked for */
    SP_PROBE_PLAIN,
    SP_PROBE_REASONING_ALONE, /* with its thought in a member of its own, */
    SP_PROBE_REASONING_PARTS, /* or in a part of its content */
    SP_PROBE_CALLS,
};

struct sp_probe {
    enum sp_probe_answer answer;
    bool tools; /* the model is shown the functions */
    bool think, is_think_set;
    unsigned n_calls;                  /* 1 or 2 */
    bool text_arguments, null_content; /* of calls */
};

/* *text: what follows the question, owned by the caller; with `whole` all there is. NULL where the
 * template does not render it: that is an answer, too. */
SP_MUST_CHECK enum sp_status sp_probe_render(char **text, const struct sp_template *t,
                                             const struct sp_probe *probe, bool whole,
                                             struct sp_err *err);

/* The functions, as `tools`; owned by the caller. */
SP_MUST_CHECK enum sp_status sp_probe_tools(struct sp_json **out, struct sp_err *err);

/* Bytes that two texts begin with alike, cut back so that no <mark> is cut. */
size_t sp_probe_same(const char *a, size_t n_a, const char *b, size_t n_b);

/* Copies a text without the blanks at its ends, ids of calls and numbers in it as SP_TAG_ANY;
 * false: it is too long for a mark. */
bool sp_probe_tag(char tag[SP_TAG_SIZE], const char *text, size_t size);

#endif
