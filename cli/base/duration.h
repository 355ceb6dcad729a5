/* Reads durations as ollama's clients and Go write them. */
#ifndef SP_CLI_BASE_DURATION_H
#define SP_CLI_BASE_DURATION_H

#include <stdbool.h>

/* The longest duration in seconds: clocks can add it to their time. */
#define SP_DURATION_MAX 1e12

/* *seconds = a duration such as "5m", "1h30m", "1.5s" or "300ms"; a number without a unit counts
 * seconds. A sign applies to the whole. Returns false if the text is not a duration, or is longer
 * than SP_DURATION_MAX. */
bool sp_duration_read(double *seconds, const char *text);

#endif
