/* What a template may use up. */
#ifndef SP_RUNTIME_TEMPLATE_TEMPLATE_LIMITS_H
#define SP_RUNTIME_TEMPLATE_TEMPLATE_LIMITS_H

#include "runtime/spectool.h"

#include <stddef.h>
#include <stdint.h>

/* Templates come from strangers: generous for the largest published ones and long conversations,
 * and still seconds and megabytes, not hours and gigabytes. */
#define SP_TEMPLATE_MAX_TEXT ((size_t)1 << 20)  /* bytes of a template */
#define SP_TEMPLATE_MAX_TREE ((size_t)64 << 20) /* bytes of its parse tree */
#define SP_TEMPLATE_MAX_MEMORY ((size_t)256 << 20)
#define SP_TEMPLATE_MAX_WORK ((uint64_t)50 * 1000 * 1000) /* a second or two */
enum {
    SP_TEMPLATE_MAX_NESTING = 100, /* blocks in blocks, parentheses in parentheses */
    SP_TEMPLATE_MAX_CALLS = 600,   /* evaluation inside evaluation, macros included */
};

#endif
