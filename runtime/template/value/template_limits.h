/* The limits of a template. */
#ifndef SP_RUNTIME_TEMPLATE_VALUE_TEMPLATE_LIMITS_H
#define SP_RUNTIME_TEMPLATE_VALUE_TEMPLATE_LIMITS_H

#include "runtime/spectool.h"

#include <stddef.h>
#include <stdint.h>

/* Templates are untrusted. The limits are generous for the largest published templates and long
 * conversations, and still mean seconds and megabytes, not hours and gigabytes. */
#define SP_TEMPLATE_MAX_TEXT ((size_t)1 << 20)  /* bytes of a template */
#define SP_TEMPLATE_MAX_TREE ((size_t)64 << 20) /* bytes of its parse tree */
#define SP_TEMPLATE_MAX_MEMORY ((size_t)128 << 20)
/* Memory of the JSON of messages, tools or variables. A request for a server takes half of it; what
 * was a text in it, the arguments of a call, may become an object here. */
#define SP_TEMPLATE_MAX_JSON ((size_t)128 << 20)
#define SP_TEMPLATE_MAX_WORK ((uint64_t)50 * 1000 * 1000) /* steps: a second or two */
/* Limits of the probes from which a chat format is learned: conversations of a few words, some
 * twenty of which are rendered. */
#define SP_TEMPLATE_PROBE_MEMORY (SP_TEMPLATE_MAX_MEMORY / 8)
#define SP_TEMPLATE_PROBE_WORK (SP_TEMPLATE_MAX_WORK / 20)
enum {
    SP_TEMPLATE_MAX_NESTING = 100, /* nested blocks or parentheses */
    SP_TEMPLATE_MAX_CALLS = 600,   /* nested evaluations, macros included */
};

#endif
