/* The models that the server offers. A model is opened when a request names it, and closed when it
 * has been idle for long, or when another model needs its place or its memory, the least recently
 * used one first.
 *
 * Requests get models in the order in which they arrive: one whose model has to wait for a place
 * delays those behind it, so that models in constant use cannot keep another one out. Functions
 * without another note may be called by any thread. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_MODELS_H
#define SP_CLI_SERVE_JOBS_SERVE_MODELS_H

#include "cli/serve/jobs/serve_model.h"

struct sp_http_connection;

struct sp_serve_models; /* opaque */

struct sp_serve_models_options {
    struct sp_serve_model *models; /* [n_models], described; borrowed */
    size_t n_models;
    size_t max_open;    /* most models that are open at the same time */
    size_t max_waiting; /* most requests that wait for a model */
    bool keep_open;     /* an open model is never closed before the end of the server */
    /* Open and close a model. One thread at a time calls them for a model, which nobody uses. */
    enum sp_status (*open)(void *context, struct sp_serve_model *model, struct sp_err *err);
    void (*close)(void *context, struct sp_serve_model *model);
    /* Frees some memory of an open model that is in use; false: there is none. [any thread] */
    bool (*trim)(void *context, struct sp_serve_model *model);
    void *context;
};

/* Starts the thread that closes idle models. */
SP_MUST_CHECK enum sp_status sp_serve_models_new(struct sp_serve_models **out,
                                                 const struct sp_serve_models_options *options,
                                                 struct sp_err *err);
/* Closes all models, which nobody may use. Accepts NULL. */
void sp_serve_models_free(struct sp_serve_models *models);

/* Lets no further request wait for a model. */
void sp_serve_models_stop(struct sp_serve_models *models);

/* The model of this name, with or without ollama's ":latest"; NULL: there is none. */
struct sp_serve_model *sp_serve_models_find(const struct sp_serve_models *models, const char *name);

/* Opens the model unless it is open, and keeps it open until sp_serve_models_release. Afterwards
 * it stays open for keep_alive seconds; negative: until its place is needed. Returns 0, or the HTTP
 * status of the error in `err`; -1: the client has gone, whose connection may be NULL. */
int sp_serve_models_acquire(struct sp_serve_models *models, struct sp_serve_model *model,
                            double keep_alive, const struct sp_http_connection *connection,
                            struct sp_err *err);
void sp_serve_models_release(struct sp_serve_models *models, struct sp_serve_model *model);

/* Keep a model open for a moment, if it is open, without prolonging the time after which it is
 * closed. The first function returns whether it is open. */
bool sp_serve_models_hold(struct sp_serve_models *models, struct sp_serve_model *model);
void sp_serve_models_let_go(struct sp_serve_models *models, struct sp_serve_model *model);

/* Closes the model now or, if it is in use, when it is released for the last time. */
void sp_serve_models_unload(struct sp_serve_models *models, struct sp_serve_model *model);
/* Closes the least recently used model that is not in use. Returns false if there is none. */
bool sp_serve_models_unload_idle(struct sp_serve_models *models);

/* Frees memory for a thread that lacks it: closes an idle model or, if there is none, trims a
 * model, each time the least recently used one. Returns false if nothing could be freed. */
bool sp_serve_models_reclaim(struct sp_serve_models *models);

/* The descriptions of models may change between these calls only. The functions above are not
 * called between them. */
void sp_serve_models_lock(struct sp_serve_models *models);
void sp_serve_models_unlock(struct sp_serve_models *models);

/* What may be read between sp_serve_models_lock and sp_serve_models_unlock: whether a model is
 * open, and when it is closed unless it is used before, in seconds from now; HUGE_VAL: never. */
bool sp_serve_models_is_open(const struct sp_serve_model *model);
double sp_serve_models_expires_in(const struct sp_serve_model *model);

#endif
