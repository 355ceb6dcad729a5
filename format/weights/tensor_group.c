#include "format/weights/tensor_group.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SP_N_GROUP_KINDS] = {
    [SP_GROUP_EMBEDDING] = "embedding",
    [SP_GROUP_ATTENTION] = "attention",
    [SP_GROUP_KEY_VALUE] = "key-value",
    [SP_GROUP_FEED_FORWARD] = "feed-forward",
    [SP_GROUP_DOWN] = "down",
    [SP_GROUP_EXPERTS] = "experts",
    [SP_GROUP_EXPERTS_DOWN] = "experts-down",
    [SP_GROUP_OUTPUT] = "output",
    [SP_GROUP_OTHER] = "other",
};

static enum sp_group_kind kind_of_mlp(const char *name)
{
    static const char down[] = "down_proj.weight";
    size_t len = strlen(name), n = sizeof down - 1;
    bool is_down = len > n && strcmp(name + len - n, down) == 0;

    if (strstr(name, ".experts.")) return is_down ? SP_GROUP_EXPERTS_DOWN : SP_GROUP_EXPERTS;
    return is_down ? SP_GROUP_DOWN : SP_GROUP_FEED_FORWARD;
}

static enum sp_group_kind kind_of(const char *name, enum sp_role role)
{
    switch (role) {
    case SP_ROLE_EMBEDDING:
        return SP_GROUP_EMBEDDING;
    case SP_ROLE_HEAD:
        return SP_GROUP_OUTPUT;
    case SP_ROLE_ATTENTION:
        return SP_GROUP_ATTENTION;
    case SP_ROLE_KEY_VALUE:
        return SP_GROUP_KEY_VALUE;
    case SP_ROLE_MLP:
        return kind_of_mlp(name);
    default:
        return SP_GROUP_OTHER;
    }
}

struct sp_tensor_group sp_tensor_group_of(const char *name, enum sp_role role)
{
    static const char prefix[] = "layers.";
    struct sp_tensor_group group = {kind_of(name, role), SP_NO_LAYER};
    unsigned long layer;

    if (group.kind == SP_GROUP_OTHER || strncmp(name, prefix, sizeof prefix - 1) != 0) return group;
    layer = strtoul(name + sizeof prefix - 1, NULL, 10);
    if (layer <= INT_MAX) group.layer = (int)layer;
    return group;
}

int sp_tensor_group_compare(struct sp_tensor_group a, struct sp_tensor_group b)
{
    if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
    return (a.layer > b.layer) - (a.layer < b.layer);
}

const char *sp_group_kind_name(enum sp_group_kind kind)
{
    return names[kind];
}

bool sp_group_kind_find(enum sp_group_kind *out, const char *name)
{
    for (int i = 0; i < SP_N_GROUP_KINDS; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (enum sp_group_kind)i;
        return true;
    }
    return false;
}
