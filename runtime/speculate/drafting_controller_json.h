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
#ifndef SP_RUNTIME_SPECULATE_DRAFTING_CONTROLLER_JSON_H
#define SP_RUNTIME_SPECULATE_DRAFTING_CONTROLLER_JSON_H

#include "format/base/strbuf.h"
#include "format/json/json.h"
#include "runtime/speculate/drafting_controller.h"

/* Whether enough was drafted since *c was initialized or read to be worth writing. */
bool sp_drafting_controller_json_is_new(const struct sp_drafting_controller *controller);

SP_MUST_CHECK enum sp_status sp_drafting_controller_json_write(
    struct sp_strbuf *out, const struct sp_drafting_controller *controller, struct sp_err *err);

/* Reads the statistics into a controller that has no rounds yet. If drafting did not pay by them it
 * begins paused, unless `retry`. On failure (SP_E_INPUT) the controller stays as it was. */
SP_MUST_CHECK enum sp_status
sp_drafting_controller_json_read(struct sp_drafting_controller *controller,
                                 const struct sp_json *statistics, bool retry, struct sp_err *err);

#endif
