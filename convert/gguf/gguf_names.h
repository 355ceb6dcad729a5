/* The published names of the tensors of a GGUF file. For gguf_model.c. */
#ifndef SP_CONVERT_GGUF_GGUF_NAMES_H
#define SP_CONVERT_GGUF_GGUF_NAMES_H

#include "convert/gguf/gguf_model.h"

enum { SP_GGUF_NAME_SIZE = 128, SP_GGUF_MAX_LAYERS = 99999 };

/* Writes the published name of a tensor of a model whose layers are counted, and how the tensor is
 * stored; false if models of the family have no such tensor. */
bool sp_gguf_publish_name(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                          const struct sp_gguf_model *m, const char *name);

/* Whether some layer has the tensor blk.N.`name`, with or without a further ending. */
bool sp_gguf_has_in_layers(const struct sp_gguf_model *m, const char *name);

/* Whether the family has a name for this tensor of a layer with its whole ending. */
bool sp_gguf_has_own_name(const struct sp_gguf_model *m, const char *name);

/* True for a tensor of rotary scaling, which becomes a part of config.json, and for a scale of
 * activations, which are not quantized here. */
/* llama.cpp's name of a key, which may be that of another converter (struct sp_key_name); both
 * without the architecture in front. */
const char *sp_gguf_common_key(const struct sp_family *family, const char *key);
/* Writes the complete key: that of another converter where the file has only that. */
void sp_gguf_stored_key(char *out, size_t size, const struct sp_gguf *file,
                        const struct sp_family *family, const char *arch, const char *key);

bool sp_gguf_is_ignored(const char *name);
/* True for a tensor of an image or audio encoder, which some files have beside the text model, or
 * of a prediction head under its published name, which is not read. */
bool sp_gguf_is_of_encoder(const char *name);
/* True for a tensor of a prediction head that no reader of the family knows. */
bool sp_gguf_is_of_unread_head(const struct sp_gguf_model *m, const char *name);

#endif
