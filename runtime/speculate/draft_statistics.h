/* The statistics of drafting as JSON text, by which a process begins with what an earlier one
 * learned of the same pair on the same machine:
 *
 *   {"version": 1,
 *    "verify": [[rows, seconds, timings], ...], "draft": [[tokens, seconds, timings], ...],
 *    "catch_up": [tokens, seconds],
 *    "accepted": [[position, tried, accepted], ...],
 *    "confidence": [a, b, h_aa, h_ab, h_bb],
 *    "drafted": [tokens, seconds]}
 *
 * Rows are those of a pass beyond the first. Times change with the load of the machine and
 * acceptance with the text, so what is read counts no more than a few rounds. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_STATISTICS_H
#define SP_RUNTIME_SPECULATE_DRAFT_STATISTICS_H

#include "format/base/json.h"
#include "format/base/strbuf.h"
#include "runtime/speculate/draft_batch.h"

/* Whether enough was drafted since *batch was initialized or read to be worth writing. */
bool sp_draft_statistics_are_new(const struct sp_draft_batch *batch);

SP_MUST_CHECK enum sp_status sp_draft_statistics_write(struct sp_strbuf *out,
                                                       const struct sp_draft_batch *batch,
                                                       struct sp_err *err);

/* Reads the statistics into a batch that has no rounds yet. If drafting did not pay by them it
 * begins paused, unless `retry`. On failure (SP_E_INPUT) the batch stays as it was. */
SP_MUST_CHECK enum sp_status sp_draft_statistics_read(struct sp_draft_batch *batch,
                                                      const struct sp_json *statistics, bool retry,
                                                      struct sp_err *err);

#endif
