/* A model that the server offers: the packed file, and what generates while the model is open. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_MODEL_H
#define SP_CLI_SERVE_JOBS_SERVE_MODEL_H

#include "cli/base/pack_facts.h"
#include "cli/chat/loaded_model.h"
#include "cli/serve/request/serve_request.h"

#include <time.h>

/* ---- files and adapters (serve_folder.c) ----
 *
 * The packed files that the command line of the server names. */

/* *out = the name of a model that the user calls `given`, owned by the caller: that of the file
 * without folder and suffix ("qwen" for "models/qwen.bin"), that of the folder, or the name in the
 * store of another program as it is ("org/name"). */
SP_MUST_CHECK enum sp_status sp_serve_name_of(char **out, const char *given, struct sp_err *err);

/* A packed file. */
struct sp_serve_path {
    char *given;   /* what the user calls it: its path, or the path or name of a checkpoint that was
                    * packed into the cache folder; owned */
    char *name;    /* of the model, by sp_serve_name_of; owned */
    char *path;    /* owned */
    bool is_named; /* by the command line, not found in a folder */
};

/* Packed files. Valid when zeroed. */
struct sp_serve_paths {
    struct sp_serve_path *at; /* [n] owned */
    size_t n, cap;
};

/* Adds the file at `path`, which the user calls `given`. */
SP_MUST_CHECK enum sp_status sp_serve_paths_add(struct sp_serve_paths *paths, const char *given,
                                                const char *path, bool is_named,
                                                struct sp_err *err);
/* Adds all packed files in a folder, in the order of their names; hidden files do not count, and a
 * note names a file that cannot be read. SP_E_INPUT: the folder has none. */
SP_MUST_CHECK enum sp_status sp_serve_paths_add_folder(struct sp_serve_paths *paths,
                                                       const char *folder, struct sp_err *err);
void sp_serve_paths_release(struct sp_serve_paths *paths);

/* The LoRA adapters that the command line of the server names, NAME=PATH each. A request that names
 * an adapter is answered by the one model that the server then has, with the adapter. Valid when
 * zeroed. */
struct sp_serve_adapters {
    char **names;       /* [n]; owned */
    const char **paths; /* [n]; the array is owned, the strings are borrowed from the list */
    size_t n;
};

/* Reads the values of --adapter. SP_E_USAGE: a value has another form, a name is not unique. */
SP_MUST_CHECK enum sp_status sp_serve_adapters_read(struct sp_serve_adapters *out,
                                                    const struct sp_opt_list *list,
                                                    struct sp_err *err);
void sp_serve_adapters_release(struct sp_serve_adapters *adapters);

/* The use of a model, which belongs to sp_serve_models; others read it between
 * sp_serve_models_lock and sp_serve_models_unlock. */
struct sp_serve_use {
    size_t n_users;    /* requests that keep the model open */
    bool is_open;      /* `loaded` and `sessions` are set */
    bool is_changing;  /* a thread opens or closes the model */
    double keep_alive; /* seconds that it stays open without users; negative: no limit */
    double expires_at; /* when it is closed if it has no users, seconds of sp_seconds */
    uint64_t used_at;  /* orders the last uses of all models */
};

/* What the packed file contains. */
struct sp_serve_file {
    char digest[17]; /* identity of the file, hexadecimal */
    uint64_t size;   /* size of the file in bytes */
    time_t modified;
    size_t max_context; /* the longest context that the file and the command line allow */
    struct sp_pack_facts facts;
    char *modelfile; /* the file's records as a Modelfile; owned */
    char *template;  /* chat template; owned; NULL: none */
    bool inserts;    /* the template or the tokenizer can fill gaps */
};

struct sp_serve_model {
    const char *given; /* what the user calls the packed file; borrowed */
    const char *path;  /* of the packed file; borrowed */
    size_t number;     /* among the models of the server, from 0 */
    /* [n_names] names, the first one is shown, the last n_adapters ones are those of adapters; the
     * strings are borrowed, the array is owned */
    const char **names;
    size_t n_names, n_adapters;
    const char *const *adapter_paths; /* [n_adapters]; borrowed */
    char *file_name;                  /* its name unless the user gives others; owned */
    struct sp_serve_file file;        /* as it was when the model was opened last */
    struct sp_serve_use use;
    /* The following fields are set while the model is open. */
    struct sp_loaded_model *loaded;   /* owned, with its settings */
    struct sp_session_pool *sessions; /* owned */
    size_t n_context;                 /* context length of a session */
};

/* How models are opened: the options of the command line. */
struct sp_serve_model_options {
    const struct sp_args *args;
    const struct sp_settings *settings;
    struct sp_backend_opts backend;
    const char *system; /* system message; NULL: the file's */
    struct sp_serve_adapters adapters;
    struct sp_record *record; /* of all answers; borrowed; NULL: none */
    bool no_draft;
    size_t n_sessions;
};

/* Reads what the file at `path` contains. name: of the model. SP_E_UNSUPPORTED: it has no
 * tokenizer. */
SP_MUST_CHECK enum sp_status sp_serve_file_read(struct sp_serve_file *out, const char *path,
                                                const char *name,
                                                const struct sp_serve_model_options *options,
                                                struct sp_err *err);
void sp_serve_file_release(struct sp_serve_file *file);

/* Describes the model of a packed file without opening it. `names`: the names given by the user;
 * without any, path->name is used. The model borrows from *path. */
SP_MUST_CHECK enum sp_status sp_serve_model_describe(struct sp_serve_model *out,
                                                     const struct sp_serve_path *path,
                                                     const struct sp_opt_list *names,
                                                     const struct sp_serve_model_options *options,
                                                     struct sp_err *err);
/* Describes the model of an open package by its name and digest alone; it is not closed by
 * sp_serve_model_close. loaded, sessions: borrowed. */
SP_MUST_CHECK enum sp_status sp_serve_model_attach(struct sp_serve_model *out,
                                                   struct sp_loaded_model *loaded,
                                                   struct sp_session_pool *sessions,
                                                   struct sp_err *err);
/* Releases a closed model. */
void sp_serve_model_release(struct sp_serve_model *model);

/* Opens the file with a session. `file` stays as it is. */
SP_MUST_CHECK enum sp_status sp_serve_model_open(struct sp_serve_model *model,
                                                 const struct sp_serve_model_options *options,
                                                 struct sp_err *err);
void sp_serve_model_close(struct sp_serve_model *model);

/* True if the template places the text after a gap, as Go templates can. t may be NULL. */
bool sp_serve_model_inserts_by(const struct sp_template *t);
/* SP_E_UNSUPPORTED, with the member or path, if the open model has no tokens for filling a gap. */
SP_MUST_CHECK enum sp_status sp_serve_model_check_infill(const struct sp_serve_model *model,
                                                         const char *key, struct sp_err *err);

/* Refuses a request if its model has no chat template, with the endpoint that needs none. */
sp_serve_read_fn sp_serve_check_template;

/* The adapter of the open model that `name` means; NULL: none. name NULL: the model itself. */
const struct sp_lora *sp_serve_model_lora(const struct sp_serve_model *model, const char *name);
/* SP_E_UNSUPPORTED if `name` means an adapter, which embeddings and reranking do not use. */
SP_MUST_CHECK enum sp_status sp_serve_model_check_base(const struct sp_serve_model *model,
                                                       const char *name, struct sp_err *err);

/* The one of the model's names that `name` is, with or without ollama's ":latest"; NULL: none. */
const char *sp_serve_model_find_name(const struct sp_serve_model *model, const char *name);

/* ---- descriptions of models (serve_model_list.c) ----
 *
 * The objects that describe models in each API. The callers hold sp_serve_models_lock. */

/* A list of n models: of GET /v1/models, of Anthropic's API, of ollama's GET /api/tags and, of the
 * open ones, of GET /api/ps. */
typedef void sp_serve_list_fn(struct sp_json_out *out, const struct sp_serve_model *models,
                              size_t n);
sp_serve_list_fn sp_serve_model_list, sp_serve_model_anthropic_list, sp_serve_model_tags,
    sp_serve_model_open_list;
/* The entries of GET /v1/models/NAME, and ollama's POST /api/show. name: one of the model's */
void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                          const char *name);
void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                                    const char *name);
void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *model);

/* The context length of a session; of a closed model, the longest one that it may get. */
size_t sp_serve_model_context(const struct sp_serve_model *model);

/* Writes a time, NULL: now, as "2026-11-22T11:12:33.123456Z" and returns `text`. */
enum { SP_TIME_TEXT = 48 };
const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at);

/* ---- all models (serve_models.c) ----
 *
 * The models that the server offers. A model is opened when a request names it, and closed when it
 * has been idle for long, or when another model needs its place or its memory, the least recently
 * used one first.
 *
 * Requests get models in the order in which they arrive: one whose model has to wait for a place
 * delays those behind it, so that models in constant use cannot keep another one out. Functions
 * without another note may be called by any thread. */

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

/* When an open model is closed unless it is used before, in seconds from now; HUGE_VAL: never. The
 * caller has called sp_serve_models_lock. */
double sp_serve_models_expires_in(const struct sp_serve_model *model);

#endif
