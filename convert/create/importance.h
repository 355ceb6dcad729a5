/* llama.cpp's importance matrices: for each matrix that it multiplies, the sum of squares of every
 * column of the inputs. Two forms are read: GGUF with general.type "imatrix", which has
 * NAME.in_sum2 and NAME.counts, and the older one, a list of names and floats. Only ratios within a
 * matrix weigh its errors (quantize/types/gptq.h), so that sums stay undivided by counts; a count
 * of 0 makes them 0. */
#ifndef SP_CONVERT_CREATE_IMPORTANCE_H
#define SP_CONVERT_CREATE_IMPORTANCE_H

#include "convert/source/source.h"
#include "format/base/strbuf.h"

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

#endif
