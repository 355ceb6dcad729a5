#include "convert/export/export_plan.h"

#include "convert/source/source.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/safetensors_write.h"
#include "quantize/codec.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_ELEMENTS = 1 << 19,      /* of a chunk, unless a single row has more */
    TRANSPOSED_ELEMENTS = 1 << 21, /* of a chunk whose columns are written one by one */
    RUN_ELEMENTS = 1 << 16,        /* decoded at a time, so that they stay in a core's own cache */
    ROW_STEP = 2 * SP_PANEL_ROWS,  /* chunks of two tensors in turn hold whole panels of both */
};

/* Rows of an item, counted by its cuts from first_cut on; if item is NULL, a stored tensor whose
 * digest is to be checked. */
struct chunk {
    const struct sp_export_item *item;
    size_t first_cut, n_cuts;
    size_t tensor; /* the item's number, or that of the packed tensor */
    const struct sp_pack *pack;
    uint64_t row, n_rows;
};

/* The buffers of one thread. */
struct worker {
    struct sp_scratch scratch;
    float *rows; /* of a chunk */
    float *run;  /* stored rows on their way there */
    uint8_t *bytes;
    size_t rows_cap, run_cap, bytes_cap;
};

struct exporter {
    const struct sp_export_plan *plan;
    struct sp_safetensors_writer *writer;
    struct chunk *chunks;
    size_t n_chunks, cap_chunks;
    struct worker *workers;
    unsigned n_workers;
    const struct sp_export_progress *progress;

    pthread_mutex_t lock; /* protects the members that follow */
    uint64_t done;
    size_t failed; /* the first chunk that failed; n_chunks: none */
    struct sp_err err;
};

/* ---- chunks ---- */

/* All cuts of a chunk, or of what will become chunks, have as many rows as the first. */
static const struct sp_row_span *piece_of(const struct exporter *x, const struct chunk *chunk)
{
    return &x->plan->cuts[chunk->first_cut].span;
}

static enum sp_status add_chunk(struct exporter *x, struct chunk chunk, struct sp_err *err)
{
    enum sp_status st;

    st = sp_grow(&x->chunks, &x->cap_chunks, x->n_chunks + 1, sizeof *x->chunks, err);
    if (st == SP_OK) x->chunks[x->n_chunks++] = chunk;
    return st;
}

/* Adds a check of each stored tensor, once, before the first item that is made of it. */
static enum sp_status add_checks(struct exporter *x, const struct sp_export_item *item,
                                 bool *checked, struct sp_err *err)
{
    for (size_t i = item->first_cut; i < item->first_cut + item->n_cuts; i++) {
        const struct sp_export_cut *c = &x->plan->cuts[i];
        const struct sp_pack *pack = c->source->pack;
        const struct sp_pack_tensor *t = sp_pack_find(pack, c->source->part, c->spec->name);
        size_t number = (size_t)(t - sp_pack_tensor(pack, 0));
        enum sp_status st;
        if (checked[number]) continue;
        checked[number] = true;
        st = add_chunk(x, (struct chunk){.tensor = number, .pack = pack}, err);
        if (st) return st;
    }
    return SP_OK;
}

/* Rows first..last-1 of `like`, which has all else. */
static enum sp_status add_rows(struct exporter *x, struct chunk like, uint64_t first, uint64_t last,
                               struct sp_err *err)
{
    const struct sp_row_span *span = piece_of(x, &like);
    const struct sp_safetensor *tensor = &like.item->tensor;
    uint64_t most = CHUNK_ELEMENTS / span->n_cols, n;
    uint64_t matrix = last; /* rows of one matrix, which no chunk of transposed rows leaves */
    enum sp_status st = SP_OK;

    if (span->transposed) {
        matrix = tensor->shape[tensor->rank - 1];
        most = TRANSPOSED_ELEMENTS / span->n_cols;
    }
    if (most > ROW_STEP) most -= most % ROW_STEP;
    if (most == 0) most = 1;
    for (like.row = first; st == SP_OK && like.row < last; like.row += n) {
        n = matrix - like.row % matrix;
        if (n > last - like.row) n = last - like.row;
        if (n > most) n = most;
        like.n_rows = n;
        st = add_chunk(x, like, err);
    }
    return st;
}

/* Chunks of an item whose cuts are not all whole rows, or all whole columns: one chunk for each
 * cut. */
static enum sp_status add_cuts(struct exporter *x, struct chunk like, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t end = like.first_cut + like.n_cuts;

    like.n_cuts = 1;
    for (; st == SP_OK && like.first_cut < end; like.first_cut++) {
        const struct sp_row_span *span = piece_of(x, &like);
        st = add_rows(x, like, span->first_row, span->first_row + span->n_rows, err);
    }
    return st;
}

static enum sp_status add_item(struct exporter *x, size_t number, struct sp_err *err)
{
    const struct sp_export_item *item = &x->plan->items[number];
    struct chunk all = {.item = item,
                        .tensor = number,
                        .first_cut = item->first_cut,
                        .n_cuts = item->n_cuts,
                        .n_rows = 1};

    if (item->marks_tokens) return add_chunk(x, all, err);
    if (piece_of(x, &all)->pitch) return add_cuts(x, all, err);
    return add_rows(x, all, 0, sp_export_elements(item) / piece_of(x, &all)->n_cols, err);
}

static enum sp_status cut_chunks(struct exporter *x, struct sp_err *err)
{
    const struct sp_pack *pack = x->plan->cuts[0].source->pack;
    enum sp_status st = SP_OK;
    bool *checked = NULL;

    if (pack && (st = sp_new(&checked, sp_pack_n_tensors(pack), sizeof *checked, err))) return st;
    for (size_t i = 0; st == SP_OK && i < x->plan->n_items; i++) {
        if (pack) st = add_checks(x, &x->plan->items[i], checked, err);
        if (st == SP_OK) st = add_item(x, i, err);
    }
    free(checked);
    return st;
}

/* ---- one chunk ---- */

/* Rows first..first+n-1 of a matrix into the worker's run: whole panels of them, so that *skipped
 * rows stand in front; *n becomes how many of the wanted ones there are. */
static enum sp_status read_panels(struct worker *w, const struct sp_export_cut *c, uint64_t first,
                                  uint64_t *n, uint64_t *skipped, struct sp_err *err)
{
    const struct sp_tensor_spec *spec = c->spec;
    uint64_t rows = spec->shape[spec->rank - 2], cols = sp_spec_cols(spec), inside = first % rows;
    uint64_t begin = first - inside % SP_PANEL_ROWS, most = RUN_ELEMENTS / cols, end;
    enum sp_status st;

    most = most > SP_PANEL_ROWS ? most - most % SP_PANEL_ROWS : SP_PANEL_ROWS;
    end = begin + most;
    if (end > first + *n) end = begin + sp_round_up((size_t)(first + *n - begin), SP_PANEL_ROWS);
    if (end > first - inside + rows) end = first - inside + rows;
    if ((st =
             sp_reserve(&w->run, &w->run_cap, (size_t)((end - begin) * cols), sizeof *w->run, err)))
        return st;
    st = sp_source_read_rows(w->run, c->source, spec, begin, end - begin, &w->scratch, err);
    if (st) return st;
    *skipped = first - begin;
    if (*n > end - first) *n = end - first;
    return SP_OK;
}

/* All of a vector or small tensor, whose first rows are skipped. */
static enum sp_status read_whole(struct worker *w, const struct sp_export_cut *c, uint64_t first,
                                 uint64_t *skipped, struct sp_err *err)
{
    enum sp_status st;

    st = sp_reserve(&w->run, &w->run_cap, (size_t)sp_spec_elements(c->spec), sizeof *w->run, err);
    if (st) return st;
    *skipped = first;
    return sp_source_read_rows(w->run, c->source, c->spec, 0, SP_ALL_ROWS, &w->scratch, err);
}

/* Releases the memory of the mapped panels that rows first..last were read from. */
static void unload_panels(const struct sp_export_cut *c, const struct sp_stored *stored,
                          uint64_t first, uint64_t last)
{
    uint64_t rows, per_matrix, begin, end;
    size_t size = 0;

    if (stored->layout != SP_PANEL) return;
    rows = c->spec->shape[c->spec->rank - 2];
    per_matrix = (rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    (void)sp_panel_size(&size, stored->dtype, (size_t)sp_spec_cols(c->spec));
    begin = first / rows * per_matrix + first % rows / SP_PANEL_ROWS;
    end = last / rows * per_matrix + last % rows / SP_PANEL_ROWS + 1;
    sp_file_unload(stored->data + begin * size, (size_t)(end - begin) * size);
}

/* The rows of a cut that are in the chunk, to their places there. */
static enum sp_status gather(struct worker *w, const struct sp_export_cut *c,
                             const struct chunk *chunk, struct sp_err *err)
{
    const struct sp_row_span *p = &c->span;
    uint64_t end = chunk->row + chunk->n_rows, begin, i, n, skipped;
    bool is_matrix = sp_role_is_matrix(c->spec->role) && c->spec->rank >= 2;
    size_t cols = (size_t)p->n_cols;
    struct sp_stored stored;
    enum sp_status st;

    if ((st = sp_source_stored(&stored, c->source, c->spec, err))) return st;
    if (stored.data) is_matrix = stored.layout == SP_PANEL;
    begin = chunk->row <= p->first_row ? 0 : (chunk->row - p->first_row + p->step - 1) / p->step;
    for (i = begin; i < p->n_rows && p->first_row + i * p->step < end; i += n) {
        uint64_t row = p->first_row + i * p->step;
        n = (end - row + p->step - 1) / p->step;
        if (n > p->n_rows - i) n = p->n_rows - i;
        st = is_matrix ? read_panels(w, c, c->first + i, &n, &skipped, err)
                       : read_whole(w, c, c->first + i, &skipped, err);
        if (st) return st;
        for (uint64_t r = 0; r < n; r++) {
            memcpy(w->rows + (row - chunk->row + r * p->step) * cols, w->run + (skipped + r) * cols,
                   cols * sizeof *w->rows);
        }
    }
    if (i > begin) unload_panels(c, &stored, c->first + begin, c->first + i - 1);
    return SP_OK;
}

/* Converts integers, which f32 holds exactly up to 2^24. */
static enum sp_status encode_ids(uint8_t *out, const float *x, size_t n, struct sp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) <= 0x1p24f) || x[i] != truncf(x[i])) {
            return sp_fail(err, SP_E_INPUT, "element %zu is %g, expected a whole number", i,
                           (double)x[i]);
        }
        sp_put64(out + 8 * i, (uint64_t)(int64_t)x[i]);
    }
    return SP_OK;
}

static enum sp_status encode(struct worker *w, enum sp_dtype dtype, const float *x, size_t n,
                             uint64_t first, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_reserve(&w->bytes, &w->bytes_cap, n * 8, 1, err))) return st;
    if (dtype == SP_I64) return encode_ids(w->bytes, x, n, err);
    return sp_encode_floats(w->bytes, dtype, x, n, first, err);
}

/* Rows that are columns in the file: of each k, a run across the chunk. */
static enum sp_status put_transposed(struct exporter *x, struct worker *w,
                                     const struct chunk *chunk, struct sp_err *err)
{
    enum sp_dtype dtype = chunk->item->tensor.dtype;
    size_t size = sp_dtype_info(dtype)->bits / 8, n = (size_t)chunk->n_rows;
    const struct sp_row_span *span = piece_of(x, chunk);
    uint64_t cols = span->n_cols, pitch = span->pitch ? span->pitch : cols;
    uint64_t width = chunk->item->tensor.shape[chunk->item->tensor.rank - 1];
    enum sp_status st = SP_OK;

    if ((st = sp_reserve(&w->run, &w->run_cap, n, sizeof *w->run, err))) return st;
    for (uint64_t k = 0; st == SP_OK && k < cols; k++) {
        uint64_t at = (chunk->row / width * pitch + k) * width + chunk->row % width;
        for (size_t r = 0; r < n; r++)
            w->run[r] = w->rows[r * cols + k];
        if ((st = encode(w, dtype, w->run, n, at, err))) break;
        st =
            sp_safetensors_writer_put(x->writer, chunk->tensor, at * size, w->bytes, n * size, err);
    }
    return st;
}

static enum sp_status put_marks(struct exporter *x, struct worker *w, const struct chunk *chunk,
                                struct sp_err *err)
{
    const struct sp_export_cut *c = &x->plan->cuts[chunk->item->first_cut];
    size_t n = (size_t)c->span.n_cols, n_tokens = (size_t)chunk->item->tensor.shape[0];
    enum sp_status st;

    if ((st = sp_reserve(&w->rows, &w->rows_cap, n, sizeof *w->rows, err))) return st;
    if ((st = sp_reserve(&w->bytes, &w->bytes_cap, n_tokens, 1, err))) return st;
    st = sp_source_read_rows(w->rows, c->source, c->spec, 0, SP_ALL_ROWS, &w->scratch, err);
    if (st) return st;
    if ((st = sp_config_check_token_map(c->source->config.draft.kind, w->rows, n, n_tokens, err)))
        return st;
    memset(w->bytes, 0, n_tokens);
    for (size_t i = 0; i < n; i++)
        w->bytes[(size_t)((float)i + w->rows[i])] = 1;
    return sp_safetensors_writer_put(x->writer, chunk->tensor, 0, w->bytes, n_tokens, err);
}

static enum sp_status put_rows(struct exporter *x, struct worker *w, const struct chunk *chunk,
                               struct sp_err *err)
{
    const struct sp_export_item *item = chunk->item;
    uint64_t cols = piece_of(x, chunk)->n_cols;
    size_t n = (size_t)(chunk->n_rows * cols), size = sp_dtype_info(item->tensor.dtype)->bits / 8;
    enum sp_status st;

    if ((st = sp_reserve(&w->rows, &w->rows_cap, n, sizeof *w->rows, err))) return st;
    for (size_t i = chunk->first_cut; i < chunk->first_cut + chunk->n_cuts; i++)
        if ((st = gather(w, &x->plan->cuts[i], chunk, err))) return st;
    if (piece_of(x, chunk)->transposed) return put_transposed(x, w, chunk, err);
    if ((st = encode(w, item->tensor.dtype, w->rows, n, chunk->row * cols, err))) return st;
    return sp_safetensors_writer_put(x->writer, chunk->tensor, chunk->row * cols * size, w->bytes,
                                     n * size, err);
}

static enum sp_status run_chunk(struct exporter *x, struct worker *w, const struct chunk *chunk,
                                struct sp_err *err)
{
    enum sp_status st;

    if (chunk->item == NULL) return sp_pack_check_tensor(chunk->pack, chunk->tensor, err);
    st = chunk->item->marks_tokens ? put_marks(x, w, chunk, err) : put_rows(x, w, chunk, err);
    if (st == SP_E_INPUT) sp_context(err, "tensor %s", chunk->item->tensor.name);
    return st;
}

/* ---- all of them ---- */

static void report(struct exporter *x)
{
    const struct sp_export_progress *p = x->progress;
    const struct sp_create_callbacks *c = p->callbacks;

    if (c->progress == NULL || !c->progress(c->context, p->before + x->done, p->total)) return;
    if (x->err.status == SP_OK) (void)!sp_fail(&x->err, SP_E_CANCELLED, "interrupted");
    x->failed = 0;
}

/* No chunk after one that failed is processed, and every chunk before it is, so that the reported
 * fault does not depend on threads: damage is reported before its effect on numbers. */
static void work(void *context, size_t number, unsigned worker)
{
    struct exporter *x = context;
    const struct chunk *chunk = &x->chunks[number];
    struct sp_err err = {0};
    bool needed;

    pthread_mutex_lock(&x->lock);
    needed = number < x->failed;
    pthread_mutex_unlock(&x->lock);
    if (!needed) return;
    (void)!run_chunk(x, &x->workers[worker], chunk, &err);
    pthread_mutex_lock(&x->lock);
    if (err.status && number < x->failed) {
        x->failed = number;
        x->err = err;
    }
    if (chunk->item) {
        uint64_t n = chunk->item->marks_tokens ? sp_export_elements(chunk->item)
                                               : chunk->n_rows * piece_of(x, chunk)->n_cols;
        x->done += n * sp_dtype_info(chunk->item->tensor.dtype)->bits / 8;
    }
    if (worker == 0) report(x);
    pthread_mutex_unlock(&x->lock);
}

static enum sp_status open_writer(struct exporter *x, const char *folder, uint64_t shard_size,
                                  struct sp_err *err)
{
    struct sp_safetensor *tensors = NULL;
    enum sp_status st;

    if ((st = sp_new(&tensors, x->plan->n_items, sizeof *tensors, err))) return st;
    for (size_t i = 0; i < x->plan->n_items; i++)
        tensors[i] = x->plan->items[i].tensor;
    st = sp_safetensors_writer_open(&x->writer, folder, tensors, x->plan->n_items, shard_size, err);
    free(tensors);
    return st;
}

static enum sp_status open_workers(struct exporter *x, unsigned n, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&x->workers, n, sizeof *x->workers, err))) return st;
    x->n_workers = n;
    for (unsigned i = 0; i < n; i++)
        if ((st = sp_scratch_open(&x->workers[i].scratch, RUN_ELEMENTS, err))) return st;
    return SP_OK;
}

static void close_exporter(struct exporter *x)
{
    for (unsigned i = 0; x->workers && i < x->n_workers; i++) {
        sp_scratch_release(&x->workers[i].scratch);
        free(x->workers[i].rows);
        free(x->workers[i].run);
        free(x->workers[i].bytes);
    }
    free(x->workers);
    free(x->chunks);
    sp_safetensors_writer_close(x->writer);
    pthread_mutex_destroy(&x->lock);
}

enum sp_status sp_export_write(const struct sp_export_plan *plan, const char *folder,
                               uint64_t shard_size, struct sp_pool *pool,
                               const struct sp_export_progress *progress, struct sp_err *err)
{
    struct exporter x = {.plan = plan, .progress = progress};
    enum sp_status st;

    pthread_mutex_init(&x.lock, NULL);
    if ((st = cut_chunks(&x, err))) goto done;
    if ((st = open_workers(&x, sp_pool_n_threads(pool), err))) goto done;
    if ((st = open_writer(&x, folder, shard_size, err))) goto done;
    x.failed = x.n_chunks;
    report(&x); /* the caller's thread may get no chunk at all */
    sp_pool_run(pool, x.n_chunks, work, &x);
    if (x.err.status == SP_OK) report(&x);
    if (x.err.status) {
        st = sp_fail_as(err, &x.err);
        goto done;
    }
    st = sp_safetensors_writer_finish(x.writer, err);
done:
    close_exporter(&x);
    return st;
}
