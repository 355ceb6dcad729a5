/* How to smooth a model's norms (format/weights/smoothing.h), from the statistics of its inputs. */
#ifndef SP_RUNTIME_MEASURE_MEASURE_SMOOTHING_H
#define SP_RUNTIME_MEASURE_MEASURE_SMOOTHING_H

#include "format/weights/smoothing.h"
#include "runtime/measure/input_stats.h"

/* Adds the norms of the pack's target, which has this config, whose inputs were observed. `stats`
 * are not solved. *out is released by the caller, on failure too. */
SP_MUST_CHECK enum sp_status sp_measure_smoothing(struct sp_smoothing *out,
                                                  const struct sp_input_stats *stats,
                                                  const struct sp_pack *pack,
                                                  const struct sp_config *config,
                                                  struct sp_err *err);

#endif
