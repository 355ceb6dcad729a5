/* Filters the text of an answer on its way to the caller. Text that may be the beginning of a stop
 * text is held back until it cannot be one. The rest goes to the result and the callbacks in order,
 * in runs that the draft wrote or did not, with the requested special tokens in place. */
#ifndef SP_RUNTIME_SESSION_STOP_FILTER_H
#define SP_RUNTIME_SESSION_STOP_FILTER_H

#include "runtime/spectool.h"

/* A special token after this many bytes of the text held back. */
struct sp_stop_filter_special {
    size_t at;
    uint32_t id;
};

/* Valid when zeroed except for the first two members. */
struct sp_stop_filter {
    const struct sp_request *request; /* stop texts and callbacks; borrowed */
    struct sp_result *result;         /* its text grows; borrowed */
    char *text;                       /* [size] text held back, owned */
    char *drafted;                    /* [size] nonzero: drafted; owned */
    size_t size, cap, cap_drafted, cap_result;
    struct sp_stop_filter_special *specials; /* [n_specials] in order, owned */
    size_t n_specials, cap_specials;
    bool is_stopped;       /* a stop text was found: further text is dropped */
    bool is_cancelled;     /* a callback cancelled: none is called again */
    struct sp_err failure; /* of the request's reader */
};
void sp_stop_filter_release(struct sp_stop_filter *filter);

/* Adds text of whole characters and passes on what cannot be part of a stop text. */
SP_MUST_CHECK enum sp_status sp_stop_filter_add(struct sp_stop_filter *filter, const char *text,
                                                size_t size, bool drafted, struct sp_err *err);
/* Records a special token at this place of the text. */
SP_MUST_CHECK enum sp_status sp_stop_filter_add_special(struct sp_stop_filter *filter, uint32_t id,
                                                        struct sp_err *err);
/* Adds the last text, which is part of no stop text, and passes on everything held back. The
 * result's text is not NULL afterwards. */
SP_MUST_CHECK enum sp_status sp_stop_filter_end(struct sp_stop_filter *filter, const char *text,
                                                size_t size, struct sp_err *err);

#endif
