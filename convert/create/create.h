/* The commands `create`, which packs the models of a Modelfile or models that are named without
 * one, and `quantize`, which packs the models of a packed file again, in other types.
 *
 * All inputs are checked before the output is begun, and the output appears complete or not at
 * all. The bytes written depend on the inputs and the requested types only, not on threads, time
 * or paths. Nothing is printed: messages for the user go through the callbacks. */
#ifndef SP_CONVERT_CREATE_CREATE_H
#define SP_CONVERT_CREATE_CREATE_H

#include "convert/create/create_report.h"
#include "convert/create/type_rules.h"
#include "convert/source/source_name.h"
#include "format/base/err.h"

#include <stdbool.h>

#define SP_CREATE_OUTPUT "packed.bin"

struct sp_create_options {
    const char *modelfile; /* NULL: "Modelfile" */
    const char *from;      /* value of FROM in place of a Modelfile; NULL: there is a Modelfile */
    const char *draft;     /* value of DRAFT, with `from` only; NULL: none */
    const char *output;    /* NULL: SP_CREATE_OUTPUT */
    const char *home;      /* what ~ stands for in FROM and DRAFT; NULL: itself */
    struct sp_source_stores stores; /* where FROM and DRAFT look for names that are not files */
    /* Returns an error for a TEMPLATE that cannot be run; NULL: the text is stored unchecked. */
    enum sp_status (*check_template)(const char *text, size_t size, struct sp_err *err);
    enum sp_dtype target_type;  /* SP_DTYPE_NONE: every tensor keeps its stored type */
    enum sp_dtype draft_type;   /* SP_DTYPE_NONE: every tensor of the draft keeps its type */
    enum sp_dtype output_type;  /* the target's embedding and head; NONE: as the policy chooses */
    struct sp_type_rules rules; /* types of single tensors of both parts */
    struct sp_budget budget;    /* chooses the types that nothing else does; target_type is NONE */
    const char *calibration;    /* a file for q2 to q8 matrices; NULL: none */
    unsigned n_threads;         /* 0: as many as there are */
    bool force;                 /* replace an existing output */
    bool dry_run;               /* check and plan, write nothing */
    bool only_read;             /* check, plan, read and convert every weight, write nothing */
    bool outline;     /* write an outline (format/packfile_write.h), for which no weight is read */
    bool allow_lossy; /* sp_requantize: quantized tensors may be quantized again */
    /* sp_requantize: members, after the digests, of a receipt of the draft's type
     * (spectool-pack(5)); NULL: none. With one, no type needs to be requested. */
    const char *draft_choice;
    struct sp_create_callbacks callbacks;
};

/* Packs the models of a Modelfile, or those of `from` and `draft`. *report may be NULL; it is
 * filled on success. */
SP_MUST_CHECK enum sp_status sp_create(struct sp_create_report *report,
                                       const struct sp_create_options *options, struct sp_err *err);

/* Packs the models of the packed file `from` again; a tensor without a new type is copied byte for
 * byte. Without an output the file is replaced, atomically. The members modelfile, draft, home,
 * stores and check_template are not read. *report is filled as by sp_create. */
SP_MUST_CHECK enum sp_status sp_requantize(struct sp_create_report *report,
                                           const struct sp_create_options *options,
                                           struct sp_err *err);

#endif
