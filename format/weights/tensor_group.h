/* Groups of a model's matrices: those of one layer that do the same work. Sensitivities are
 * measured for groups (spectool-calibrate(1)), and a budget chooses one type for each group
 * (convert/create/budget.c). */
#ifndef SP_FORMAT_WEIGHTS_TENSOR_GROUP_H
#define SP_FORMAT_WEIGHTS_TENSOR_GROUP_H

#include "format/family/family.h"

/* In the order in which groups are listed. */
enum sp_group_kind {
    SP_GROUP_EMBEDDING,    /* also the output matrix when tied */
    SP_GROUP_ATTENTION,    /* queries and outputs; the projections of other mixers */
    SP_GROUP_KEY_VALUE,    /* keys and values */
    SP_GROUP_FEED_FORWARD, /* gate and up projections, of shared experts too */
    SP_GROUP_DOWN,         /* the down projections of these */
    SP_GROUP_EXPERTS,      /* gate and up projections of experts */
    SP_GROUP_EXPERTS_DOWN, /* down projections of experts */
    SP_GROUP_OUTPUT,       /* an output matrix of its own */
    SP_GROUP_OTHER,        /* everything that stays float; the feature projection of a draft */
    SP_N_GROUP_KINDS,
};

enum { SP_NO_LAYER = -1 };

struct sp_tensor_group {
    enum sp_group_kind kind;
    int layer; /* SP_NO_LAYER: outside of the layers, and always so for SP_GROUP_OTHER */
};

/* The group of a tensor with this canonical name. */
struct sp_tensor_group sp_tensor_group_of(const char *name, enum sp_role role);

/* Orders groups by kind and layer, as strcmp does for texts. */
int sp_tensor_group_compare(struct sp_tensor_group a, struct sp_tensor_group b);

/* "embedding", "attention", "key-value", "feed-forward", ...: the word used in files and in lists;
 * static. */
const char *sp_group_kind_name(enum sp_group_kind kind);
/* The kind with this name; false: there is none. */
bool sp_group_kind_find(enum sp_group_kind *out, const char *name);

#endif
