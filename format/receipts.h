/* Receipts: how the types of a packed file were chosen, kept in its own section (spectool-pack(5)).
 * A receipt names the digests of the parts that it is about; one of other weights, or of a kind
 * that only earlier versions wrote, counts as absent. */
#ifndef SP_FORMAT_RECEIPTS_H
#define SP_FORMAT_RECEIPTS_H

#include "format/json/json.h"
#include "format/packfile.h"

/* The kinds, as the member "kind" names them. */
extern const char sp_receipt_types[], sp_receipt_draft_type[];

/* *out = the receipts of a file, an array in the order in which they were added; owned by the
 * caller (sp_json_free); NULL: none. SP_E_INPUT: damaged. */
SP_MUST_CHECK enum sp_status sp_receipts_read(struct sp_json **out, const struct sp_pack *pack,
                                              struct sp_err *err);

/* *text = the section of a file with the parts `digests`: the receipts of the section `before`
 * that count and are not of the kind of an added one, and the `added` ones. Both sections may be
 * none. Digests of a missing draft are not used. *n_dropped = how many of `before` do not count. */
SP_MUST_CHECK enum sp_status sp_receipts_join(struct sp_text *text, size_t *n_dropped,
                                              const struct sp_text *before,
                                              const struct sp_text *added, size_t n_added,
                                              const struct sp_part_digests *digests,
                                              struct sp_err *err);

#endif
