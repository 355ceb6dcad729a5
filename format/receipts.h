/* Receipts: what was measured of a packed file's weights, or how their types were chosen, kept in
 * its own section (spectool-pack(5)). A receipt names the digests of the parts that it is about, so
 * that it cannot outlive them: a file with a receipt of other weights is refused.
 *
 * Receipts are JSON objects whose members and their order are fixed for each kind. A new one is
 * written by its source; this file checks, joins and keeps. */
#ifndef SP_FORMAT_RECEIPTS_H
#define SP_FORMAT_RECEIPTS_H

#include "format/base/json.h"
#include "format/packfile.h"

enum { SP_RECEIPTS_MAX = 1000 };

/* The kinds, as the member "kind" names them. */
extern const char sp_receipt_evaluation[], sp_receipt_drafting[], sp_receipt_types[],
    sp_receipt_draft_type[];

/* The digests of a file's parts (sp_pack_part_digest); those of a missing draft are not used. */
struct sp_part_digests {
    uint64_t target, draft;
};
SP_MUST_CHECK enum sp_status sp_part_digests_of(struct sp_part_digests *out,
                                                const struct sp_pack *pack, struct sp_err *err);

/* *out = the receipts of a file, an array in the order in which they were added; owned by the
 * caller (sp_json_free); NULL: none. SP_E_INPUT: damaged, or about other weights. */
SP_MUST_CHECK enum sp_status sp_receipts_read(struct sp_json **out, const struct sp_pack *pack,
                                              struct sp_err *err);
/* *out = the receipts in the text of a section, as sp_receipts_read returns those of a file. */
SP_MUST_CHECK enum sp_status sp_receipts_parse(struct sp_json **out, const char *text, size_t size,
                                               const struct sp_part_digests *digests,
                                               struct sp_err *err);

/* *text = the section of a file with the parts `digests`: those of `receipts` (NULL: none) that are
 * about these parts, and `added` (NULL: none) behind them or in place of the receipt of the same
 * measurement; owned by the caller, NULL if there is none. *n_dropped = how many are about other
 * weights. SP_E_UNSUPPORTED: too many. */
SP_MUST_CHECK enum sp_status sp_receipts_join(char **text, size_t *size, size_t *n_dropped,
                                              const struct sp_json *receipts, const char *added,
                                              const struct sp_part_digests *digests,
                                              struct sp_err *err);

/* Replaces *text, the section of a file with these parts or NULL, by one that has `receipt`, too,
 * in place of that of the same measurement if there is one. */
SP_MUST_CHECK enum sp_status sp_receipts_add(char **text, size_t *size, const char *receipt,
                                             const struct sp_part_digests *digests,
                                             struct sp_err *err);

#endif
