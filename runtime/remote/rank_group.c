#include "runtime/remote/ranks.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/module.h"
#include "format/system/cpus.h"
#include "runtime/ranks/forked_ranks.h"
#include "runtime/remote/remote_message.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sp_rank_group {
    struct sp_transport *transport; /* of the module, which stays loaded */
    bool is_open;                   /* a package uses the group */
};

/* The message that opens a file. The answer to it, and to one that closes it, is a struct
 * sp_remote_status. */
struct open_message {
    uint32_t kind; /* SP_MESSAGE_OPEN */
    uint32_t n_threads;
    uint64_t identity, size;
    char version[32], kernels[32]; /* kernels: empty: the best of each machine */
    char path[PATH_MAX];
};

/* ---- all ranks ---- */

enum sp_status sp_rank_group_join(struct sp_rank_group **out, const char *module,
                                  struct sp_err *err)
{
    struct sp_rank_group *group = NULL;
    sp_mpi_join_fn *join;
    void *symbol;
    char text[128] = "";
    enum sp_status st;

    if ((st = sp_module_find(&symbol, module, SP_MPI_JOIN, "MPI", err))) return st;
    memcpy(&join, &symbol, sizeof join);
    if ((st = sp_new(&group, 1, sizeof *group, err))) return st;
    if ((group->transport = join(text, sizeof text)) == NULL) {
        free(group);
        return sp_fail(err, SP_E_UNSUPPORTED, "MPI: %s", text);
    }
    *out = group;
    return SP_OK;
}

unsigned sp_rank_group_rank(const struct sp_rank_group *group)
{
    return group->transport->rank;
}

unsigned sp_rank_group_size(const struct sp_rank_group *group)
{
    return group->transport->n_ranks;
}

void sp_rank_group_leave(struct sp_rank_group *group)
{
    if (group == NULL) return;
    group->transport->ops->close(group->transport);
    free(group);
}

static unsigned group_threads(const struct sp_rank_group *group)
{
    unsigned n = sp_usable_cpus();
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if ((long)n < online) return n; /* bound */
    return n > group->transport->n_here ? n / group->transport->n_here : 1;
}

unsigned sp_ranks_threads(const struct sp_package_options *o, unsigned rank)
{
    if (o->n_threads) return o->n_threads;
    if (o->group) return group_threads(o->group);
    return o->n_ranks < 2 ? 0 : sp_rank_threads(rank, o->n_ranks);
}

/* ---- rank 0 ---- */

static enum sp_status send_open(struct sp_transport *t, const struct sp_pack *pack,
                                const struct sp_package_options *options, struct sp_err *err)
{
    struct open_message *m = t->ops->buffer(t, sizeof *m);

    if (m == NULL) return sp_fail(err, SP_E_NOMEM, "out of memory for a message to the ranks");
    memset(m, 0, sizeof *m);
    m->kind = SP_MESSAGE_OPEN;
    m->n_threads = options->n_threads;
    m->identity = sp_pack_identity(pack);
    m->size = sp_pack_size(pack);
    snprintf(m->version, sizeof m->version, "%s", sp_version());
    snprintf(m->kernels, sizeof m->kernels, "%s", options->kernels ? options->kernels : "");
    snprintf(m->path, sizeof m->path, "%s", sp_pack_path(pack));
    if (t->ops->send(t, sizeof *m, sizeof(struct sp_remote_status))) return SP_OK;
    return sp_fail(err, SP_E_NOMEM, "out of memory for the answers of the ranks");
}

static void close_file(struct sp_ranks *ranks)
{
    struct sp_rank_group *group = ranks->owner;
    struct sp_transport *t = group->transport;
    uint32_t *kind = ranks->remote.lost ? NULL : t->ops->buffer(t, sizeof *kind);

    group->is_open = false;
    if (kind == NULL) return;
    *kind = SP_MESSAGE_CLOSE;
    if (!t->ops->send(t, sizeof *kind, sizeof(struct sp_remote_status))) return;
    for (unsigned rank = 1; rank < t->n_ranks; rank++)
        if (t->ops->receive(t, rank) == NULL) return;
}

static enum sp_status open_group(struct sp_ranks **out, const struct sp_ranks *with,
                                 const struct sp_pack *pack,
                                 const struct sp_package_options *options, struct sp_err *err)
{
    struct sp_rank_group *group = options->group;
    struct sp_ranks all = *with, *ranks = NULL;
    enum sp_status st;

    if (group->is_open)
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "several files over MPI: ranks compute one model at a time");
    if (strlen(sp_pack_path(pack)) >= PATH_MAX)
        return sp_fail(err, SP_E_UNSUPPORTED, "a path of %zu bytes", strlen(sp_pack_path(pack)));
    all.transport = group->transport;
    all.close = close_file;
    all.owner = group;
    if ((st = sp_ranks_new(&ranks, &all, err))) return st;
    if ((st = send_open(group->transport, pack, options, err)) ||
        (st = sp_rank_statuses(group->transport, err))) {
        sp_ranks_close(ranks);
        return st;
    }
    group->is_open = true;
    *out = ranks;
    return SP_OK;
}

/* The arguments of run_rank, by which the other ranks are started. */
struct rank_start {
    struct sp_rank_file file;
    const struct sp_package_options *options;
};

static enum sp_status run_rank(struct sp_transport *transport, void *context, struct sp_err *err)
{
    const struct rank_start *start = context;
    const struct sp_rank_file *file = &start->file;
    unsigned n_threads = sp_ranks_threads(start->options, transport->rank);
    struct sp_backend backend;
    bool has_ended;
    enum sp_status st;

    sp_rank_bind(transport->rank, transport->n_ranks);
    sp_file_set_paging(file->bytes, (size_t)file->size, SP_PAGING_AROUND);
    if ((st = sp_backend_init(&backend, start->options->kernels, n_threads, err))) return st;
    st = sp_ranks_serve(transport, &backend, file, &has_ended, err);
    sp_backend_release(&backend);
    return st;
}

enum sp_status sp_ranks_open(struct sp_ranks **out, const struct sp_pack *pack,
                             const struct sp_package_options *o, struct sp_err *err)
{
    struct rank_start start = {{sp_pack_bytes(pack), sp_pack_size(pack)}, o};
    const struct sp_ranks with = {
        .file = start.file, .on_lost = o->rank_lost, .context = o->rank_context};
    struct sp_ranks *ranks = NULL;
    enum sp_status st;

    *out = NULL;
    if (o->group) return open_group(out, &with, pack, o, err);
    if (o->n_ranks < 2) return SP_OK;
    if ((st = sp_ranks_new(&ranks, &with, err))) return st;
    if ((st = sp_ranks_fork(&ranks->transport, o->n_ranks, run_rank, &start, err))) {
        sp_ranks_close(ranks);
        return st;
    }
    sp_rank_bind(0, o->n_ranks);
    *out = ranks;
    return SP_OK;
}

/* ---- other ranks ---- */

/* A file that rank 0 had this rank open. */
struct rank_package {
    struct sp_pack *pack;
    struct sp_backend backend;
};

static void close_package(struct rank_package *p)
{
    sp_backend_release(&p->backend);
    sp_pack_close(p->pack);
    *p = (struct rank_package){0};
}

static enum sp_status open_package(struct rank_package *p, const struct sp_rank_group *group,
                                   const struct open_message *m, struct sp_err *err)
{
    unsigned n_threads = m->n_threads ? m->n_threads : group_threads(group);
    enum sp_status st;

    if (strcmp(m->version, sp_version()) != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "spectool %s, expected %s as on rank 0", sp_version(),
                       m->version);
    }
    if ((st = sp_pack_open(&p->pack, m->path, err))) return st;
    if (sp_pack_identity(p->pack) != m->identity || sp_pack_size(p->pack) != m->size)
        return sp_fail(err, SP_E_INPUT, "%s is another file than on rank 0", m->path);
    sp_file_set_paging(sp_pack_bytes(p->pack), (size_t)sp_pack_size(p->pack), SP_PAGING_AROUND);
    return sp_backend_init(&p->backend, m->kernels[0] ? m->kernels : NULL, n_threads, err);
}

enum sp_status sp_rank_group_serve(struct sp_rank_group *group, struct sp_err *err)
{
    struct sp_transport *t = group->transport;
    struct rank_package package = {0};
    const uint32_t *message;
    bool has_ended = false;
    size_t size;
    enum sp_status st = SP_OK;

    while (st == SP_OK && !has_ended && (message = t->ops->next(t, &size)) != NULL) {
        struct sp_err failure = {0};
        bool is_open = *message != SP_MESSAGE_CLOSE &&
                       open_package(&package, group, (const void *)message, &failure) == SP_OK;
        if (is_open && (st = sp_rank_answer_status(t, &failure, err)) == SP_OK) {
            const struct sp_rank_file file = {sp_pack_bytes(package.pack),
                                              sp_pack_size(package.pack)};
            st = sp_ranks_serve(t, &package.backend, &file, &has_ended, err);
        }
        close_package(&package);
        if (st == SP_OK && !has_ended) st = sp_rank_answer_status(t, &failure, err);
    }
    return st;
}
