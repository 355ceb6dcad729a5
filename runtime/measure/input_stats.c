/* Sums by input. Where they are shared, the first matrix of a set of products owns the sums of
 * their input, and the others refer to it. A matrix is identified by the address of its panels. */
#include "runtime/measure/input_stats.h"

#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/gptq.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A matrix, or a stack of matrices, of the target or the draft. */
struct slot {
    const char *name;
    enum sp_part part;
    const uint8_t *panels;
    size_t n_matrices, cols;
    float *sums;  /* [n], zero until an input is observed */
    void *memory; /* owned */
    size_t n;
    bool is_observed;
    bool by_matrix; /* the sums are squares, [n_matrices][cols] */
    size_t first;   /* index of the slot that owns the sums */
};

struct sp_input_stats {
    struct slot *slots; /* by address, which is the order of the pack */
    size_t n_slots;
    /* What is observed: */
    enum sp_part part;
    bool shared;
};

static int compare_slots(const void *a, const void *b)
{
    const struct slot *s = a, *t = b;

    return s->panels < t->panels ? -1 : s->panels > t->panels;
}

static enum sp_status open_slot(struct slot *s, const struct sp_pack_tensor *t, struct sp_err *err)
{
    size_t squares;

    s->name = t->name;
    s->part = t->part;
    s->panels = t->data;
    s->cols = (size_t)t->shape[t->rank - 1];
    s->n_matrices = sp_pack_tensor_n_matrices(t);
    if (!sp_gptq_size(&s->n, s->cols) || !sp_mul(&squares, s->n_matrices, s->cols))
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: too many columns", t->name);
    return sp_new_sparse(&s->sums, &s->memory, squares > s->n ? squares : s->n, sizeof *s->sums,
                         err);
}

enum sp_status sp_input_stats_open(struct sp_input_stats **out, const struct sp_pack *pack,
                                   struct sp_err *err)
{
    struct sp_input_stats *g = NULL;
    enum sp_status st;

    if ((st = sp_new(&g, 1, sizeof *g, err))) goto done;
    if ((st = sp_new(&g->slots, sp_pack_n_tensors(pack), sizeof *g->slots, err))) goto done;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        struct slot *s = &g->slots[g->n_slots];
        /* Only matrices that q2 to q6 can store need statistics. */
        if (t->part == SP_PART_FILE || t->layout != SP_PANEL || t->shape[t->rank - 1] % SP_BLOCK)
            continue;
        if ((st = open_slot(s, t, err))) goto done;
        g->n_slots++;
    }
    qsort(g->slots, g->n_slots, sizeof *g->slots, compare_slots);
    for (size_t i = 0; i < g->n_slots; i++)
        g->slots[i].first = i;
    *out = g;
    g = NULL;
done:
    sp_input_stats_close(g);
    return st;
}

void sp_input_stats_close(struct sp_input_stats *stats)
{
    if (stats == NULL) return;
    for (size_t i = 0; i < stats->n_slots; i++)
        free(stats->slots[i].memory);
    free(stats->slots);
    free(stats);
}

static struct slot *find(const struct sp_input_stats *stats, const struct sp_matrix *w)
{
    struct slot key = {.panels = w->panels};

    return bsearch(&key, stats->slots, stats->n_slots, sizeof *stats->slots, compare_slots);
}

struct add_job {
    struct slot *slot;
    const struct sp_acts *acts;
    size_t n_rows;
    const struct sp_gptq_kernels *kernels;
};

static void add_group(void *context, size_t g, unsigned worker)
{
    const struct add_job *job = context;
    size_t cols = job->slot->cols, first = g * SP_GPTQ_GROUP;

    (void)worker;
    job->kernels->accumulate(job->slot->sums + sp_gptq_offset(cols, g), job->acts->x, job->acts->ld,
                             job->n_rows, first, sp_gptq_block_end(cols, first));
}

struct square_job {
    struct slot *slot;
    const struct sp_acts *acts;
    const struct sp_row_group *groups; /* no two are of one matrix */
};

static void add_squares(void *context, size_t g, unsigned worker)
{
    const struct square_job *job = context;
    const struct sp_row_group *group = &job->groups[g];
    float *sums = job->slot->sums + group->matrix * job->slot->cols;

    (void)worker;
    for (size_t t = group->from; t < group->from + group->n; t++) {
        const float *x = job->acts->x + t * job->acts->ld;
        for (size_t k = 0; k < job->slot->cols; k++)
            sums[k] += x[k] * x[k];
    }
}

static void add_inputs(void *context, const struct sp_backend *backend,
                       const struct sp_product *products, size_t n_products,
                       const struct sp_acts *acts, size_t n_rows, const struct sp_row_group *groups,
                       size_t n_groups)
{
    struct sp_input_stats *stats = context;
    struct slot *first = NULL, *owner;

    for (size_t i = 0; i < n_products; i++) {
        struct slot *s = find(stats, products[i].w);
        if (s == NULL || s->part != stats->part) continue;
        assert(s->cols == acts->cols);
        if (groups) {
            s->by_matrix = true;
            s->n = s->n_matrices * s->cols;
            sp_pool_run(backend->pool, n_groups, add_squares,
                        &(struct square_job){s, acts, groups});
        } else if (first == NULL || !stats->shared) {
            first = s;
            sp_pool_run(backend->pool, sp_gptq_n_groups(s->cols), add_group,
                        &(struct add_job){s, acts, n_rows, backend->kernels->tile->gptq});
        }
        owner = groups ? s : first;
        assert(!s->is_observed || s->first == (size_t)(owner - stats->slots));
        s->first = (size_t)(owner - stats->slots);
        s->is_observed = true;
    }
}

struct sp_input_observer sp_input_stats_observer(struct sp_input_stats *stats, enum sp_part part,
                                                 bool shared)
{
    stats->part = part;
    stats->shared = shared;
    return (struct sp_input_observer){add_inputs, stats};
}

bool sp_input_stats_squares(float *out, const struct sp_input_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->n_slots; i++) {
        const struct slot *s = &stats->slots[i];
        if (s->part != SP_PART_TARGET || !s->is_observed || s->by_matrix ||
            strcmp(s->name, name) != 0)
            continue;
        sp_gptq_diagonal(out, stats->slots[s->first].sums, s->cols);
        return true;
    }
    return false;
}

static bool has_sums(const struct sp_input_stats *stats, size_t i)
{
    return stats->slots[i].is_observed && stats->slots[i].first == i;
}

/* The factors of a solved input that is not by matrix, bf16, which take the place of the sums. */
static uint8_t *factors_of(const struct slot *s)
{
    return (uint8_t *)s->sums;
}

static size_t size_of(const struct slot *s)
{
    return s->n * (s->by_matrix ? sizeof *s->sums : sizeof(uint16_t));
}

/* Divides the squares of each matrix by their largest. */
static void bring_to_one(struct slot *s)
{
    for (float *row = s->sums; row < s->sums + s->n; row += s->cols) {
        float largest = 0;
        for (size_t k = 0; k < s->cols; k++)
            largest = row[k] > largest ? row[k] : largest;
        for (size_t k = 0; k < s->cols && largest > 0; k++)
            row[k] /= largest;
    }
}

struct solve_job {
    struct sp_input_stats *stats;
    const struct sp_gptq_kernels *kernels;
    double *workspace; /* [threads][SP_GPTQ_BLOCK^2] */
};

static void solve_slot(void *context, size_t i, unsigned worker)
{
    const struct solve_job *job = context;
    struct slot *s = &job->stats->slots[i];

    if (!has_sums(job->stats, i)) return;
    if (s->by_matrix) {
        bring_to_one(s);
        return;
    }
    sp_gptq_solve(s->sums, s->cols, job->workspace + (size_t)worker * SP_GPTQ_BLOCK * SP_GPTQ_BLOCK,
                  job->kernels);
    sp_write_bf16(factors_of(s), s->sums, s->n);
}

enum sp_status sp_input_stats_solve(struct sp_input_stats *stats, const struct sp_backend *backend,
                                    struct sp_err *err)
{
    struct solve_job job = {stats, backend->kernels->tile->gptq, NULL};
    enum sp_status st = sp_new_aligned(&job.workspace, sp_pool_n_threads(backend->pool),
                                       sizeof *job.workspace * SP_GPTQ_BLOCK * SP_GPTQ_BLOCK, err);

    if (st) return st;
    sp_pool_run(backend->pool, stats->n_slots, solve_slot, &job);
    free(job.workspace);
    for (size_t i = 0; i < stats->n_slots; i++) {
        const struct slot *s = &stats->slots[i];
        if (!has_sums(stats, i)) continue;
        if (s->by_matrix ? sp_gptq_are_squares(s->sums, s->n)
                         : sp_gptq_is_sound(factors_of(s), s->cols))
            continue;
        return sp_fail(err, SP_E_INPUT, "tensor %s: what it reads of the texts is not finite",
                       s->name);
    }
    return SP_OK;
}

struct sp_gptq_weights sp_input_stats_weights(const struct sp_input_stats *stats,
                                              const struct sp_matrix *w)
{
    const struct slot *s = find(stats, w);

    if (s == NULL || !s->is_observed) return (struct sp_gptq_weights){0};
    if (s->by_matrix) return (struct sp_gptq_weights){.squares = s->sums};
    return (struct sp_gptq_weights){.factors = factors_of(&stats->slots[s->first])};
}

struct sp_input_stats_size sp_input_stats_measure(const struct sp_input_stats *stats)
{
    struct sp_input_stats_size size = {0};

    for (size_t i = 0; i < stats->n_slots; i++) {
        size.n_matrices += stats->slots[i].is_observed;
        if (!has_sums(stats, i)) continue;
        size.n_inputs++;
        size.size += size_of(&stats->slots[i]);
    }
    return size;
}

/* ---- writing ---- */

/* The names of the matrices that share the sums of slot `first`, in order, with commas. */
static enum sp_status join_names(char **out, const struct sp_input_stats *stats, size_t first,
                                 struct sp_err *err)
{
    enum sp_status st;
    size_t size = 0, at = 0;
    char *text = NULL;

    for (size_t i = 0; i < stats->n_slots; i++) {
        const struct slot *s = &stats->slots[i];
        if (s->is_observed && s->first == first) size += strlen(s->name) + 1;
    }
    if ((st = sp_new(&text, size, 1, err))) return st;
    for (size_t i = 0; i < stats->n_slots; i++) {
        const struct slot *s = &stats->slots[i];
        size_t len = strlen(s->name);
        if (!s->is_observed || s->first != first) continue;
        if (at) text[at++] = ',';
        memcpy(text + at, s->name, len);
        at += len;
    }
    *out = text;
    return SP_OK;
}

static struct sp_pack_tensor describe(const char *name, const struct slot *s)
{
    struct sp_pack_tensor t = {.name = name,
                               .part = s->part,
                               .dtype = SP_BF16,
                               .layout = SP_PLAIN,
                               .rank = 1,
                               .shape = {s->n}};

    if (s->by_matrix) {
        t.dtype = SP_F32;
        t.rank = 2;
        t.shape[0] = s->n_matrices;
        t.shape[1] = s->cols;
    }
    return t;
}

static enum sp_status fill_tensors(struct sp_pack_tensor *tensors, char **names, size_t *slot_of,
                                   const struct sp_input_stats *stats, struct sp_err *err)
{
    enum sp_status st;
    size_t n = 0;

    for (size_t i = 0; i < stats->n_slots; i++) {
        if (!has_sums(stats, i)) continue;
        if ((st = join_names(&names[n], stats, i, err))) return st;
        tensors[n] = describe(names[n], &stats->slots[i]);
        slot_of[n++] = i;
    }
    return SP_OK;
}

enum sp_status sp_input_stats_write(const struct sp_input_stats *stats, const char *path,
                                    bool force, const char *record, size_t record_size,
                                    struct sp_err *err)
{
    enum sp_status st;
    size_t n = sp_input_stats_measure(stats).n_inputs, *slot_of = NULL;
    struct sp_pack_tensor *tensors = NULL;
    struct sp_pack_writer *w = NULL;
    char **names = NULL;

    if ((st = sp_new(&tensors, n, sizeof *tensors, err))) goto done;
    if ((st = sp_new(&names, n, sizeof *names, err))) goto done;
    if ((st = sp_new(&slot_of, n, sizeof *slot_of, err))) goto done;
    if ((st = fill_tensors(tensors, names, slot_of, stats, err))) goto done;
    if ((st = sp_pack_writer_open(&w, path, force, tensors, n, err))) goto done;
    st = sp_pack_writer_section(w, SP_PART_FILE, SP_SECTION_CALIBRATION, record, record_size, err);
    for (size_t i = 0; i < n && !st; i++) {
        const struct slot *s = &stats->slots[slot_of[i]];
        st = sp_pack_writer_put(w, i, s->sums, size_of(s), err);
    }
    if (!st) st = sp_pack_writer_finish(w, NULL, err);
done:
    sp_pack_writer_close(w);
    for (size_t i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
    free(slot_of);
    free(tensors);
    return st;
}
