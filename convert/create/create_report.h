/* What the commands that write models share with their caller: callbacks, a budget of bytes, and
 * the report. */
#ifndef SP_CONVERT_CREATE_CREATE_REPORT_H
#define SP_CONVERT_CREATE_CREATE_REPORT_H

#include "format/dtype.h"

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
    /* Receives the table of tensors, an empty line and the table of groups, each text without its
     * last newline; only with dry_run. A tab is where a row may be broken. */
    void (*plan)(void *context, const char *text);
    /* Receives the bytes of the sources read so far and in total. A nonzero result cancels: the
     * unfinished output is removed and SP_E_CANCELLED is returned. */
    int (*progress)(void *context, uint64_t done, uint64_t total);
};

/* What was measured of the types that were chosen for a budget and of one type for all of the
 * target: KL divergences from the unquantized model, in nats per token. Valid when zeroed: nothing.
 */
struct sp_budget_check {
    enum sp_dtype
        uniform;        /* the largest type for all of the target that fits; NONE: not measured */
    bool keeps_uniform; /* the file has this type, and no receipt */
    double chosen_kl, uniform_kl;
    double predicted_kl; /* of the chosen types; 0: unknown */
};

/* A budget of bytes, for which the target's types are chosen. Valid when zeroed: none. */
struct sp_budget {
    uint64_t size;                /* bytes of the whole file; 0: no limit */
    double bits;                  /* per weight of the target; 0: no limit; not both */
    bool no_check;                /* for the caller: the types are not measured */
    struct sp_budget_check check; /* of the types, which are not chosen anew if it was made */
};

/* Matrices that keep more bits than the type that was requested for the target. */
struct sp_create_kept {
    enum sp_dtype type; /* of one of them */
    uint64_t size;      /* bytes; 0: there are none */
};

/* The sizes of the file that was written, or that would be written without dry_run. */
struct sp_create_report {
    uint64_t n_tensors[3];        /* by enum sp_part */
    uint64_t n_weights[3];        /* elements */
    uint64_t source_size[3];      /* bytes of the tensors in the sources */
    uint64_t size[3];             /* bytes of the tensors in the packed file */
    uint64_t file_size;           /* 0 with dry_run */
    enum sp_dtype uniform;        /* with a budget: the largest for all that may fit; NONE: none */
    struct sp_budget_check check; /* as in the options */
    double predicted_kl;       /* by measured sensitivities, nats per token; 0: none, or unknown */
    enum sp_dtype target_type; /* as requested */
    bool embeds;               /* the target makes embeddings or scores, and no text */
    struct sp_create_kept kept_tables, kept_key_values; /* embedding and head; keys and values */
    struct sp_create_kept kept_widths; /* matrices of the target with an odd width, in any type */
    size_t n_kept_widths, n_blocks;    /* their number, and that of the target's in block types */
};

#endif
