/* Finds out that a sequence repeats a few tokens without end, as answers of small models do. */
#ifndef SP_CLI_CHAT_REPETITION_H
#define SP_CLI_CHAT_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A repetition spans four periods and at least half of SP_REPETITION_SPAN tokens, and its period is
 * a fourth of SP_REPETITION_SPAN at most. */
enum { SP_REPETITION_SPAN = 256 };

/* Valid when zeroed. */
struct sp_repetition {
    uint32_t ids[SP_REPETITION_SPAN]; /* the last tokens, a ring */
    size_t n;                         /* tokens so far */
    size_t period;                    /* of the repetition; 0: none was found */
};

/* Adds a token. True once, when the sequence is found to repeat itself. */
bool sp_repetition_add(struct sp_repetition *repetition, uint32_t id);

#endif
