/* What a packed file will hold, decided before any weight is read.
 *
 * A plan is a pure function of the sources' headers and of the types asked for: one item per
 * tensor, in the file's order, with the rule that chose its type. The executor only carries it out.
 */
#ifndef SP_CONVERT_CREATE_PLAN_H
#define SP_CONVERT_CREATE_PLAN_H

#include "convert/source/source.h"
#include "format/pack_contents.h"
#include "quantize/policy.h"

struct sp_plan_item {
    const struct sp_source *source;    /* borrowed */
    const struct sp_tensor_spec *spec; /* borrowed from the source */
    enum sp_part part;
    enum sp_dtype from, to;
    enum sp_layout layout;
    const char *rule;         /* static */
    const char *coding;       /* of a source that is quantized already, else NULL; static */
    bool small_codes;         /* 4-bit codes of a checkpoint, which q8 holds exactly */
    bool merged;              /* with what an adapter changes */
    const uint8_t *bytes;     /* copied as they are; NULL: converted */
    const float *calibration; /* q4: numbers of quantize/gptq.h, borrowed; NULL: none */
    uint64_t source_size, size;
};

/* Zeroed: empty. */
struct sp_plan {
    struct sp_plan_item *items; /* by part and name; owned */
    size_t n_items, cap_items;
};

/* Appends a source's tensors as `part`; the target before the draft. `allow_lossy`: a quantized
 * tensor may be quantized again. Refusals name the tensor. */
SP_MUST_CHECK enum sp_status sp_plan_add(struct sp_plan *plan, const struct sp_source *source,
                                         enum sp_part part, const struct sp_policy_request *request,
                                         bool allow_lossy, struct sp_err *err);
void sp_plan_release(struct sp_plan *plan);

/* A line of text for an item, and the heading above them. *line owned by the caller. */
SP_MUST_CHECK enum sp_status sp_plan_line(char **line, const struct sp_plan_item *item,
                                          struct sp_err *err);
const char *sp_plan_heading(void);

#endif
