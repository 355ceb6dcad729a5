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
    const struct sp_alias *aliases[SP_MAX_ALIASES + 1]; /* the family's, and one more */
    size_t n_aliases;
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

/* The model is a prediction head that its checkpoint stores as one more layer: its names follow the
 * prefix directly, and it has aliases of its own. */
void sp_tensor_match_set_next_layer(struct sp_tensor_match *m);

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

/* The full name that a canonical tensor outside the layers has in the checkpoint. */
void sp_tensor_match_name(char name[SP_SOURCE_NAME], const struct sp_tensor_match *m,
                          const char *prefix, const char *canonical);

#endif
