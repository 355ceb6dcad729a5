/* The two commands that write packed files, as functions: create (Modelfile to packed file) and
 * requantize (packed file to packed file). Each makes a plan over its sources and runs the same
 * executor.
 *
 * All inputs are checked before the output is begun, and the output appears complete or not at
 * all. The bytes written depend on the inputs and the requested types only, not on threads, time
 * or paths. Nothing is printed: messages for the user go through the callbacks. */
#ifndef SP_CONVERT_CREATE_CREATE_H
#define SP_CONVERT_CREATE_CREATE_H

#include "convert/create/type_rules.h"
#include "convert/source/source_name.h"
#include "format/dtype.h"
#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Callbacks of the caller. Every member may be NULL. They are called from the calling thread only.
 */
struct sp_create_callbacks {
    void *context;
    /* Receives one sentence for the user, without newline: for example a record that is stored but
     * has no effect, or tensors that were left out. */
    void (*note)(void *context, const char *sentence);
    /* Receives the heading, one line of the plan per tensor, an empty line and the table of groups
     * (several lines in one text), without last newline; only with dry_run. */
    void (*plan)(void *context, const char *line);
    /* Receives the bytes of the sources read so far and in total. A nonzero result cancels: the
     * unfinished output is removed and SP_E_CHECK ("cancelled") is returned. */
    int (*progress)(void *context, uint64_t done, uint64_t total);
};

/* A budget of bytes, for which the target's types are chosen. Valid when zeroed: none. */
struct sp_budget {
    uint64_t size; /* bytes of the whole file; 0: no limit */
    double bits;   /* per weight of the target; 0: no limit; not both */
};

#define SP_CREATE_OUTPUT "packed.bin"

struct sp_create_options {
    const char *modelfile; /* NULL: "Modelfile" */
    const char *from;      /* value of FROM in place of a Modelfile; NULL: there is a Modelfile */
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
    const char *calibration;    /* a file for the target's q2 to q6 matrices; NULL: none */
    unsigned n_threads;         /* 0: as many as there are */
    bool force;                 /* replace an existing output */
    bool dry_run;               /* check and plan, write nothing */
    struct sp_create_callbacks callbacks;
};

struct sp_requantize_options {
    const char *input;
    const char *output;        /* NULL: the input is replaced, atomically */
    enum sp_dtype target_type; /* SP_DTYPE_NONE: copied byte for byte */
    enum sp_dtype draft_type;
    enum sp_dtype output_type;
    struct sp_type_rules rules;
    struct sp_budget budget;
    const char *calibration;
    unsigned n_threads;
    bool force;
    bool dry_run;
    bool allow_lossy; /* --requantize: quantized tensors may be quantized again */
    /* Members, after the digests, of a receipt of the draft's type (spectool-pack(5)); NULL: none.
     * With one, no type needs to be requested. */
    const char *draft_choice;
    struct sp_create_callbacks callbacks;
};

/* Matrices that keep more bits than the type that was requested for the target. */
struct sp_create_kept {
    enum sp_dtype type; /* of one of them */
    uint64_t size;      /* bytes; 0: there are none */
};

/* The sizes of the file that was written, or that would be written without dry_run. */
struct sp_create_report {
    uint64_t n_tensors[3];     /* by enum sp_part */
    uint64_t n_weights[3];     /* elements */
    uint64_t source_size[3];   /* bytes of the tensors in the sources */
    uint64_t size[3];          /* bytes of the tensors in the packed file */
    uint64_t file_size;        /* 0 with dry_run */
    double predicted_kl;       /* by measured sensitivities, nats per token; 0: none, or unknown */
    enum sp_dtype target_type; /* as requested */
    struct sp_create_kept kept_tables, kept_key_values; /* embedding and head; keys and values */
};

/* Packs the models of a Modelfile. *report may be NULL; it is filled on success. */
SP_MUST_CHECK enum sp_status sp_create(struct sp_create_report *report,
                                       const struct sp_create_options *options, struct sp_err *err);
/* Packs the models of a packed file again, in other types. *report may be NULL; it is filled on
 * success. */
SP_MUST_CHECK enum sp_status sp_requantize(struct sp_create_report *report,
                                           const struct sp_requantize_options *options,
                                           struct sp_err *err);

#endif
