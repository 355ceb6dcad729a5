/* The way back: a packed file, or a model in another form, becomes checkpoints as they are
 * published on Hugging Face, with the Modelfile that packs them again.
 *
 * Numbers that are stored as floats (f32, f16, bf16) are written bit for bit; quantized ones are
 * dequantized. Everything that can be refused is refused before anything is written; the folder
 * appears whole or not at all. */
#ifndef SP_CONVERT_EXPORT_EXPORT_H
#define SP_CONVERT_EXPORT_EXPORT_H

#include "convert/create/create.h"
#include "convert/source/source_name.h"

struct sp_export_options {
    const char *input; /* a packed file, or what FROM may be: a checkpoint, a GGUF file, a name */
    struct sp_source_stores stores; /* where names are looked up */
    const char *output;             /* the folder that is made: Modelfile, target, draft */
    enum sp_dtype type;  /* f32, f16 or bf16, of what is quantized; SP_DTYPE_NONE: as config.json
                            says, or else bf16 */
    uint64_t shard_size; /* bytes of tensors in a file, at most; 0: SP_EXPORT_SHARD */
    unsigned n_threads;  /* 0: as many as there are */
    bool force;          /* replace an existing export */
    bool dry_run;        /* plan, write nothing */
    struct sp_create_callbacks callbacks;
};

#define SP_EXPORT_SHARD UINT64_C(5000000000)

/* *report may be NULL; its source_size counts bytes in the packed file, size those in the
 * checkpoints, file_size all tensors of both. */
SP_MUST_CHECK enum sp_status sp_export(struct sp_create_report *report,
                                       const struct sp_export_options *options, struct sp_err *err);

#endif
