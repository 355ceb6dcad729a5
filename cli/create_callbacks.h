/* What `create` and `quantize` have in common: types by name, where notes, plan and progress go,
 * and the report at the end. */
#ifndef SP_CLI_CREATE_CALLBACKS_H
#define SP_CLI_CREATE_CALLBACKS_H

#include "cli/commands.h"
#include "cli/base/out.h"
#include "convert/create/create.h"
#include "format/base/pool.h"

struct sp_create_listener {
    const char *command;
    struct sp_progress progress;
};

/* SP_DTYPE_NONE for NULL; `name` is one of sp_cmd_types. */
enum sp_dtype sp_create_type(const char *name);

/* Fills the sinks; from here on a signal cancels the work. `listener` must outlive them. */
void sp_create_attach(struct sp_create_callbacks *callbacks, struct sp_create_listener *listener);

/* One table on stderr: what each part weighed and weighs. */
void sp_create_print_report(const struct sp_create_report *report, const char *path);

#endif
