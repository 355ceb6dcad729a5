/* The members of a JSON object, made from values of a GGUF file's metadata. For the files that make
 * config.json and generation_config.json of it. */
#ifndef SP_CONVERT_GGUF_GGUF_WRITER_H
#define SP_CONVERT_GGUF_GGUF_WRITER_H

#include "convert/gguf/gguf_model.h"
#include "format/base/json_write.h"

enum { SP_GGUF_KEY_SIZE = 96 };

/* A text being made; the caller sets model and err. */
struct sp_gguf_writer {
    const struct sp_gguf_model *model;
    struct sp_strbuf text; /* owned until sp_gguf_finish */
    struct sp_err *err;
};

/* Appends members by a rule of format/config/gguf_row.h. */
typedef enum sp_status sp_gguf_put_fn(struct sp_gguf_writer *w, const struct sp_gguf_member *m);

/* Keys below are without the architecture in front; sp_gguf_key has it. It is that of another
 * converter (struct sp_key_name) where the file has only that. */
void sp_gguf_key(char out[SP_GGUF_KEY_SIZE], const struct sp_gguf_writer *w, const char *key);
bool sp_gguf_has(const struct sp_gguf_writer *w, const char *key);

/* Rows of each matrix of a tensor of the file; a vector is one row; 0: there is no such tensor. */
uint64_t sp_gguf_rows_of(const struct sp_gguf_writer *w, const char *tensor);

/* A size that is one number, or a list of one number for each layer: all equal, or in families with
 * sizes_per_layer the first that is not 0. The first leaves *out unchanged if the key is absent,
 * and the second fails. */
SP_MUST_CHECK enum sp_status sp_gguf_get_size(uint64_t *out, const struct sp_gguf_writer *w,
                                              const char *key);
SP_MUST_CHECK enum sp_status sp_gguf_need_size(uint64_t *out, const struct sp_gguf_writer *w,
                                               const char *key);

/* *out is unchanged if the key is absent. */
SP_MUST_CHECK enum sp_status sp_gguf_read_float(double *out, const struct sp_gguf_writer *w,
                                                const char *key);
SP_MUST_CHECK enum sp_status sp_gguf_read_bool(bool *out, const struct sp_gguf_writer *w,
                                               const char *key);

/* Elements of a head of keys, which are hidden size / heads if the file does not say. */
SP_MUST_CHECK enum sp_status sp_gguf_head_size(uint64_t *out, const struct sp_gguf_writer *w);

/* The size of one layer, of which the list must have a number; *out is unchanged if the key is
 * absent. */
SP_MUST_CHECK enum sp_status sp_gguf_get_layer_size(uint64_t *out, const struct sp_gguf_writer *w,
                                                    const char *key, uint64_t layer);

/* Append a member, with a comma before it. */
SP_MUST_CHECK enum sp_status sp_gguf_put_integer(struct sp_gguf_writer *w, const char *key,
                                                 uint64_t value);
SP_MUST_CHECK enum sp_status sp_gguf_put_word(struct sp_gguf_writer *w, const char *key,
                                              const char *word);
SP_MUST_CHECK enum sp_status sp_gguf_put_bool(struct sp_gguf_writer *w, const char *key,
                                              bool value);
SP_MUST_CHECK enum sp_status sp_gguf_put_float(struct sp_gguf_writer *w, const char *key,
                                               double value);

/* Append the value of a key under its published name, if the key is there. The key of copy_id is
 * complete. */
SP_MUST_CHECK enum sp_status sp_gguf_copy_size(struct sp_gguf_writer *w, const char *key,
                                               const char *published);
SP_MUST_CHECK enum sp_status sp_gguf_copy_float(struct sp_gguf_writer *w, const char *key,
                                                const char *published);
SP_MUST_CHECK enum sp_status sp_gguf_copy_id(struct sp_gguf_writer *w, const char *key,
                                             const char *published);

/* Appends rope_theta and rope_scaling (gguf_rope.c). */
SP_MUST_CHECK enum sp_status sp_gguf_put_rope(struct sp_gguf_writer *w);

/* Hands the text over, terminated; releases it if st is an error, which is returned. */
SP_MUST_CHECK enum sp_status sp_gguf_finish(char **text, size_t *size, struct sp_gguf_writer *w,
                                            enum sp_status st);

#endif
