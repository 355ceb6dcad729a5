/* `create --quantize-draft auto`: the fastest type of the draft, by its acceptance and by the bytes
 * that a round reads from memory, for no time may enter the file. */
#ifndef SP_CLI_CREATE_AUTO_DRAFT_H
#define SP_CLI_CREATE_AUTO_DRAFT_H

#include "cli/base/opt.h"
#include "convert/create/create.h"

/* Built-in texts, of some forty tokens each. */
enum { SP_N_CREATE_TEXTS = 6 };
extern const char *const sp_create_texts[SP_N_CREATE_TEXTS];

/* Creates the packed file that `options` describe, with the type of its draft chosen on the texts
 * of the files `texts` or, without any, on built-in ones; the trials and the reason go to stderr
 * and into a receipt. options->draft_type is NONE. With dry_run, prints what would be measured. */
SP_MUST_CHECK enum sp_status sp_create_auto_draft(struct sp_create_report *report,
                                                  const struct sp_create_options *options,
                                                  const struct sp_opt_list *texts,
                                                  const char *command, struct sp_err *err);

#endif
