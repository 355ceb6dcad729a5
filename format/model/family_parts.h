/* What family*.c share; not for anybody else. */
#ifndef SP_FORMAT_MODEL_FAMILY_PARTS_H
#define SP_FORMAT_MODEL_FAMILY_PARTS_H

#include "format/model/family.h"
#include "format/model/family_table.h"

enum {
    SP_SPEC_NAME = 128,     /* longest canonical name, its end included */
    SP_SOURCE_NAME = 256,   /* the same of a name in a checkpoint that is looked for */
    SP_MAX_FINDINGS = 1000, /* a config that calls for far more than there is: enough is enough */
    SP_MAX_PUBLISHED = 1 << 20, /* tensors of a checkpoint that is made: ten times those of any */
};

/* What is wrong with a checkpoint: the first few findings as text, and how many there are. */
struct sp_findings {
    char text[700];
    size_t len, n, n_shown;
};

/* The tensors that a checkpoint should have; one that holds several canonical ones comes several
 * times. */
struct sp_published_list {
    struct sp_source_tensor *all; /* names borrowed from the specs; owned */
    size_t n, cap;
};

/* A checkpoint being matched with a config. All pointers are borrowed, but for what specs hold. */
struct sp_tensor_match {
    struct sp_specs *specs;
    struct sp_config *config;
    unsigned storage;                       /* enum sp_storage */
    const struct sp_source_tensor **sorted; /* by name, [n] */
    bool *used;                             /* [n] */
    size_t n;
    const char *prefix;     /* of the text model's tensors */
    const char *head_name;  /* NULL: there is none */
    const char *only_layer; /* what the names of layer 0 have in place of "layers.0."; or NULL */
    bool embedding_is_head; /* the file has the head only, which is both */
    struct sp_published_list *published; /* nothing is matched: names are made up; or NULL */
    struct sp_findings findings;
    struct sp_err *err;
};

/* *out = a copy that lives as long as the specs. */
SP_MUST_CHECK enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs,
                                                 const char *text, struct sp_err *err);

/* Takes these tensors in: allocates sorted and used. The matcher's other members are set already.
 */
SP_MUST_CHECK enum sp_status sp_tensor_match_init(struct sp_tensor_match *m,
                                                  const struct sp_source_tensor *tensors, size_t n);
void sp_tensor_match_release(struct sp_tensor_match *m); /* not the specs */

/* Of a built-in prediction head: beside the text model, whatever that one's prefix is. */
#define SP_MTP_PREFIX "mtp."

/* One canonical vector; a checkpoint stores the norm of each tap apart, as fc_norm.N.weight. */
#define SP_TAP_NORMS "fc_norm.weight"

/* What the embedding is called where sublayers are mixers (SP_STORED_MIXER). */
#define SP_MIXER_EMBEDDING "embeddings.weight"

/* SP_E_INPUT with the findings, if there are any. */
SP_MUST_CHECK enum sp_status sp_tensor_match_conclude(const struct sp_tensor_match *m);

/* Index into m->sorted; m->n when there is no such tensor. */
size_t sp_tensor_match_find(const struct sp_tensor_match *m, const char *name);
bool sp_tensor_match_has(const struct sp_tensor_match *m, const char *prefix, const char *name);

/* Adds a finding; the matching goes on. */
void sp_tensor_match_report(struct sp_tensor_match *m, const char *format, ...) SP_PRINTF(2, 3);

/* A tensor that must be there in this shape; *found or not, the matching goes on. */
SP_MUST_CHECK enum sp_status sp_tensor_match_claim(bool *found, struct sp_tensor_match *m,
                                                   const char *name, const uint64_t *shape,
                                                   unsigned rank);
/* A piece of a canonical tensor out of the source tensor `name`. */
SP_MUST_CHECK enum sp_status sp_tensor_match_add(struct sp_tensor_match *m,
                                                 struct sp_tensor_spec *spec, const char *name,
                                                 struct sp_row_span span);

/* Finds the pieces of one canonical tensor; what is missing or misshapen is reported. */
SP_MUST_CHECK enum sp_status sp_tensor_match_place(struct sp_tensor_match *m,
                                                   struct sp_tensor_spec *spec);

/* ---- family_rows.c ---- */

/* How a source tensor holds a canonical one. */
enum sp_response_format {
    SP_FORM_WHOLE,         /* as it is, maybe under another name */
    SP_FORM_QKV,           /* rows of q, k, v; `part` says which */
    SP_FORM_GATE_UP,       /* rows of gate, up */
    SP_FORM_EACH,          /* one tensor for each expert */
    SP_FORM_HALVES,        /* [E, 2I, H]: rows of gate, up for each expert */
    SP_FORM_ALTERNATE,     /* [E, H, 2I]: gate, up, gate, up, ... transposed */
    SP_FORM_ROWS,          /* [E, 2I, H]: gate, up, gate, up, ... */
    SP_FORM_TRANSPOSED,    /* [E, cols, rows] */
    SP_FORM_BIASES,        /* [E, 2I]: gate, up, gate, up, ... */
    SP_FORM_HEADS,         /* [2 n, H]: query rows, then gate rows, of each head */
    SP_FORM_QKVZ,          /* delta layers: rows of q, k, v, z of each key head; `part` 1: of z */
    SP_FORM_ROW,           /* a vector as the only row of a matrix */
    SP_FORM_BA,            /* ... of b, a of each key head; `part` says which */
    SP_FORM_PAIRS,         /* of each head, rows that rotate together are neighbours */
    SP_FORM_TAILS,         /* maybe the last ones: of each head of q; `part` 1: of one in all */
    SP_FORM_LATENT_KEYS,   /* of each head rows of keys, then of values: the former, transposed, */
    SP_FORM_LATENT_VALUES, /* ... and the latter */
    SP_FORM_HEADWISE,      /* a vector for each head */
    SP_FORM_BACKWARD,      /* of each head, the halves are the other way round */
    SP_FORM_SCALAR,        /* without dimensions */
    SP_FORM_ZXBCDT,        /* Mamba-2 layers: rows of z, of x, B and C, of dt; `part` says which */
};

struct sp_form_row {
    enum sp_storage storage;
    const char *canonical, *source; /* after "layers.N."; "%u" stands for the expert */
    enum sp_response_format form;
    unsigned part;
};

/* All pieces of a canonical tensor of a layer out of a source tensor of this form. */
SP_MUST_CHECK enum sp_status sp_form_add(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                         const struct sp_form_row *form, const char *name,
                                         const struct sp_layer_config *l);
/* The source tensor as it is. */
SP_MUST_CHECK enum sp_status sp_form_add_whole(struct sp_tensor_match *m,
                                               struct sp_tensor_spec *spec, const char *name);
/* The norms of all taps, one after another. */
SP_MUST_CHECK enum sp_status sp_form_add_tap_norms(struct sp_tensor_match *m,
                                                   struct sp_tensor_spec *spec);
/* A source's name with the expert's number in place of %u. */
void sp_form_name_expert(char *out, size_t size, const char *pattern, unsigned expert);

#endif
