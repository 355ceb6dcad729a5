/* Models by name, in the stores that other programs keep on this machine: the cache of Hugging Face
 * (org/name, org/name@revision, and org/name:tag for the GGUF file with that tag in its name) and
 * ollama's models (name, name:tag, namespace/name:tag). Nothing is downloaded or written. */
#ifndef SP_CONVERT_SOURCE_SOURCE_NAME_H
#define SP_CONVERT_SOURCE_SOURCE_NAME_H

#include "format/base/strbuf.h"
#include "format/modelfile/modelfile.h"

#include <stddef.h>

/* Folders of the stores; NULL: none. Borrowed. */
struct sp_source_stores {
    const char *hub;    /* with models--ORG--NAME folders */
    const char *ollama; /* with the folders manifests and blobs */
};

/* What a name stands for. Zeroed: nothing is known of it. */
struct sp_named_source {
    char *path;     /* a checkpoint folder or a GGUF file; owned */
    char *adapter;  /* a LoRA adapter that ollama merges into it; NULL: none; owned */
    char *manifest; /* of ollama's model, which has settings, too; NULL: none; owned */
};

/* Tells whether a text is meant as a file, by its ending: .gguf, .safetensors, .bin, .json. */
bool sp_source_name_is_file(const char *name);

/* Looks a name up. SP_E_INPUT if it has the form org/name or a tag and is in neither store; the
 * message has the command that downloads it. Any other text in no store leaves *out zeroed. */
SP_MUST_CHECK enum sp_status sp_source_name_find(struct sp_named_source *out, const char *name,
                                                 const struct sp_source_stores *stores,
                                                 struct sp_err *err);
void sp_named_source_release(struct sp_named_source *source);

/* Appends the records of an ollama model to *text as a Modelfile after its FROM line: template,
 * system message, licenses, parameters and messages, except those that `own` has itself. *warnings
 * (see sp_warn) names parameters that are not known and values that they cannot have: whoever has
 * the model cannot change them. */
SP_MUST_CHECK enum sp_status sp_ollama_append_records(struct sp_strbuf *text, const char *manifest,
                                                      const struct sp_modelfile *own,
                                                      const struct sp_source_stores *stores,
                                                      char **warnings, struct sp_err *err);

/* ---- what a folder holds as a model: a checkpoint, or GGUF files (model_folder.c) ---- */

/* The GGUF files of models in a folder and in the folders in it, as repositories with a folder for
 * each type have them; of a split one the first part counts. With a tag, such as "Q4_K_M", only
 * those that have it in their name or in that of their folder. *n = their number, *path = one of
 * them, owned by the caller; NULL if there is none. */
SP_MUST_CHECK enum sp_status sp_folder_find_gguf(char **path, size_t *n, const char *folder,
                                                 const char *tag, struct sp_err *err);

/* *path = NULL if the folder is a checkpoint, else the only GGUF file that it holds, owned by the
 * caller. SP_E_INPUT says what else the folder holds, and what to do with it. */
SP_MUST_CHECK enum sp_status sp_folder_find_model(char **path, const char *folder,
                                                  struct sp_err *err);

#endif
