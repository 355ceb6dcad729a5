/* Tables of token ids are data that ids are looked up in: the order that a clustered head scores
 * by, and the map of an EAGLE-3 draft's vocabulary. They are read and checked before anything is
 * written. */
#ifndef SP_CONVERT_SOURCE_VOCAB_TABLES_H
#define SP_CONVERT_SOURCE_VOCAB_TABLES_H

#include "convert/source/source.h"

/* SP_E_INPUT unless what the source has of them is right: an order that holds each id once, a map
 * to ascending ids. Their type is one that can be read (the source has been planned). */
SP_MUST_CHECK enum sp_status sp_vocab_tables_verify(const struct sp_source *source,
                                                    struct sp_err *err);

#endif
