/* The executor: a two-stage pipeline over batches of chunks. One pool run converts batch k and, as
 * one more item, writes batch k - 1; the writer is a single item because a tensor's digest runs
 * over its bytes in order. */
#include "convert/execute.h"

#include "format/mem.h"
#include "quantize/codec.h"

#include <stdlib.h>

enum {
    CHUNKS_PER_THREAD = 2,    /* of a batch: the slowest chunk should not idle the others long */
    CHUNK_ELEMENTS = 1 << 19, /* wanted; a chunk is at least one panel */
    COPY_SIZE = 4 << 20,      /* bytes of a chunk that is copied as it is */
};

/* Floats and scratch of the threads, and two batches of outputs, should stay below this. */
static const size_t MEMORY = (size_t)160 << 20;

/* A part of one item: whole panels of a matrix, or all of anything else, or bytes to copy. */
struct chunk {
    const struct sp_plan_item *item;
    size_t index;                   /* of the item: the writer's tensor */
    uint64_t first_panel, n_panels; /* matrices */
    const uint8_t *bytes;           /* what is written: `out`, or mapped bytes */
    size_t size;
    uint64_t source_size; /* share of the item's, for progress */
    uint8_t *out;         /* [out_cap], owned by the slot */
    size_t out_cap;
    enum sp_status status;
    struct sp_err err;
};

struct batch {
    struct chunk *chunks; /* [cap] slots */
    size_t n, cap;
};

/* One thread's room. */
struct worker {
    struct sp_scratch scratch;
    float *floats;
    size_t cap;                        /* floats */
    const struct sp_encoder *encoders; /* borrowed from the executor */
};

/* Where the next chunk begins. */
struct cursor {
    size_t item;
    uint64_t done; /* panels of a matrix, bytes of a copy */
};

struct executor {
    const struct sp_plan *plan;
    struct sp_pack_writer *writer;
    struct worker *workers;
    unsigned n_workers;
    struct sp_encoder encoders[2]; /* by whether a source has small codes */
    size_t chunk_elements;
    struct batch batches[2];
    struct batch *converting, *writing;
    struct cursor cursor;
    enum sp_status write_status;
    struct sp_err write_err;
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

/* Most panels of a chunk. */
static uint64_t chunk_panels(const struct executor *x, const struct sp_plan_item *item)
{
    uint64_t panel = sp_spec_cols(item->spec) * SP_PANEL_ROWS;
    uint64_t n = x->chunk_elements / panel;

    return n ? n : 1;
}

static bool is_matrix(const struct sp_plan_item *item)
{
    return item->bytes == NULL && item->layout == SP_PANEL;
}

/* Takes the next chunk off the plan; false at its end. */
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
        n = chunk_panels(x, item);
    } else {
        all = item->size;
        n = item->bytes ? COPY_SIZE : all;
    }
    if (n > all - x->cursor.done) n = all - x->cursor.done;
    c->first_panel = x->cursor.done;
    c->n_panels = n;
    c->bytes = item->bytes ? item->bytes + x->cursor.done : NULL;
    c->size = (size_t)n;
    x->cursor.done += n;
    /* Shares add up: the part before the end of this chunk less the part before its start. */
    c->source_size =
        (uint64_t)((double)item->source_size * ((double)x->cursor.done / (double)all)) -
        (uint64_t)((double)item->source_size * ((double)c->first_panel / (double)all));
    if (x->cursor.done == all) x->cursor = (struct cursor){x->cursor.item + 1, 0};
    return true;
}

static enum sp_status grow_out(struct chunk *c, size_t size, struct sp_err *err)
{
    enum sp_status st;

    if (size <= c->out_cap) return SP_OK;
    free(c->out);
    c->out = NULL;
    c->out_cap = 0;
    if ((st = sp_new_aligned(&c->out, size, 1, err))) return st;
    c->out_cap = size;
    return SP_OK;
}

static enum sp_status grow_floats(struct worker *w, size_t n, struct sp_err *err)
{
    enum sp_status st;

    if (n <= w->cap) return SP_OK;
    free(w->floats);
    w->floats = NULL;
    w->cap = 0;
    if ((st = sp_new_aligned(&w->floats, n, sizeof *w->floats, err))) return st;
    w->cap = n;
    return SP_OK;
}

static enum sp_status grow_scratch(struct worker *w, const struct sp_plan_item *item,
                                   struct sp_err *err)
{
    enum sp_status st;
    size_t need;

    if ((st = sp_source_scratch(&need, item->source, item->spec, err))) return st;
    if (need <= w->scratch.size) return SP_OK;
    sp_scratch_release(&w->scratch);
    return sp_scratch_open(&w->scratch, need, err);
}

static enum sp_status convert_panels(struct chunk *c, struct worker *w, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_tensor_spec *spec = c->item->spec;
    uint64_t row = first_row_of(spec, c->first_panel);
    uint64_t end = first_row_of(spec, c->first_panel + c->n_panels);
    size_t cols = (size_t)sp_spec_cols(spec), panel_size = 0, n;
    uint64_t rows = spec->shape[spec->rank - 2];
    const struct sp_encoder *encoder = &w->encoders[c->item->small_codes];
    uint8_t *out;

    if (!sp_panel_size(&panel_size, c->item->to, cols) ||
        !sp_mul(&c->size, panel_size, (size_t)c->n_panels) ||
        !sp_mul(&n, (size_t)(end - row), cols)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "a panel of %zu columns is too large", cols);
    }
    if ((st = grow_out(c, c->size, err)) || (st = grow_floats(w, n, err))) return st;
    st = sp_source_read_rows(w->floats, c->item->source, spec, row, end - row, &w->scratch, err);
    if (st) return st;
    out = c->out;
    for (const float *x = w->floats; row < end; out += panel_size) {
        uint64_t left = rows - row % rows;
        size_t m = left < SP_PANEL_ROWS ? (size_t)left : SP_PANEL_ROWS;

        if ((st = sp_panel_encode(out, c->item->to, encoder, x, m, cols, row, err))) return st;
        x += m * cols;
        row += m;
    }
    return SP_OK;
}

static enum sp_status convert_plain(struct chunk *c, struct worker *w, struct sp_err *err)
{
    enum sp_status st;
    size_t n = (size_t)sp_spec_elements(c->item->spec);

    if ((st = grow_out(c, c->size, err)) || (st = grow_floats(w, n, err))) return st;
    st = sp_source_read_all(w->floats, c->item->source, c->item->spec, &w->scratch, err);
    if (st) return st;
    return sp_encode_floats(c->out, c->item->to, w->floats, n, 0, err);
}

static void convert(struct chunk *c, struct worker *w)
{
    c->status = SP_OK;
    c->err = (struct sp_err){0};
    if (c->item->bytes) return;
    c->status = grow_scratch(w, c->item, &c->err);
    if (!c->status) {
        c->status =
            is_matrix(c->item) ? convert_panels(c, w, &c->err) : convert_plain(c, w, &c->err);
    }
    if (c->status) sp_context(&c->err, "%s: tensor %s", c->item->source->path, c->item->spec->name);
    c->bytes = c->out;
}

static void write_batch(struct executor *x)
{
    for (size_t i = 0; i < x->writing->n && !x->write_status; i++) {
        struct chunk *c = &x->writing->chunks[i];

        x->write_status = sp_pack_writer_put(x->writer, c->index, c->bytes, c->size, &x->write_err);
    }
}

/* Item 0 writes, the others convert. */
static void run_item(void *context, size_t item, unsigned worker)
{
    struct executor *x = context;

    if (item == 0)
        write_batch(x);
    else
        convert(&x->converting->chunks[item - 1], &x->workers[worker]);
}

/* Converts one batch while the one before it is written; *source_size counts what was written. */
static enum sp_status step(struct executor *x, struct sp_pool *pool, uint64_t *source_size,
                           struct sp_err *err)
{
    struct batch *done;

    x->converting->n = 0;
    while (x->converting->n < x->converting->cap &&
           next_chunk(x, &x->converting->chunks[x->converting->n])) {
        x->converting->n++;
    }
    sp_pool_run(pool, 1 + x->converting->n, run_item, x);
    if (x->write_status) return sp_fail(err, x->write_status, "%s", x->write_err.text);
    for (size_t i = 0; i < x->converting->n; i++) {
        const struct chunk *c = &x->converting->chunks[i];

        if (c->status) return sp_fail(err, c->status, "%s", c->err.text);
    }
    for (size_t i = 0; i < x->writing->n; i++) {
        *source_size += x->writing->chunks[i].source_size;
    }
    done = x->writing;
    x->writing = x->converting;
    x->converting = done;
    return SP_OK;
}

static enum sp_status open_executor(struct executor *x, unsigned n_threads, struct sp_err *err)
{
    enum sp_status st;
    /* Bytes per element and thread: floats, scratch twice over, and outputs of f32 at worst. */
    size_t each = 4 + 2 * 8 + 2 * CHUNKS_PER_THREAD * 4;

    x->n_workers = n_threads;
    x->chunk_elements = MEMORY / (each * n_threads);
    if (x->chunk_elements > CHUNK_ELEMENTS) x->chunk_elements = CHUNK_ELEMENTS;
    if ((st = sp_new(&x->workers, n_threads, sizeof *x->workers, err))) return st;
    for (int b = 0; b < 2; b++) {
        x->batches[b].cap = (size_t)CHUNKS_PER_THREAD * n_threads;
        st = sp_new(&x->batches[b].chunks, x->batches[b].cap, sizeof *x->batches[b].chunks, err);
        if (st) return st;
    }
    sp_encoder_init(&x->encoders[0]);
    x->encoders[1] = x->encoders[0];
    x->encoders[1].small_codes = true;
    for (unsigned i = 0; i < n_threads; i++) {
        x->workers[i].encoders = x->encoders;
        st = sp_scratch_open(&x->workers[i].scratch, x->chunk_elements * 4, err);
        if (st) return st;
    }
    x->converting = &x->batches[0];
    x->writing = &x->batches[1];
    return SP_OK;
}

static void close_executor(struct executor *x)
{
    for (int b = 0; b < 2; b++) {
        for (size_t i = 0; x->batches[b].chunks && i < x->batches[b].cap; i++) {
            free(x->batches[b].chunks[i].out);
        }
        free(x->batches[b].chunks);
    }
    for (unsigned i = 0; x->workers && i < x->n_workers; i++) {
        sp_scratch_release(&x->workers[i].scratch);
        free(x->workers[i].floats);
    }
    free(x->workers);
}

enum sp_status sp_plan_open_writer(struct sp_pack_writer **out, const struct sp_plan *plan,
                                   const char *path, bool force, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack_tensor *tensors = NULL;

    if ((st = sp_new(&tensors, plan->n_items, sizeof *tensors, err))) return st;
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];

        tensors[i] = (struct sp_pack_tensor){.name = item->spec->name,
                                             .part = item->part,
                                             .dtype = item->to,
                                             .layout = item->layout,
                                             .rank = item->spec->rank};
        for (unsigned d = 0; d < item->spec->rank; d++) {
            tensors[i].shape[d] = item->spec->shape[d];
        }
    }
    st = sp_pack_writer_open(out, path, force, tensors, plan->n_items, err);
    free(tensors);
    return st;
}

enum sp_status sp_plan_execute(const struct sp_plan *plan, struct sp_pack_writer *writer,
                               struct sp_pool *pool,
                               int (*progress)(void *context, uint64_t done, uint64_t total),
                               void *context, struct sp_err *err)
{
    enum sp_status st;
    struct executor x = {.plan = plan, .writer = writer};
    uint64_t done = 0, total = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        total += plan->items[i].source_size;
    }
    if ((st = open_executor(&x, sp_pool_n_threads(pool), err))) goto done;
    do {
        if ((st = step(&x, pool, &done, err))) goto done;
        if (progress && progress(context, done, total)) {
            st = sp_fail(err, SP_E_CHECK, "cancelled");
            goto done;
        }
    } while (x.writing->n);
done:
    close_executor(&x);
    return st;
}
