/* The executor: threads share a ring of chunks, which are converted in parallel and written in
 * order.
 *
 * Every thread does the same: if the oldest chunk is converted and no other thread writes, it
 * writes that chunk; else it takes the next chunk off the plan and converts it; if neither can be
 * done, it waits. So chunks are written one at a time and in order, as the digest of a tensor
 * requires, and no thread waits for a round to end. Every chunk is a function of its rows. Failures
 * are reported in order, too: the first one of the plan, whatever the number of threads.
 *
 * Mapped pages of a packed source count as memory, so those of a written chunk are released. The
 * thread that writes checks the digests of a packed source. */
#include "convert/create/plan.h"

#include "convert/source/source.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "quantize/codec.h"
#include "quantize/types/gptq.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    CHUNKS_PER_THREAD = 3,    /* slots of the ring: one converts, one waits, one is free */
    CHUNK_ELEMENTS = 1 << 19, /* of a chunk, unless a single panel has more */
    RUN_ELEMENTS = 1 << 16,   /* converted at a time, so that they stay in a core's own cache */
    COPY_SIZE = 8 << 20,      /* bytes of a chunk that is copied unchanged */
};

/* The bytes that the buffers of all threads and of the ring should take at most. */
static const size_t MEMORY = (size_t)160 << 20;

/* A part of one item: whole panels of a matrix, or all of anything else, or bytes to copy. */
struct chunk {
    const struct sp_plan_item *item;
    size_t index;                   /* number of the item, and of the writer's tensor */
    uint64_t first_panel, n_panels; /* of a matrix; of other items: bytes */
    const uint8_t *bytes;           /* [size] the output: `out`, or mapped bytes */
    size_t size;
    const uint8_t *mapped; /* [mapped_size] the input in a packed source; NULL: a checkpoint */
    size_t mapped_size;
    bool ends_item;
    uint64_t source_size; /* the chunk's part of the item's source_size, for progress */
    uint8_t *out;         /* [out_cap], owned by the slot */
    size_t out_cap;
    bool converted;
    struct sp_err err; /* of the conversion */
};

/* The buffers of one thread. */
struct worker {
    struct sp_scratch scratch;
    float *floats;
    size_t cap;                       /* floats */
    struct sp_gptq_room room;         /* for calibrated items */
    const struct sp_encoder *encoder; /* borrowed from the executor */
};

/* The place in the plan where the next chunk begins. */
struct cursor {
    size_t item;
    uint64_t done; /* panels of a matrix, bytes of a copy */
};

struct executor {
    const struct sp_plan *plan;
    struct sp_pack_writer *writer;
    struct worker *workers;
    unsigned n_workers;
    struct sp_encoder encoder;
    size_t chunk_elements;
    const struct sp_create_callbacks *callbacks;
    uint64_t total;            /* bytes of sources */
    struct sp_hash *read_hash; /* of the input in a packed source, for the thread that writes */

    pthread_mutex_t lock; /* protects the members that follow */
    pthread_cond_t changed;
    struct chunk *ring; /* [n_slots]; chunk i is in slot i % n_slots */
    size_t n_slots;
    uint64_t n_taken, n_written; /* chunks */
    struct cursor cursor;
    bool writing; /* a thread writes a chunk */
    uint64_t done;
    struct sp_err err; /* the first failure, which stops all */
};

static uint64_t panels_per_matrix(const struct sp_tensor_spec *spec)
{
    return (spec->shape[spec->rank - 2] + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
}

static uint64_t n_panels(const struct sp_tensor_spec *spec)
{
    return sp_spec_rows(spec) / spec->shape[spec->rank - 2] * panels_per_matrix(spec);
}

/* Number of the panel's first row, over all matrices; of one past the last panel: all rows. */
static uint64_t first_row_of(const struct sp_tensor_spec *spec, uint64_t panel)
{
    uint64_t per_matrix = panels_per_matrix(spec);

    return panel / per_matrix * spec->shape[spec->rank - 2] + panel % per_matrix * SP_PANEL_ROWS;
}

static bool is_matrix(const struct sp_plan_item *item)
{
    return item->bytes == NULL && item->layout == SP_PANEL;
}

static const struct sp_pack_tensor *packed_tensor(const struct chunk *c)
{
    const struct sp_source *source = c->item->source;

    return sp_pack_find(source->pack, source->part, c->item->spec->name);
}

static enum sp_status check_packed(const struct chunk *c, struct sp_err *err)
{
    const struct sp_pack *pack = c->item->source->pack;

    return sp_pack_check_tensor(pack, (size_t)(packed_tensor(c) - sp_pack_tensor(pack, 0)), err);
}

/* The part of a packed source's tensor that a chunk is made of. */
static void find_mapped(struct chunk *c)
{
    const struct sp_pack_tensor *t;
    size_t panel_size = 0;

    c->mapped = NULL;
    if (c->item->source->pack == NULL) return;
    t = packed_tensor(c);
    if (is_matrix(c->item)) {
        (void)sp_panel_size(&panel_size, t->dtype, (size_t)t->shape[t->rank - 1]);
        c->mapped = t->data + c->first_panel * panel_size;
        c->mapped_size = (size_t)c->n_panels * panel_size;
    } else {
        c->mapped = c->bytes ? c->bytes : t->data;
        c->mapped_size = c->bytes ? c->size : t->size;
    }
}

/* Takes the next chunk off the plan. Returns false at the end of the plan. */
static bool next_chunk(struct executor *x, struct chunk *c)
{
    const struct sp_plan_item *item;
    uint64_t all, n;

    if (x->cursor.item == x->plan->n_items) return false;
    item = &x->plan->items[x->cursor.item];
    c->item = item;
    c->index = x->cursor.item;
    if (is_matrix(item)) {
        all = n_panels(item->spec);
        n = x->chunk_elements / (sp_spec_cols(item->spec) * SP_PANEL_ROWS);
        if (n == 0) n = 1;
    } else {
        all = item->size;
        n = item->bytes ? COPY_SIZE : all;
    }
    if (n > all - x->cursor.done) n = all - x->cursor.done;
    c->first_panel = x->cursor.done;
    c->n_panels = n;
    c->bytes = item->bytes ? item->bytes + x->cursor.done : NULL;
    c->size = (size_t)n;
    find_mapped(c);
    x->cursor.done += n;
    c->ends_item = x->cursor.done == all;
    /* The bytes before the end of the chunk less those before its start: so they add up. */
    c->source_size =
        (uint64_t)((double)item->source_size * ((double)x->cursor.done / (double)all)) -
        (uint64_t)((double)item->source_size * ((double)c->first_panel / (double)all));
    if (x->cursor.done == all) x->cursor = (struct cursor){x->cursor.item + 1, 0};
    return true;
}

static void smooth(float *x, size_t n, const struct sp_plan_item *item)
{
    if (item->exponents == NULL) return;
    sp_smoothing_apply(x, n, item->spec->role, &item->source->config, item->exponents,
                       (size_t)sp_spec_cols(item->spec), false);
}

static enum sp_status fail_columns(size_t cols, struct sp_err *err)
{
    return sp_fail(err, SP_E_UNSUPPORTED, "a panel of %zu columns is too large", cols);
}

/* Encodes a panel of m rows x, the first of which is row `row`. */
static enum sp_status encode_panel(uint8_t *out, const struct sp_plan_item *item, struct worker *w,
                                   const float *x, uint64_t row, size_t m, struct sp_err *err)
{
    size_t cols = (size_t)sp_spec_cols(item->spec);
    const float *factors;
    enum sp_status st = sp_gptq_prepare(&factors, &w->room, item->weights,
                                        (size_t)(row / item->spec->shape[item->spec->rank - 2]),
                                        cols, item->exponents, err);

    if (st) return st;
    return sp_panel_encode(out, item->to, w->encoder, x, m, cols, row, factors, w->room.workspace,
                           err);
}

/* Converts rows row..end-1 to panels of `panel_size` bytes, or takes over their codes. */
static enum sp_status convert_run(uint8_t *out, const struct sp_plan_item *item, struct worker *w,
                                  uint64_t row, uint64_t end, size_t panel_size, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_tensor_spec *spec = item->spec;
    uint64_t rows = spec->shape[spec->rank - 2];
    size_t cols = (size_t)sp_spec_cols(spec);
    struct sp_stored stored;

    st = item->keeps_codes
             ? sp_source_stored(&stored, item->source, spec, err)
             : sp_source_read_rows(w->floats, item->source, spec, row, end - row, &w->scratch, err);
    if (!st && !item->keeps_codes) smooth(w->floats, (size_t)(end - row) * cols, item);
    for (const float *x = w->floats; row < end && !st; out += panel_size) {
        uint64_t left = rows - row % rows;
        size_t m = left < SP_PANEL_ROWS ? (size_t)left : SP_PANEL_ROWS;
        st = item->keeps_codes
                 ? sp_source_read_codes(out, item->source, spec, &stored, row, m, &w->scratch, err)
                 : encode_panel(out, item, w, x, row, m, err);
        x += m * cols;
        row += m;
    }
    return st;
}

static enum sp_status convert_panels(struct chunk *c, struct worker *w, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_tensor_spec *spec = c->item->spec;
    uint64_t end = c->first_panel + c->n_panels, most;
    size_t cols = (size_t)sp_spec_cols(spec), panel_size = 0, panel, n;
    uint8_t *out;

    if (!sp_panel_size(&panel_size, c->item->to, cols) ||
        !sp_mul(&c->size, panel_size, (size_t)c->n_panels) || !sp_mul(&panel, cols, SP_PANEL_ROWS))
        return fail_columns(cols, err);
    most = panel < RUN_ELEMENTS ? RUN_ELEMENTS / panel : 1;
    if (!sp_mul(&n, (size_t)most, panel)) return fail_columns(cols, err);
    if ((st = sp_reserve(&c->out, &c->out_cap, c->size, 1, err))) return st;
    if ((st = sp_reserve(&w->floats, &w->cap, n, sizeof *w->floats, err))) return st;
    out = c->out;
    for (uint64_t p = c->first_panel; p < end; p += most) {
        uint64_t after = end - p < most ? end : p + most;
        st = convert_run(out, c->item, w, first_row_of(spec, p), first_row_of(spec, after),
                         panel_size, err);
        if (st) return st;
        out += (after - p) * panel_size;
    }
    return SP_OK;
}

static enum sp_status convert_plain(struct chunk *c, struct worker *w, struct sp_err *err)
{
    enum sp_status st;
    size_t n = (size_t)sp_spec_elements(c->item->spec);

    if ((st = sp_reserve(&c->out, &c->out_cap, c->size, 1, err))) return st;
    if ((st = sp_reserve(&w->floats, &w->cap, n, sizeof *w->floats, err))) return st;
    st = sp_source_read_rows(w->floats, c->item->source, c->item->spec, 0, SP_ALL_ROWS, &w->scratch,
                             err);
    if (st) return st;
    smooth(w->floats, n, c->item);
    return sp_encode_floats(c->out, c->item->to, w->floats, n, 0, err);
}

static void convert(struct chunk *c, struct worker *w)
{
    struct sp_err damage = {0};

    c->err = damage;
    if (c->item->bytes) return;
    if ((is_matrix(c->item) ? convert_panels : convert_plain)(c, w, &c->err)) {
        sp_context(&c->err, "%s: tensor %s", c->item->source->path, c->item->spec->name);
        /* Numbers that cannot be converted are often damage, which is reported instead. */
        if (c->mapped && check_packed(c, &damage)) c->err = damage;
    }
    c->bytes = c->out;
}

/* Checks the digest of a tensor of a packed source, so that damage gets no new, valid digest. */
static enum sp_status check_read(struct executor *x, const struct chunk *c, struct sp_err *err)
{
    if (c->mapped == NULL) return SP_OK;
    sp_hash_update(x->read_hash, c->mapped, c->mapped_size);
    if (!c->ends_item) return SP_OK;
    if (sp_hash_digest(x->read_hash) != packed_tensor(c)->digest) return check_packed(c, err);
    sp_hash_reset(x->read_hash);
    return SP_OK;
}

static enum sp_status write_chunk(struct executor *x, const struct chunk *c, struct sp_err *err)
{
    enum sp_status st;

    if (c->err.status) return sp_fail_as(err, &c->err);
    if ((st = check_read(x, c, err))) return st;
    if (x->writer && (st = sp_pack_writer_put(x->writer, c->index, c->bytes, c->size, err)))
        return st;
    if (c->mapped) sp_file_unload(c->mapped, c->mapped_size);
    return SP_OK;
}

/* Writes the oldest chunk. Returns false if it is not converted, or another thread writes. The
 * caller holds the lock, which is released while the chunk is written. */
static bool try_write(struct executor *x)
{
    struct chunk *c = &x->ring[x->n_written % x->n_slots];
    struct sp_err err = {0};

    if (x->writing || x->n_written == x->n_taken || !c->converted) return false;
    x->writing = true;
    pthread_mutex_unlock(&x->lock);
    (void)!write_chunk(x, c, &err);
    pthread_mutex_lock(&x->lock);
    x->writing = false;
    sp_fail_as(&x->err, &err);
    x->n_written++;
    x->done += c->source_size;
    pthread_cond_broadcast(&x->changed);
    return true;
}

/* Converts the next chunk. Returns false if there is none, or no free slot. The caller holds the
 * lock, which is released while the chunk is converted. */
static bool try_convert(struct executor *x, struct worker *w)
{
    struct chunk *c = &x->ring[x->n_taken % x->n_slots];

    if (x->n_taken - x->n_written == x->n_slots || !next_chunk(x, c)) return false;
    c->converted = false;
    x->n_taken++;
    pthread_mutex_unlock(&x->lock);
    convert(c, w);
    pthread_mutex_lock(&x->lock);
    c->converted = true;
    pthread_cond_broadcast(&x->changed);
    return true;
}

/* Reports progress. The caller holds the lock, which is released during the call. */
static void report(struct executor *x)
{
    uint64_t done = x->done;
    int cancelled;

    if (x->callbacks->progress == NULL) return;
    pthread_mutex_unlock(&x->lock);
    cancelled = x->callbacks->progress(x->callbacks->context, done, x->total);
    pthread_mutex_lock(&x->lock);
    if (cancelled) sp_fail(&x->err, SP_E_CANCELLED, "interrupted");
}

/* The work of one thread; worker 0 is the caller, which alone reports progress. */
static void work(void *context, size_t item, unsigned worker)
{
    struct executor *x = context;
    (void)item;

    pthread_mutex_lock(&x->lock);
    while (!x->err.status && !(x->cursor.item == x->plan->n_items && x->n_written == x->n_taken)) {
        if (try_write(x)) {
            if (worker == 0) report(x);
        } else if (!try_convert(x, &x->workers[worker])) {
            pthread_cond_wait(&x->changed, &x->lock);
        }
    }
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static enum sp_status open_executor(struct executor *x, unsigned n_threads, struct sp_err *err)
{
    enum sp_status st;
    /* Bytes per element and thread: outputs of f32 at worst, and scratch twice over. */
    size_t each = CHUNKS_PER_THREAD * 4 + 2 * 8;

    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->n_workers = n_threads;
    x->chunk_elements = MEMORY / (each * n_threads);
    if (x->chunk_elements > CHUNK_ELEMENTS) x->chunk_elements = CHUNK_ELEMENTS;
    if ((st = sp_hash_new(&x->read_hash, err))) return st;
    if ((st = sp_new(&x->workers, n_threads, sizeof *x->workers, err))) return st;
    x->n_slots = (size_t)CHUNKS_PER_THREAD * n_threads;
    if ((st = sp_new(&x->ring, x->n_slots, sizeof *x->ring, err))) return st;
    sp_encoder_init(&x->encoder);
    for (unsigned i = 0; i < n_threads; i++) {
        x->workers[i].encoder = &x->encoder;
        if ((st = sp_scratch_open(&x->workers[i].scratch, RUN_ELEMENTS * 4, err))) return st;
    }
    return SP_OK;
}

static void close_executor(struct executor *x)
{
    for (size_t i = 0; x->ring && i < x->n_slots; i++)
        free(x->ring[i].out);
    free(x->ring);
    for (unsigned i = 0; x->workers && i < x->n_workers; i++) {
        sp_scratch_release(&x->workers[i].scratch);
        free(x->workers[i].floats);
        sp_gptq_room_release(&x->workers[i].room);
    }
    free(x->workers);
    sp_hash_free(x->read_hash);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
}

enum sp_status sp_plan_execute(const struct sp_plan *plan, struct sp_pack_writer *writer,
                               struct sp_pool *pool, const struct sp_create_callbacks *callbacks,
                               struct sp_err *err)
{
    enum sp_status st;
    struct executor x = {.plan = plan, .writer = writer, .callbacks = callbacks};

    for (size_t i = 0; i < plan->n_items; i++)
        x.total += plan->items[i].source_size;
    if ((st = open_executor(&x, sp_pool_n_threads(pool), err))) goto done;
    sp_pool_run(pool, x.n_workers, work, &x);
    if (!x.err.status) {
        pthread_mutex_lock(&x.lock);
        report(&x);
        pthread_mutex_unlock(&x.lock);
    }
    if (x.err.status) st = sp_fail_as(err, &x.err);
done:
    close_executor(&x);
    return st;
}
