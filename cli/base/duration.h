/* Reads durations as ollama's clients and Go write them. */
#ifndef SP_CLI_BASE_DURATION_H
#define SP_CLI_BASE_DURATION_H

#include <stdbool.h>

/* *seconds = a duration such as "5m", "1h30m", "1.5s" or "300ms"; a number without a unit counts
 * seconds. A sign applies to the whole. Returns false if the text is not a duration. */
bool sp_duration_read(double *seconds, const char *text);

#endif
