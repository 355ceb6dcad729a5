/* The control groups of this process (cgroups(7)), versions 1 and 2. */
#ifndef SP_FORMAT_SYSTEM_CONTROL_GROUP_H
#define SP_FORMAT_SYSTEM_CONTROL_GROUP_H

/* Receives the folder of a group. */
typedef void sp_control_group_fn(void *context, const char *folder);

/* Calls fn for each group that `list` names and for those around it: in version 1 the groups of
 * `controller`, in version 2 all. In a container the path of a group may be the host's, of which
 * only the root is visible; folders need not exist. list: /proc/self/cgroup as text; root: where
 * the folders are, /sys/fs/cgroup. */
void sp_each_control_group(const char *list, const char *root, const char *controller,
                           sp_control_group_fn *fn, void *context);
/* sp_each_control_group with the list and the root of this process. */
void sp_each_own_control_group(const char *controller, sp_control_group_fn *fn, void *context);

#endif
