/* What a user of the command can do about a failure that the library reports. */
#ifndef SP_CLI_BASE_ADVICE_H
#define SP_CLI_BASE_ADVICE_H

#include "format/base/err.h"

/* Puts the options that concern the failure's topic, if there are any, behind its sentence. A
 * failure gets them once. */
void sp_advise(struct sp_err *err);

#endif
