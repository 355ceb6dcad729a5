/* Opens the models of the server: describes the packed files of the command line, and opens one of
 * them when a request names it. A file that was replaced is described again. */
#ifndef SP_CLI_SERVE_SERVE_OPENER_H
#define SP_CLI_SERVE_SERVE_OPENER_H

#include "cli/serve/jobs/serve.h"
#include "cli/serve/jobs/serve_folder.h"

struct sp_serve_opener {
    struct sp_serve *serve;
    struct sp_serve_model_options options;
    struct sp_serve_paths paths; /* of the packed files; owned */
    bool verbose;                /* print settings and tags of each model that is opened */
    bool no_cache;               /* neither read nor keep statistics of drafting */
};

/* Sets the models of o->serve, one for each path; `limits` has the limits and no callbacks.
 * A file that cannot be served is left out with a note unless the command line names it.
 * SP_E_USAGE: two models have one name. The caller calls sp_serve_opener_close also on failure. */
SP_MUST_CHECK enum sp_status sp_serve_opener_open(struct sp_serve_opener *o,
                                                  const struct sp_opt_list *names,
                                                  const struct sp_serve_models_options *limits,
                                                  struct sp_err *err);
/* Closes all models, which nobody may use, and releases the paths. */
void sp_serve_opener_close(struct sp_serve_opener *o);

#endif
