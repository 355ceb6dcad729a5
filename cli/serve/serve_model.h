/* What is served, as the APIs list it. */
#ifndef SP_CLI_SERVE_SERVE_MODEL_H
#define SP_CLI_SERVE_SERVE_MODEL_H

#include "cli/chat/generation.h"
#include "cli/base/pack_facts.h"

#include <time.h>

struct sp_serve_model {
    const char **names; /* [n_names] borrowed, the first one is shown; the array is owned */
    size_t n_names;
    char *file_name; /* the packed file's without folder and ending; owned */
    char digest[17]; /* its identity, hexadecimal */
    uint64_t size;   /* its bytes */
    time_t modified;
    size_t n_context; /* of the session */
    struct sp_pack_facts facts;
    char *modelfile; /* owned, as is: */
    char *template;  /* NULL: none */
};

/* `names`: those that were given; none: the file's. The generation is open. */
SP_MUST_CHECK enum sp_status sp_serve_model_read(struct sp_serve_model *out,
                                                 const struct sp_generation *generation,
                                                 const struct sp_opt_list *names,
                                                 struct sp_err *err);
void sp_serve_model_release(struct sp_serve_model *model);

/* Is it called that, with or without ollama's ":latest"? */
bool sp_serve_model_is(const struct sp_serve_model *model, const char *name);

/* Members of GET /v1/models, as a list; one of them, /v1/models/NAME. */
void sp_serve_model_list(struct sp_json_out *out, const struct sp_serve_model *model);
void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *model);
/* The same as Anthropic's API has them. */
void sp_serve_model_anthropic_list(struct sp_json_out *out, const struct sp_serve_model *model);
void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *model);
/* GET /api/tags, or, of what is loaded, /api/ps; POST /api/show. */
void sp_serve_model_tags(struct sp_json_out *out, const struct sp_serve_model *model, bool loaded);
void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *model);

/* "2026-11-22T11:12:33.123456Z"; returns `text`. */
enum { SP_TIME_TEXT = 48 };
const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at);

#endif
