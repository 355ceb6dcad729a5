/* The order of tokens that a clustered head scores by is data that ids are looked up in: it is read
 * and checked before anything is written. */
#ifndef SP_CONVERT_TOKEN_ORDER_H
#define SP_CONVERT_TOKEN_ORDER_H

#include "convert/source.h"

/* SP_E_INPUT unless the source has none, or one that holds each id once. Its type is one that can
 * be read (the source has been planned). */
SP_MUST_CHECK enum sp_status sp_token_order_verify(const struct sp_source *source,
                                                   struct sp_err *err);

#endif
