/* Distribution of the work: the queries of one kv head (its group of query heads times the rows)
 * form tiles of up to TILE, so that keys and values are read once for many queries. An item of the
 * pool is one tile of one kv head, which walks its spans in order with a running result. If that
 * gives too few items for the threads, the spans of a tile are split into chunks: each item stores
 * the parts of its spans in scratch, and the thread that finishes a tile's last item folds them in
 * the same order. */
#include "runtime/backend/attention.h"

#include "quantize/types/float_cast.h"
#include "runtime/vector/fmath.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum {
    TILE = 32,            /* queries of an item */
    ITEMS_PER_THREAD = 4, /* enough that a delayed thread does not delay the others */
    SPLIT_ROWS = 16,      /* most rows whose tiles are split: more rows make enough tiles */
    SPLIT_SIZE = 1 << 24, /* approximate bytes of scratch for parts */
};

/* The result of one query over some keys: softmax numerator, denominator and exponent offset. */
struct part {
    float max, sum;
    float *values; /* [ld] */
};

/* The buffers of one thread. */
struct worker {
    uint8_t *queries; /* [TILE] prepared */
    float *scores;    /* [TILE][SP_SPAN] */
    struct part span[TILE], total[TILE];
    size_t first[TILE], last[TILE]; /* visible keys, relative to the span's first position */
};

struct sp_attention_scratch {
    unsigned n_threads;
    size_t ld;              /* floats of a head, rounded up */
    float *floats;          /* the memory of the workers' and parts' arrays */
    struct worker *workers; /* [n_threads] */
    struct part *parts;     /* [n_parts] */
    size_t n_parts;
    atomic_uint *open_items; /* [n_parts] unfinished items of a tile that is split */
};

/* ---- scratch ---- */

/* Number of parts for rows whose tiles are split: at least one row's; 0 for a single thread. */
static size_t count_parts(unsigned n_threads, size_t n_heads, size_t ld, size_t max_rows,
                          size_t n_positions)
{
    size_t n_spans = n_positions / SP_SPAN + 2, rows = SPLIT_ROWS, size;

    if (n_threads == 1 || !sp_mul(&size, n_spans, n_heads) ||
        !sp_mul(&size, size, ld * sizeof(float)))
        return 0;
    if (rows > SPLIT_SIZE / size) rows = SPLIT_SIZE / size;
    if (rows > max_rows) rows = max_rows;
    if (rows == 0) rows = 1;
    return n_spans * n_heads * rows;
}

static void assign_floats(struct sp_attention_scratch *s)
{
    float *next = s->floats;

    for (unsigned i = 0; i < s->n_threads; i++) {
        struct worker *w = &s->workers[i];
        w->scores = next;
        next += TILE * SP_SPAN;
        w->queries = (uint8_t *)next;
        next += TILE * s->ld;
        for (size_t j = 0; j < TILE; j++, next += s->ld)
            w->span[j].values = next;
        for (size_t j = 0; j < TILE; j++, next += s->ld)
            w->total[j].values = next;
    }
    for (size_t i = 0; i < s->n_parts; i++, next += s->ld)
        s->parts[i].values = next;
}

struct sp_attention_scratch *sp_attention_scratch_new(struct sp_arena *memory, unsigned n_threads,
                                                      unsigned max_heads, unsigned max_head_dim,
                                                      size_t max_rows, size_t n_positions)
{
    struct sp_attention_scratch *s = sp_arena_new(memory, 1, sizeof *s);
    size_t n;

    if (s == NULL) return NULL;
    s->n_threads = n_threads;
    s->ld = sp_round_up(max_head_dim, 16);
    s->n_parts = count_parts(n_threads, max_heads, s->ld, max_rows, n_positions);
    n = n_threads * (TILE * SP_SPAN + 3 * TILE * s->ld) + s->n_parts * s->ld;
    if (sp_new_aligned(&s->floats, n, sizeof *s->floats, NULL)) s->floats = NULL;
    sp_arena_keep(memory, s->floats, n, sizeof *s->floats);
    s->workers = sp_arena_new(memory, n_threads, sizeof *s->workers);
    s->parts = sp_arena_new(memory, s->n_parts, sizeof *s->parts);
    s->open_items = sp_arena_new(memory, s->n_parts, sizeof *s->open_items);
    if (sp_arena_check(memory, NULL)) return NULL;
    assign_floats(s);
    return s;
}

/* ---- one tile ---- */

/* One call of sp_attend. */
struct run {
    const struct sp_attention *job;
    const struct sp_vector *vector;
    struct sp_attention_scratch *scratch;
    size_t q_step, out_step;      /* from one head of a row to the next */
    size_t group;                 /* query heads of a kv head */
    size_t n_queries;             /* of one kv head: group * n_rows */
    size_t tile, n_tiles;         /* queries of a tile; tiles of a kv head */
    size_t first_span, last_span; /* spans that contain a key of any row */
    size_t n_chunks;              /* items of a tile */
};

/* Queries first..first+n-1 of a kv head: query e is head e % group of row e / group. */
struct tile {
    size_t head, first, n;
    size_t first_span, last_span;
};

static const struct sp_key_range *range_of(const struct run *run, size_t e)
{
    return &run->job->ranges[e / run->group];
}

static size_t query_head(const struct run *run, const struct tile *tile, size_t e)
{
    return tile->head * run->group + e % run->group;
}

static struct tile tile_of(const struct run *run, size_t head, size_t index)
{
    struct tile tile = {.head = head, .first = index * run->tile, .first_span = run->last_span};

    tile.n = run->n_queries - tile.first;
    if (tile.n > run->tile) tile.n = run->tile;
    tile.last_span = run->first_span;
    for (size_t e = tile.first; e < tile.first + tile.n; e++) {
        const struct sp_key_range *r = range_of(run, e);
        size_t first = r->first / SP_SPAN, last = (r->last + SP_SPAN - 1) / SP_SPAN;
        if (r->first == r->last) continue;
        if (first < tile.first_span) tile.first_span = first;
        if (last > tile.last_span) tile.last_span = last;
    }
    return tile;
}

/* Copies the tile's queries into one array, prepared for the type of the cache. */
static void gather_queries(const struct run *run, const struct tile *tile, struct worker *w)
{
    const struct sp_kv *kv = run->job->kv;
    size_t d = kv->head_dim, size = sp_query_size(d);

    for (size_t i = 0; i < tile->n; i++) {
        size_t e = tile->first + i;
        const float *row = run->job->q + e / run->group * run->job->ldq;
        run->vector->kv[kv->type].prepare(w->queries + i * size,
                                          row + query_head(run, tile, e) * run->q_step, d);
    }
}

/* Sets the keys of a span that query e attends to, relative to the span's first position; returns
 * false if there are none. */
static bool find_keys(const struct run *run, size_t e, size_t span, size_t *first, size_t *last)
{
    const struct sp_key_range *r = range_of(run, e);
    size_t start = span * SP_SPAN, end = start + SP_SPAN;

    if (r->first >= end || r->last <= start || r->first == r->last) return false;
    *first = r->first > start ? r->first - start : 0;
    *last = (r->last < end ? r->last : end) - start;
    return true;
}

/* The parts of one span: that of query i is parts[i * step]. */
struct target {
    struct part *parts;
    size_t step;
};

/* Adds the bias of query e to its scores of keys first..last-1 of the span at `start`. */
static void add_relative(const struct run *run, const struct tile *tile, size_t e, float *s,
                         size_t start, size_t first, size_t last)
{
    const struct sp_relative_bias *r = &run->job->relative;
    const float *mix = r->mix + e / run->group * r->ld + query_head(run, tile, e) * r->dim;
    size_t end = range_of(run, e)->last; /* the query is at end - 1 */

    if (end > start + first + r->extent) first = end - r->extent - start;
    const float *profile = r->profiles + (start + first + r->extent - end);
    for (size_t i = 0; first < last && i < r->dim; i++, profile += r->extent)
        run->vector->fma(s + first, profile, mix[i], last - first);
}

/* Reads a byte of each line of n bytes that products of codes read next. These walk through several
 * parts of a block at a time, for which processors do not read memory ahead. */
static void read_through(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        (void)*(const volatile uint8_t *)(p + i);
}

/* Computes the parts of queries i..i+n-1 of the tile, each of which has keys in the span. */
static void attend_queries(const struct run *run, const struct tile *tile, struct worker *w,
                           size_t span, size_t i, size_t n, struct target to)
{
    const struct sp_attention *job = run->job;
    const struct sp_kv *kv = job->kv;
    const struct sp_vector *vector = run->vector;
    const struct sp_vector_kv *type = &vector->kv[kv->type];
    size_t start = span * SP_SPAN, low = w->first[i], high = w->last[i];
    float *scores = w->scores + i * SP_SPAN;
    const struct sp_cache_bits bits = sp_cache_bits[kv->type];
    struct sp_kv_rows rows = {.n_queries = n,
                              .head_dim = kv->head_dim,
                              .queries = w->queries + i * sp_query_size(kv->head_dim),
                              .scale = job->scale,
                              .p = scores,
                              .ldp = SP_SPAN,
                              .first = w->first + i,
                              .last = w->last + i};

    for (size_t j = i; j < i + n; j++) {
        if (w->first[j] < low) low = w->first[j];
        if (w->last[j] > high) high = w->last[j];
    }
    low -= low % SP_KV_BLOCK;
    rows.out = scores + low;
    rows.ld_out = SP_SPAN;
    rows.blocks = sp_kv_keys(kv, tile->head, start + low);
    rows.n_blocks = (high - low + SP_KV_BLOCK - 1) / SP_KV_BLOCK;
    if (bits.key < 16) read_through(rows.blocks, rows.n_blocks * kv->key_block_size);
    type->scores(&rows);
    for (size_t j = i; j < i + n; j++) {
        struct part *part = &to.parts[j * to.step];
        float *s = w->scores + j * SP_SPAN;
        size_t first = w->first[j], last = w->last[j];
        if (job->cap > 0) vector->softcap(s + first, job->cap, last - first);
        if (job->slopes) {
            float slope = job->slopes[query_head(run, tile, tile->first + j)];
            size_t row = range_of(run, tile->first + j)->last - 1;
            for (size_t k = first; k < last; k++)
                s[k] += job->slopes_rounded ? sp_round_bf16(slope * (float)(start + k)) * job->scale
                                            : -(slope * (float)(row - start - k));
        }
        if (job->relative.mix) add_relative(run, tile, tile->first + j, s, start, first, last);
        vector->softmax(s, first, last, &part->max, &part->sum);
    }
    rows.out = to.parts[i * to.step].values;
    rows.ld_out = to.step * run->scratch->ld;
    rows.blocks = sp_kv_values(kv, tile->head, start);
    rows.head_dim = kv->value_dim;
    if (bits.value < 16)
        read_through(rows.blocks + low / SP_KV_BLOCK * kv->value_block_size,
                     rows.n_blocks * kv->value_block_size);
    type->weigh(&rows);
}

static void attend_span(const struct run *run, const struct tile *tile, struct worker *w,
                        size_t span, struct target to)
{
    size_t n_attending = 0; /* consecutive queries before i that have keys in the span */

    for (size_t i = 0; i < tile->n; i++) {
        if (find_keys(run, tile->first + i, span, &w->first[i], &w->last[i])) {
            n_attending++;
            continue;
        }
        if (n_attending) attend_queries(run, tile, w, span, i - n_attending, n_attending, to);
        n_attending = 0;
    }
    if (n_attending) attend_queries(run, tile, w, span, tile->n - n_attending, n_attending, to);
}

/* Begins the results. A sink is a key of weight 1 before all others, without a value. */
static void begin_totals(const struct run *run, const struct tile *tile, struct worker *w)
{
    const float *sinks = run->job->sinks;

    for (size_t i = 0; i < tile->n; i++) {
        struct part *total = &w->total[i];
        size_t e = tile->first + i, row = e / run->group * run->job->ld_sinks;
        total->max = sinks ? sinks[row + query_head(run, tile, e)] : 0;
        total->sum = sinks ? 1 : 0;
        memset(total->values, 0, run->job->kv->value_dim * sizeof(float));
    }
}

/* Adds the parts of a span to the results. */
static void fold_span(const struct run *run, const struct tile *tile, struct worker *w, size_t span,
                      struct target from)
{
    size_t d = run->job->kv->value_dim, first, last;

    for (size_t i = 0; i < tile->n; i++) {
        const struct part *part = &from.parts[i * from.step];
        struct part *total = &w->total[i];
        if (!find_keys(run, tile->first + i, span, &first, &last)) continue;
        if (total->sum == 0) {
            total->max = part->max;
            total->sum = part->sum;
            memcpy(total->values, part->values, d * sizeof(float));
            continue;
        }
        float max = part->max > total->max ? part->max : total->max;
        float old = sp_expf(total->max - max), new = sp_expf(part->max - max);
        run->vector->scale(total->values, old, d);
        run->vector->fma(total->values, part->values, new, d);
        total->sum = fmaf(part->sum, new, total->sum * old);
        total->max = max;
    }
}

static void write_totals(const struct run *run, const struct tile *tile, struct worker *w)
{
    const struct sp_attention *job = run->job;
    const struct sp_vector_kv *type = &run->vector->kv[job->kv->type];
    size_t d = job->kv->value_dim;

    for (size_t i = 0; i < tile->n; i++) {
        size_t e = tile->first + i;
        float *out =
            job->out + e / run->group * job->ld_out + query_head(run, tile, e) * run->out_step;
        const struct part *total = &w->total[i];
        memcpy(out, total->values, d * sizeof(float));
        if (total->sum != 0) run->vector->scale(out, 1.0f / total->sum, d);
        if (type->restore) type->restore(out, d);
    }
}

/* ---- work items ---- */

/* An item that is a whole tile. Late tiles have the most keys and start first. */
static void attend_tile(void *context, size_t item, unsigned worker)
{
    const struct run *run = context;
    struct worker *w = &run->scratch->workers[worker];
    struct tile tile =
        tile_of(run, item % run->job->kv->n_heads, run->n_tiles - 1 - item / run->job->kv->n_heads);
    struct target to = {w->span, 1};

    gather_queries(run, &tile, w);
    begin_totals(run, &tile, w);
    for (size_t span = tile.first_span; span < tile.last_span; span++) {
        attend_span(run, &tile, w, span, to);
        fold_span(run, &tile, w, span, to);
    }
    write_totals(run, &tile, w);
}

/* The parts of a tile's span in scratch. */
static struct target stored_parts(const struct run *run, const struct tile *tile, size_t span)
{
    size_t n_spans = run->last_span - run->first_span;
    size_t first = (tile->head * run->n_queries + tile->first) * n_spans + span - run->first_span;

    return (struct target){run->scratch->parts + first, n_spans};
}

/* An item that is one chunk of a tile's spans. */
static void attend_chunk(void *context, size_t item, unsigned worker)
{
    const struct run *run = context;
    struct worker *w = &run->scratch->workers[worker];
    size_t index = item / run->n_chunks, chunk = item % run->n_chunks;
    struct tile tile = tile_of(run, index / run->n_tiles, index % run->n_tiles);
    size_t n_spans = tile.last_span > tile.first_span ? tile.last_span - tile.first_span : 0;
    size_t first = tile.first_span + n_spans * chunk / run->n_chunks;
    size_t last = tile.first_span + n_spans * (chunk + 1) / run->n_chunks;

    gather_queries(run, &tile, w);
    for (size_t span = first; span < last; span++)
        attend_span(run, &tile, w, span, stored_parts(run, &tile, span));
    if (atomic_fetch_sub(&run->scratch->open_items[index], 1) > 1) return;
    begin_totals(run, &tile, w);
    for (size_t span = tile.first_span; span < tile.last_span; span++)
        fold_span(run, &tile, w, span, stored_parts(run, &tile, span));
    write_totals(run, &tile, w);
}

/* Chooses tiles of equal size, and splits them if there are few and scratch holds their parts. */
static void split(struct run *run)
{
    const struct sp_attention_scratch *s = run->scratch;
    size_t heads = run->job->kv->n_heads, n_spans = run->last_span - run->first_span;
    size_t n_items = (size_t)s->n_threads * ITEMS_PER_THREAD;

    run->n_tiles = (run->n_queries + TILE - 1) / TILE;
    run->tile = (run->n_queries + run->n_tiles - 1) / run->n_tiles;
    run->n_chunks = 1;
    if (s->n_threads == 1 || heads * run->n_queries * n_spans > s->n_parts) return;
    run->n_chunks = (n_items + heads * run->n_tiles - 1) / (heads * run->n_tiles);
    if (run->n_chunks > n_spans) run->n_chunks = n_spans ? n_spans : 1;
}

void sp_attend(const struct sp_attention *job, const struct sp_vector *vector, struct sp_pool *pool,
               struct sp_attention_scratch *scratch)
{
    struct run run = {.job = job, .vector = vector, .scratch = scratch, .first_span = SIZE_MAX};
    size_t n_tiles;

    assert(job->n_heads % job->kv->n_heads == 0 && job->kv->head_dim <= scratch->ld &&
           job->kv->value_dim <= scratch->ld);
    if (job->n_rows == 0) return;
    for (size_t t = 0; t < job->n_rows; t++) {
        size_t first = job->ranges[t].first / SP_SPAN;
        size_t last = (job->ranges[t].last + SP_SPAN - 1) / SP_SPAN;
        if (first < run.first_span) run.first_span = first;
        if (last > run.last_span) run.last_span = last;
    }
    if (run.first_span > run.last_span) run.first_span = run.last_span;
    run.q_step = job->q_step ? job->q_step : job->kv->head_dim;
    run.out_step = job->out_step ? job->out_step : job->kv->value_dim;
    run.group = job->n_heads / job->kv->n_heads;
    run.n_queries = run.group * job->n_rows;
    split(&run);
    n_tiles = job->kv->n_heads * run.n_tiles;
    if (run.n_chunks == 1) {
        sp_pool_run(pool, n_tiles, attend_tile, &run);
        return;
    }
    for (size_t i = 0; i < n_tiles; i++)
        atomic_store(&scratch->open_items[i], (unsigned)run.n_chunks);
    sp_pool_run(pool, n_tiles * run.n_chunks, attend_chunk, &run);
}
