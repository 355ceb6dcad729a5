/* Text of an answer on its way to the caller. What may be the beginning of a stop text waits until
 * it cannot be; the rest goes out in the order in which it came, into the result and to the
 * callbacks, in pieces of one writer, with the special tokens that the caller wants to know of at
 * their places among it. */
#ifndef SP_RUNTIME_SESSION_STOP_FILTER_H
#define SP_RUNTIME_SESSION_STOP_FILTER_H

#include "runtime/spectool.h"

/* Behind so many bytes of the text that waits. */
struct sp_stop_filter_mark {
    size_t at;
    uint32_t id;
};

/* Valid with the first two alone. */
struct sp_stop_filter {
    const struct sp_request *request; /* stop texts, and whom to tell; borrowed */
    struct sp_result *result;         /* whose text grows; borrowed */
    char *text;                       /* [size] what waits, owned */
    char *drafted;                    /* parallel to text: written by the draft? owned */
    size_t size, cap, cap_drafted, cap_result;
    struct sp_stop_filter_mark *checkpoints; /* [n_marks] in order, owned */
    size_t n_marks, cap_marks;
    bool is_stopped;   /* a stop text came: what follows is dropped */
    bool is_cancelled; /* a callback wants no more: none is called */
};
void sp_stop_filter_release(struct sp_stop_filter *held);

/* Adds text, whole characters, and tells what is certain. */
SP_MUST_CHECK enum sp_status sp_stop_filter_add(struct sp_stop_filter *held, const char *text,
                                                size_t size, bool drafted, struct sp_err *err);
/* A special token stands here. */
SP_MUST_CHECK enum sp_status sp_stop_filter_set_mark(struct sp_stop_filter *held, uint32_t id,
                                                     struct sp_err *err);
/* Adds the last text, which is in no stop text, and tells all that waits. The result has a text
 * then, be it an empty one. */
SP_MUST_CHECK enum sp_status sp_stop_filter_end(struct sp_stop_filter *held, const char *text,
                                                size_t size, struct sp_err *err);

#endif
