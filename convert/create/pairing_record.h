/* The pairing record of a packed file: the kind of the draft, how the draft is driven, and the
 * digests of the target and the draft that belong together. The record is a JSON section, defined
 * in spectool-pack(5). */
#ifndef SP_CONVERT_CREATE_PAIRING_RECORD_H
#define SP_CONVERT_CREATE_PAIRING_RECORD_H

#include "format/config/config.h"
#include "format/packfile.h"
#include "format/packfile_write.h"

/* Prints the record for a draft and the digests of the two parts. */
SP_MUST_CHECK enum sp_status sp_pairing_record_print(struct sp_text *text,
                                                     const struct sp_config *draft,
                                                     uint64_t target_digest, uint64_t draft_digest,
                                                     struct sp_err *err);

/* Writes the record as a section of a file. */
SP_MUST_CHECK enum sp_status sp_pairing_record_put(struct sp_pack_writer *w,
                                                   const struct sp_config *draft,
                                                   uint64_t target_digest, uint64_t draft_digest,
                                                   struct sp_err *err);
/* The same with the digests of the tensors that were written. */
SP_MUST_CHECK enum sp_status sp_pairing_record_write(struct sp_pack_writer *w,
                                                     const struct sp_config *draft,
                                                     struct sp_err *err);

/* Checks that a file's pairing record names the parts that are in it. SP_OK if there is neither a
 * draft nor a record; SP_E_INPUT if there is only one of them or a digest differs. */
SP_MUST_CHECK enum sp_status sp_pairing_record_check(const struct sp_pack *pack,
                                                     struct sp_err *err);

#endif
