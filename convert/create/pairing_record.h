/* The pairing record of a packed file: what the draft is, how it is driven, and which target and
 * draft belong together, by the digests of their parts. A JSON section, defined in
 * spectool-pack(5). */
#ifndef SP_CONVERT_CREATE_PAIRING_RECORD_H
#define SP_CONVERT_CREATE_PAIRING_RECORD_H

#include "format/model/config.h"
#include "format/packfile.h"

/* The record's text for a draft and the digests of both parts. *text owned by the caller. */
SP_MUST_CHECK enum sp_status sp_pairing_record_print(char **text, size_t *size,
                                                     const struct sp_config *draft,
                                                     uint64_t target_digest, uint64_t draft_digest,
                                                     struct sp_err *err);

/* Checks that a file's pairing record names the parts that are in it. SP_OK if there is neither a
 * draft nor a record; SP_E_INPUT if there is only one of them or a digest differs. */
SP_MUST_CHECK enum sp_status sp_pairing_record_check(const struct sp_pack *pack,
                                                     struct sp_err *err);

#endif
