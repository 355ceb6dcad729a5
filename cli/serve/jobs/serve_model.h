/* The served model, and the objects that describe it in each API. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_MODEL_H
#define SP_CLI_SERVE_JOBS_SERVE_MODEL_H

#include "cli/base/pack_facts.h"
#include "cli/chat/generation.h"
#include "cli/chat/session_pool.h"

#include <time.h>

struct sp_serve_model {
    /* [n_names] names, the first one is shown; the strings are borrowed, the array is owned */
    const char **names;
    size_t n_names;
    char *file_name; /* the packed file's name without folder and suffix; owned */
    char digest[17]; /* identity of the file, hexadecimal */
    uint64_t size;   /* size of the file in bytes */
    time_t modified;
    size_t n_context; /* context length of a session */
    struct sp_pack_facts facts;
    char *modelfile;                        /* the file's records as a Modelfile; owned */
    char *template;                         /* chat template; owned; NULL: none */
    const struct sp_generation *generation; /* borrowed */
    struct sp_session_pool *sessions;       /* owned */
};

/* Describes the package of `generation`, which is open; `sessions` stay NULL. `names`: the names
 * given by the user; without any the name of the file is used. */
SP_MUST_CHECK enum sp_status sp_serve_model_read(struct sp_serve_model *out,
                                                 const struct sp_generation *generation,
                                                 const struct sp_opt_list *names,
                                                 struct sp_err *err);
void sp_serve_model_release(struct sp_serve_model *model);

/* True if `name` is one of the model's names, with or without ollama's ":latest". */
bool sp_serve_model_is(const struct sp_serve_model *model, const char *name);

/* Write the list of GET /v1/models, and the entry of GET /v1/models/NAME. */
void sp_serve_model_list(struct sp_json_out *out, const struct sp_serve_model *model);
void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *model);
/* Write the list and the entry of models in the format of Anthropic's API. */
void sp_serve_model_anthropic_list(struct sp_json_out *out, const struct sp_serve_model *model);
void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *model);
/* Write the responses of ollama's GET /api/tags, GET /api/ps (the loaded models) and POST
 * /api/show. */
void sp_serve_model_tags(struct sp_json_out *out, const struct sp_serve_model *model, bool loaded);
void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *model);

/* True if the template places the text after a gap, as Go templates can. t may be NULL. */
bool sp_serve_model_inserts_by(const struct sp_template *t);
/* SP_E_UNSUPPORTED, which names the member or path, if the model has no tokens for filling a gap.
 */
SP_MUST_CHECK enum sp_status sp_serve_model_check_infill(const struct sp_serve_model *model,
                                                         const char *key, struct sp_err *err);

/* Writes a time as "2026-11-22T11:12:33.123456Z" and returns `text`. */
enum { SP_TIME_TEXT = 48 };
const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at);

#endif
