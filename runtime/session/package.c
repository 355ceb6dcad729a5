/* Packages: a mapped file with its models bound, ready for sessions. */
#include "format/config/pooling.h"
#include "format/pack_contents.h"
#include "runtime/session/session.h"
#include "runtime/speculate/drafting_controller.h"

#include "format/base/file.h"
#include "format/base/mem.h"
#include "runtime/backend/reference.h"
#include "runtime/model/cache_types.h"
#include "runtime/ranks/forked_ranks.h"
#include "runtime/remote/ranks.h"
#include "runtime/spectool_measure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sp_version(void)
{
    return SPECTOOL_VERSION;
}

static enum sp_status find_eos(struct sp_package *p, struct sp_err *err)
{
    struct sp_text config = {0}, generation = {0};
    enum sp_status st;

    st = sp_pack_read_section(p->pack, SP_PART_TARGET, SP_SECTION_CONFIG, &config, err);
    if (!st)
        st = sp_pack_read_section(p->pack, SP_PART_TARGET, SP_SECTION_GENERATION, &generation, err);
    if (!st) st = sp_config_eos(p->eos, &p->n_eos, &config, &generation, err);
    if (!st && p->n_eos == 0 && p->tokenizer && sp_tokenizer_eos(p->tokenizer) != SP_TOKEN_NONE)
        p->eos[p->n_eos++] = sp_tokenizer_eos(p->tokenizer);
    free(config.at);
    free(generation.at);
    return st;
}

/* A job that reads a file into memory with all threads. */
struct copy_job {
    const struct sp_file *file;
    uint8_t *bytes;
    uint64_t size;
    atomic_bool has_failed;
    struct sp_err err; /* error of the first thread that failed */
};

enum { COPY_PIECE = 8 << 20 };

static void copy_piece(void *context, size_t i, unsigned worker)
{
    struct copy_job *job = context;
    uint64_t first = (uint64_t)i * COPY_PIECE;
    size_t n = job->size - first < COPY_PIECE ? (size_t)(job->size - first) : COPY_PIECE;
    struct sp_err err = {0};

    (void)worker;
    if (sp_file_read_at(job->file, first, job->bytes + first, n, &err) == SP_OK) return;
    if (!atomic_exchange(&job->has_failed, true)) job->err = err;
}

static enum sp_status open_copy(struct sp_package *p, const char *path, struct sp_err *err)
{
    struct copy_job job = {0};
    struct sp_file *file = NULL;
    enum sp_status st;

    if ((st = sp_file_open(&file, path, err))) goto done;
    job.file = file;
    job.size = sp_file_size(file);
    if ((st = sp_new_aligned(&p->copy, (size_t)job.size, 1, err))) goto done;
    job.bytes = p->copy;
    sp_pool_run(p->backend.pool, (size_t)((job.size + COPY_PIECE - 1) / COPY_PIECE), copy_piece,
                &job);
    if (atomic_load(&job.has_failed)) {
        st = sp_fail_as(err, &job.err);
        goto done;
    }
    st = sp_pack_open_bytes(&p->pack, p->copy, (size_t)job.size, path, err);
done:
    sp_file_close(file);
    return st;
}

/* Opens the file and the backend. Threads read a file into memory, but ranks start before them. */
static enum sp_status open_file(struct sp_package *p, const char *path,
                                const struct sp_package_options *o, struct sp_err *err)
{
    enum sp_status st;

    if ((o->n_ranks > 1 || o->group) && o->huge_pages)
        return sp_fail(err, SP_E_UNSUPPORTED, "huge pages and several ranks: ranks map the file");
    if (o->n_ranks > 1 && o->group) {
        return sp_fail(err, SP_E_USAGE, "%u ranks were asked for in a process that mpirun started",
                       o->n_ranks);
    }
    if (!o->huge_pages && (st = sp_pack_open(&p->pack, path, err))) return st;
    /* Vectors, which lie between the matrices, are read while the models are opened. */
    if (o->n_ranks > 1 || o->group)
        sp_file_set_paging(sp_pack_bytes(p->pack), (size_t)sp_pack_size(p->pack), SP_PAGING_SINGLE);
    if ((o->n_ranks > 1 || o->group) && (st = sp_ranks_open(&p->ranks, p->pack, o, err))) return st;
    if ((st = sp_backend_init(&p->backend, o->kernels, sp_ranks_threads(o, 0), err))) return st;
    if (p->ranks) p->backend.remote = &p->ranks->remote;
    if (o->huge_pages && (st = open_copy(p, path, err))) return st;
    p->backend.pack = p->pack;
    return SP_OK;
}

/* reference: NULL: the kernels multiply. */
static enum sp_status open_package(struct sp_package **out, const char *path,
                                   const struct sp_package_options *o,
                                   const struct sp_reference_options *reference, struct sp_err *err)
{
    struct sp_package *p = NULL;
    const struct sp_pack_section *map;
    enum sp_status st;

    if ((st = sp_new(&p, 1, sizeof *p, err))) goto done;
    if ((st = open_file(p, path, o, err)) || (st = sp_pack_expect_model(p->pack, err))) goto done;
    if (reference && (st = sp_reference_new(&p->backend.reference, reference->module, p->pack,
                                            reference->mode, err)))
        goto done;
    if ((st = sp_scheduler_open(&p->scheduler, err))) goto done;
    if ((st = sp_scheduler_open(&p->embedding, err))) goto done;
    if ((st = sp_scheduler_open(&p->long_embedding, err))) goto done;
    p->own_budget.limit = o->cache_memory;
    p->caches = o->budget ? o->budget : &p->own_budget;
    p->mapped = p->copy ? 0 : (size_t)sp_pack_size(p->pack);
    atomic_fetch_add(&p->caches->mapped, p->mapped);
    if ((st = sp_model_open(&p->target, p->pack, SP_PART_TARGET, err))) goto in_file;
    if (p->target->config.draft.kind != SP_DRAFT_NONE) {
        st = sp_fail(err, SP_E_INPUT, "the target is a draft (%s)", p->target->config.architecture);
        goto in_file;
    }
    if (sp_pack_find_section(p->pack, SP_PART_DRAFT, SP_SECTION_CONFIG)) {
        if ((st = sp_model_open(&p->draft, p->pack, SP_PART_DRAFT, err))) goto in_file;
        st = sp_config_fit_target(&p->draft->config, &p->target->config, err);
        if (st || (st = sp_drafter_check(p->target, p->draft, err))) goto in_file;
        sp_drafting_controller_init(&p->drafting, sp_drafter_max_draft_len(p->draft),
                                    sp_drafter_find(p->draft->config.draft.kind)->stepwise);
        snprintf(p->both, sizeof p->both, SP_LOOKUP_NAME " and %s",
                 sp_draft_kind_name(p->draft->config.draft.kind));
    }
    map = sp_pack_find_section(p->pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP);
    if (map) sp_file_prefetch(map->data, (size_t)map->size);
    if (map && (st = sp_tokenizer_open(&p->tokenizer, map->data, (size_t)map->size, err)))
        goto in_file;
    if ((st = sp_package_open_pooling(p, err))) goto in_file;
    if ((st = find_eos(p, err))) goto in_file;
    if (p->ranks)
        sp_file_set_paging(sp_pack_bytes(p->pack), (size_t)sp_pack_size(p->pack), SP_PAGING_AROUND);
    *out = p;
    p = NULL;
in_file:
    if (st) sp_context(err, "%s", path);
done:
    sp_package_close(p);
    return st;
}

enum sp_status sp_package_open(struct sp_package **out, const char *path,
                               const struct sp_package_options *options, struct sp_err *err)
{
    struct sp_package_options o = {0};
    enum sp_status st;

    if (options && (st = sp_copy_in(&o, sizeof o, options, "sp_package_options", err))) return st;
    return open_package(out, path, &o, NULL, err);
}

enum sp_status sp_package_open_reference(struct sp_package **out, const char *path,
                                         const struct sp_reference_options *options,
                                         struct sp_err *err)
{
    struct sp_package_options o = {.kernels = sp_kernels_ref.name, .n_threads = 1};
    struct sp_reference_options reference = {0};
    enum sp_status st;

    if ((st = sp_copy_in(&reference, sizeof reference, options, "sp_reference_options", err)))
        return st;
    return open_package(out, path, &o, &reference, err);
}

enum sp_status sp_package_drafting_statistics(const struct sp_package *p, char **json,
                                              struct sp_err *err)
{
    struct sp_strbuf text = {0};
    enum sp_status st;

    *json = NULL;
    if (p->draft == NULL || !sp_drafting_controller_json_is_new(&p->drafting)) return SP_OK;
    if ((st = sp_drafting_controller_json_write(&text, &p->drafting, err)) ||
        (st = sp_strbuf_append(&text, "", 1, err))) {
        sp_strbuf_release(&text);
        return st;
    }
    *json = text.at;
    return SP_OK;
}

enum sp_status sp_package_set_drafting_statistics(struct sp_package *p, const char *json,
                                                  size_t size, bool retry, struct sp_err *err)
{
    struct sp_json *statistics = NULL;
    enum sp_status st;

    if (p->draft == NULL) return sp_fail(err, SP_E_INPUT, "statistics of drafting without a draft");
    if ((st = sp_json_parse_within(&statistics, json, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err)))
        return st;
    st = sp_drafting_controller_json_read(&p->drafting, statistics, retry, err);
    sp_json_free(statistics);
    return st;
}

enum sp_status sp_package_check_ranks(const struct sp_package *package, struct sp_err *err)
{
    if (package->ranks == NULL) return SP_OK;
    sp_ranks_look(package->ranks);
    return sp_ranks_check(package->ranks, err);
}

enum sp_status sp_package_check_file(const struct sp_package *package, struct sp_err *err)
{
    return sp_pack_check(package->pack, err);
}

void sp_package_close(struct sp_package *package)
{
    if (package == NULL) return;
    sp_token_trie_close(package->trie);
    sp_sampler_close(package->sampler);
    sp_json_free(package->pooling);
    sp_tokenizer_close(package->tokenizer);
    sp_model_close(package->draft);
    sp_model_close(package->target);
    sp_scheduler_close(package->scheduler);
    sp_scheduler_close(package->embedding);
    sp_scheduler_close(package->long_embedding);
    sp_ranks_close(package->ranks);
    sp_backend_release(&package->backend);
    sp_pack_close(package->pack);
    free(package->copy);
    if (package->caches) atomic_fetch_sub(&package->caches->mapped, package->mapped);
    free(package);
}

enum sp_status sp_package_trie(struct sp_package *package, const struct sp_token_trie **out,
                               struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (package->tokenizer == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "a grammar requires a tokenizer, and the file has none");
    }
    if (package->trie == NULL) st = sp_token_trie_open(&package->trie, package->tokenizer, err);
    if (st == SP_OK) *out = package->trie;
    return st;
}

void sp_package_describe(const struct sp_package *package, struct sp_package_info *info)
{
    const struct sp_model *draft = package->draft;
    struct sp_package_info all = {
        .size = sizeof all,
        .kernels = package->backend.kernels->name,
        .n_threads = sp_pool_n_threads(package->backend.pool),
        .n_vocab = package->target->config.n_vocab,
        .max_positions = package->target->config.max_positions,
        .n_eos = package->n_eos,
        .has_tokenizer = package->tokenizer != NULL,
        .identity = sp_pack_identity(package->pack),
        .generates = sp_package_check_generates(package, NULL) == SP_OK,
        .pooling = sp_package_pooling(package),
        .n_embedding =
            sp_pooling_width(&package->target->config.pooling, package->target->config.n_hidden),
        .max_embedding_tokens = sp_package_max_embedding_tokens(package),
        .n_ranks = package->ranks ? package->ranks->transport->n_ranks : 1,
        .n_ranks_here = package->ranks ? package->ranks->transport->n_here : 1,
        .auto_divergence = package->target->cache_divergence,
    };

    if (draft) {
        all.draft = sp_draft_kind_name(draft->config.draft.kind);
        all.max_draft_len = sp_drafter_max_draft_len(draft);
        all.block_size = draft->config.draft.block_size;
    }
    sp_cache_types_count(all.n_auto_caches, package->target);
    memcpy(all.eos, package->eos, sizeof all.eos);
    sp_copy_out(info, &all);
}

void sp_package_describe_ranks(const struct sp_package *package, struct sp_rank_info *info)
{
    struct sp_rank_info all = {.size = sizeof all, .n_numa_nodes = sp_numa_nodes()};
    const struct sp_ranks *ranks = package->ranks;

    if (ranks) {
        all.messages = ranks->traffic.n_messages;
        all.sent = ranks->traffic.sent;
        all.received = ranks->traffic.received;
        all.seconds = ranks->traffic.seconds;
        all.product_seconds = ranks->traffic.product_seconds;
    }
    sp_copy_out(info, &all);
}

const char *sp_package_draft_name(const struct sp_package *package, enum sp_draft_by by,
                                  size_t *max_draft_len)
{
    const struct sp_model *draft = package->draft;
    const struct sp_drafter_ops *ops = draft ? sp_drafter_find(draft->config.draft.kind) : NULL;

    *max_draft_len = 0;
    if (by == SP_DRAFT_BY_NOTHING) return NULL;
    if (by == SP_DRAFT_BY_NGRAM) ops = NULL;
    if (by == SP_DRAFT_BY_DEFAULT && ops) by = SP_DRAFT_BY_MODEL;
    *max_draft_len = ops ? sp_drafter_max_draft_len(draft) : 0;
    if (by == SP_DRAFT_BY_MODEL) return ops ? sp_draft_kind_name(ops->kind) : NULL;
    if (*max_draft_len < SP_DRAFT_NGRAM_MAX) *max_draft_len = SP_DRAFT_NGRAM_MAX;
    return ops ? package->both : SP_LOOKUP_NAME;
}

const struct sp_tokenizer *sp_package_tokenizer(const struct sp_package *package)
{
    return package->tokenizer;
}
