/* The job of `create`, of `quantize` and, as far as its sources, of `export`. */
#ifndef SP_CONVERT_CREATE_CREATE_JOB_H
#define SP_CONVERT_CREATE_CREATE_JOB_H

#include "convert/create/create.h"
#include "convert/create/make_plan.h"

/* Valid when zeroed. sp_create_job_release frees what is owned. */
struct sp_create_job {
    struct sp_source target, draft; /* owned */
    struct sp_named_source named;   /* what the value of FROM stands for; owned */
    bool has_draft;
    struct sp_plan_inputs inputs; /* the user's options; the job sets sources and records */
    char *records;                /* [records_size] the text of the Modelfile's records; owned */
    size_t records_size;
    struct sp_made_plan made; /* owned */
    char *warnings;           /* sentences for the user, a line each; owned; NULL: none */
    const char *output;       /* borrowed */
    const char *draft_choice; /* of struct sp_create_options; borrowed; NULL: none */
    bool force, dry_run, only_read, outline;     /* of struct sp_create_options */
    bool in_place;                               /* the output is the source */
    unsigned n_threads;                          /* 0: as many as there are */
    const struct sp_create_callbacks *callbacks; /* borrowed */
};

/* Opens the model `from` of the options with its built-in head, or both parts of a packed file, and
 * makes or reads the records. The options are borrowed. *job needs a release on failure, too. */
SP_MUST_CHECK enum sp_status sp_create_job_open(struct sp_create_job *job,
                                                const struct sp_create_options *options,
                                                struct sp_err *err);

/* Checks that the sources fit each other, and passes on the warnings. */
SP_MUST_CHECK enum sp_status sp_create_job_check(struct sp_create_job *job, struct sp_err *err);

/* Checks the sources, plans, and writes the output, or shows the plan. *report may be NULL; it is
 * filled on success. */
SP_MUST_CHECK enum sp_status sp_create_job_run(struct sp_create_job *job,
                                               struct sp_create_report *report, struct sp_err *err);
void sp_create_job_release(struct sp_create_job *job);

/* Opens a source with the tables that its head shares. On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_create_open_source(struct sp_source *out, const char *path,
                                                   enum sp_part part, char **warnings,
                                                   struct sp_err *err);

#endif
