/* POST /infill, llama-server's API by which editors complete the text between a prefix and a
 * suffix. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_INFILL_H
#define SP_CLI_SERVE_OPENAI_SERVE_INFILL_H

#include "cli/serve/jobs/serve.h"

extern const struct sp_serve_api sp_serve_infill;

#endif
