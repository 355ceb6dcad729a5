/* The commands `create`, which packs the models of a Modelfile or models that are named without
 * one, and `quantize`, which packs the models of a packed file again, in other types.
 *
 * All inputs are checked before the output is begun, and the output appears complete or not at
 * all. The bytes written depend on the inputs and the requested types only, not on threads, time
 * or paths. Nothing is printed: messages for the user go through the callbacks. */
#ifndef SP_CONVERT_CREATE_CREATE_H
#define SP_CONVERT_CREATE_CREATE_H

#include "convert/source/source_name.h"
#include "format/base/err.h"
#include "format/dtype.h"
#include "format/pack_contents.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_CREATE_OUTPUT "packed.bin"

/* Callbacks of the caller. Every member may be NULL. They are called from its thread only. */
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
 * target: KL divergences from the unquantized model, in nats per token. Zeroed: nothing. */
struct sp_budget_check {
    enum sp_dtype uniform; /* largest type for all of the target that fits; NONE: unknown */
    bool keeps_uniform;    /* the file has this type, and no receipt */
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

/* Rules of the user for the types of single tensors. The text is "PATTERN=TYPE" and is cut at the
 * last '='. PATTERN is a pattern of fnmatch(3) for canonical names of the target's tensors or, with
 * "draft:" in front, of the draft's. */
struct sp_type_rule {
    const char *text; /* as the user wrote it; borrowed; it is the rule that the plan names */
    enum sp_dtype type;
};

struct sp_type_rules {
    struct sp_type_rule *rules; /* [n]; of those that match a tensor, the last decides */
    size_t n;
};

/* The first rule for this part; NULL: there is none. */
const struct sp_type_rule *sp_type_rules_first(const struct sp_type_rules *rules,
                                               enum sp_part part);

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
    uint64_t shard_size; /* sp_export: bytes of tensors in a file, at most; 0: SP_EXPORT_SHARD */
    bool force;          /* replace an existing output */
    bool dry_run;        /* check and plan, write nothing */
    bool only_read;      /* check, plan, read and convert every weight, write nothing */
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
