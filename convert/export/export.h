/* The way back: a packed file, or a model in another form, becomes checkpoints as they are
 * published on Hugging Face, with the Modelfile that packs them again.
 *
 * Numbers that are stored as floats (f32, f16, bf16) are written bit for bit; quantized ones are
 * dequantized. Everything that can be refused is refused before anything is written; the folder
 * appears whole or not at all. */
#ifndef SP_CONVERT_EXPORT_EXPORT_H
#define SP_CONVERT_EXPORT_EXPORT_H

#include "convert/create/create.h"

#define SP_EXPORT_SHARD UINT64_C(5000000000)

/* Reads of the options `from`, which may be what FROM may be, stores, output (the folder that is
 * made: Modelfile, target, draft), target_type (f32, f16 or bf16, of what is quantized;
 * SP_DTYPE_NONE: as config.json says, or else bf16), shard_size, n_threads, force, dry_run and
 * callbacks. *report may be NULL; its source_size counts bytes in the packed file, size those in
 * the checkpoints, file_size all tensors of both. */
SP_MUST_CHECK enum sp_status sp_export(struct sp_create_report *report,
                                       const struct sp_create_options *options, struct sp_err *err);

#endif
