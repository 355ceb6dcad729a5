/* A calibration file: statistics of the inputs of the matrices of a target and its draft, measured
 * by `spectool calibrate` and used to quantize the matrices (quantize/types/gptq.h). The file is a
 * packed file (spectool-pack(5)), or an importance matrix of llama.cpp for the target
 * (importance.c).
 *
 * Opening the file checks everything: digests, names, sizes and every number. */
#ifndef SP_CONVERT_CREATE_CALIBRATION_H
#define SP_CONVERT_CREATE_CALIBRATION_H

#include "convert/create/plan.h"
#include "format/weights/cache_divergence.h"
#include "format/weights/sensitivity.h"
#include "format/weights/smoothing.h"

/* ---- importance matrices (importance.c) ----
 *
 * llama.cpp's importance matrices: for each matrix that it multiplies, the sum of squares of every
 * column of the inputs. Two forms are read: GGUF with general.type "imatrix", which has
 * NAME.in_sum2 and NAME.counts, and the older one, a list of names and floats. Only ratios within a
 * matrix weigh its errors (quantize/types/gptq.h), so that sums stay undivided by counts; a count
 * of 0 makes them 0. */

/* As tensors of a calibration file; each name is owned, and so are the data. Valid when zeroed. */
struct sp_importances {
    struct sp_pack_tensor *tensors;
    size_t n, cap;
};

/* Reads the sums for a model, under its names and in its order of columns. *is_one: the file is an
 * importance matrix; else *out is zeroed. Returns SP_E_INPUT if the model has no such tensor or one
 * of another size, and SP_E_UNSUPPORTED for a family of which llama.cpp's names are not known. */
SP_MUST_CHECK enum sp_status sp_importances_read(struct sp_importances *out, bool *is_one,
                                                 const char *path, const struct sp_source *source,
                                                 struct sp_err *err);
void sp_importances_release(struct sp_importances *all);

/* ---- calibration files ---- */

/* A matrix that a file has numbers for. */
struct sp_calibration_entry {
    char *name; /* owned */
    enum sp_part part;
    const struct sp_pack_tensor *tensor;
};

/* Valid when zeroed: none. */
struct sp_calibration_file {
    struct sp_sensitivities sensitivities; /* measured, of the target's groups; n 0: none */
    struct sp_smoothing smoothing;         /* how the target's norms are smoothed; n 0: not */
    struct sp_cache_divergences caches;    /* what types of its caches cost; n 0: not measured */
    uint32_t *check; /* [n_check] tokens of the texts, on which a choice can be checked; owned */
    size_t n_check;
    struct sp_pack *pack; /* owned; NULL: an importance matrix */
    char *path;           /* of that; owned */
    struct sp_importances importances;
    struct sp_calibration_entry *entries; /* by part and name; owned */
    size_t n_entries, cap_entries;
};

/* Opens a file. An importance matrix is read for `target`, or if that is NULL, not at all. *out is
 * released by the caller, on failure too. */
SP_MUST_CHECK enum sp_status sp_calibration_open(struct sp_calibration_file *out, const char *path,
                                                 const struct sp_source *target,
                                                 struct sp_err *err);
/* Opens the calibration in a packed file that is open already and is closed with it. */
SP_MUST_CHECK enum sp_status sp_calibration_take(struct sp_calibration_file *out,
                                                 struct sp_pack *pack, struct sp_err *err);
void sp_calibration_release(struct sp_calibration_file *file);

/* True if the file has statistics of a matrix of a part. */
bool sp_calibration_names(const struct sp_calibration_file *file, enum sp_part part,
                          const char *matrix);
/* True if the file has statistics of a part. */
bool sp_calibration_has(const struct sp_calibration_file *file, enum sp_part part);

/* Sets the weights of each plan item of a part that becomes q2 to q6, borrowed from the file.
 * Returns SP_E_INPUT if the file names a matrix of this part that `source` does not have, or that
 * has another width; a draft of which nothing becomes q2 to q6 may be another one. *n_used and
 * *n_without count the part's matrices that become q2 to q6 with and without calibration; an
 * embedding that is not the output matrix needs none. */
SP_MUST_CHECK enum sp_status sp_calibration_apply(const struct sp_calibration_file *file,
                                                  struct sp_plan *plan,
                                                  const struct sp_source *source, enum sp_part part,
                                                  size_t *n_used, size_t *n_without,
                                                  struct sp_err *err);

#endif
