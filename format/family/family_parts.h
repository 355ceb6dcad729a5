/* Matching a checkpoint's tensors with those of a config: the state that family*.c and the layouts
 * (tensor_layout.c) share. No other file includes this header. */
#ifndef SP_FORMAT_FAMILY_FAMILY_PARTS_H
#define SP_FORMAT_FAMILY_FAMILY_PARTS_H

#include "format/family/family.h"
#include "format/family/family_table.h"
#include "format/family/tensor_alias.h"

#include <string.h>

enum {
    SP_SPEC_NAME = 128,         /* bytes for a canonical name with its NUL */
    SP_SOURCE_NAME = 256,       /* bytes for the name of a checkpoint's tensor with its NUL */
    SP_MAX_FINDINGS = 1000,     /* the search ends after as many missing or misshapen tensors */
    SP_MAX_PUBLISHED = 1 << 20, /* tensors of an exported checkpoint; real models have a tenth */
};

/* The differences between checkpoint and config: the first ones as text, and their number. */
struct sp_findings {
    char text[700];
    size_t len, n, n_shown;
};

/* The tensors of an exported checkpoint. One that holds several canonical tensors is listed once
 * for each of them. */
struct sp_published_list {
    struct sp_source_tensor *all; /* names borrowed from the specs; owned */
    size_t n, cap;
};

/* A checkpoint being matched with a config. All pointers are borrowed unless stated. */
struct sp_tensor_match {
    struct sp_specs *specs;
    struct sp_config *config;
    const struct sp_family *family;                     /* of the config */
    const struct sp_alias *aliases[SP_MAX_ALIASES + 2]; /* the family's, and two more */
    size_t n_aliases;
    const struct sp_source_tensor **sorted; /* by name, [n]; owned */
    bool *used;                             /* [n]; the tensor has been claimed; owned */
    size_t n;
    const char *prefix;     /* of the text model's tensors */
    const char *head_name;  /* of the output matrix; NULL: there is none */
    unsigned number;        /* that '#' in aliases stands for */
    const char *only_layer; /* replaces "layers.0." in the names of a single layer; or NULL */
    bool embedding_is_head; /* the file has only the output matrix, which serves as both */
    struct sp_published_list *published; /* exporting: collects the tensors; else NULL */
    struct sp_findings findings;
    struct sp_err *err;
};

/* Sets `sorted` and `used` for these tensors, and the aliases. `specs`, `config` and `err` must be
 * set. */
SP_MUST_CHECK enum sp_status sp_tensor_match_init(struct sp_tensor_match *m,
                                                  const struct sp_source_tensor *tensors, size_t n);
/* Frees all but the specs. */
void sp_tensor_match_release(struct sp_tensor_match *m);

/* The prefix of a built-in prediction head. It does not include that of the text model. */
#define SP_MTP_PREFIX "mtp."

/* One canonical vector of the norms of all taps, which a checkpoint stores as fc_norm.N.weight. */
#define SP_TAP_NORMS "fc_norm.weight"

/* The model is a prediction head that its checkpoint stores as one more layer: its names follow the
 * prefix directly, and it has aliases of its own. */
void sp_tensor_match_set_next_layer(struct sp_tensor_match *m);

/* Returns SP_E_INPUT with the findings, if there are any. */
SP_MUST_CHECK enum sp_status sp_tensor_match_conclude(const struct sp_tensor_match *m);

/* Index of a tensor in m->sorted; m->n if there is no such tensor. */
size_t sp_tensor_match_find(const struct sp_tensor_match *m, const char *name);
bool sp_tensor_match_has(const struct sp_tensor_match *m, const char *prefix, const char *name);

/* Adds a finding. It is not a failure, so matching continues. */
void sp_tensor_match_report(struct sp_tensor_match *m, const char *format, ...) SP_PRINTF(2, 3);

/* Claims a source that must exist in this shape. If it does not, that is reported and *found is
 * false. When exporting, the source is added to the published tensors. */
SP_MUST_CHECK enum sp_status sp_tensor_match_claim(bool *found, const struct sp_alias_source *s,
                                                   const uint64_t *shape, unsigned rank);
/* Adds rows of a source that has been claimed to its canonical tensor. */
SP_MUST_CHECK enum sp_status sp_tensor_match_add(const struct sp_alias_source *s,
                                                 struct sp_row_span span);
/* Claims a source and adds rows of it. */
SP_MUST_CHECK enum sp_status sp_tensor_match_take(const struct sp_alias_source *s,
                                                  const uint64_t *shape, unsigned rank,
                                                  struct sp_row_span span);

/* True if the text begins with one of the words, which spaces separate. */
static inline bool sp_begins_with_any(const char *text, const char *words)
{
    for (size_t len; *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        if (strncmp(text, words, len) == 0) return true;
    }
    return false;
}

/* Rows first..first+n-1. */
static inline struct sp_row_span sp_rows(uint64_t first, uint64_t n, uint64_t n_cols)
{
    return (struct sp_row_span){.first_row = first, .step = 1, .n_rows = n, .n_cols = n_cols};
}

/* Adds the interleaved rows of a head that begins at `row` in the canonical order. A head is
 * n_before rows that do not rotate, n_rot rows that do, and the rest. In the source, rows 2 i and 2
 * i + 1 of the rotated ones rotate together; in the canonical order rows i and i + n_rot / 2 do. So
 * the even rows come first, then the odd ones. The source has been claimed. */
SP_MUST_CHECK enum sp_status sp_layout_add_head(const struct sp_alias_source *s, uint64_t row,
                                                uint64_t head_dim, uint64_t n_before,
                                                uint64_t n_rot);

/* Finds the source of one canonical tensor and adds its rows. A missing or misshapen source is
 * reported. */
SP_MUST_CHECK enum sp_status sp_tensor_match_place(struct sp_tensor_match *m,
                                                   struct sp_tensor_spec *spec);

/* The full name that a canonical tensor outside the layers has in the checkpoint. */
void sp_tensor_match_name(char name[SP_SOURCE_NAME], const struct sp_tensor_match *m,
                          const char *prefix, const char *canonical);

#endif
