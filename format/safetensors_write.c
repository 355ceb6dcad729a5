#include "format/safetensors_write.h"

#include "format/base/atomic_file.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* The first shards are created and their space reserved at once, each further one when its first
 * bytes come. */
enum { MAX_SHARDS = 4096, BEGUN_SHARDS = 64, NAME_SIZE = 64 };

static const char index_name[] = "model.safetensors.index.json";

struct place {
    size_t shard;
    uint64_t offset, size; /* in the shard's data */
};

struct shard {
    size_t first, n;               /* of the tensors */
    uint64_t size;                 /* bytes of data */
    uint64_t n_put;                /* bytes of data written so far; under the writer's lock */
    struct sp_atomic_file *output; /* while it is written; under the writer's lock */
    bool complete;                 /* the file exists; under the writer's lock */
    struct sp_strbuf header;       /* the header, after its size */
};

struct sp_safetensors_writer {
    char *folder;
    const struct sp_safetensor *tensors; /* borrowed until open returns */
    struct place *places;                /* [n] */
    size_t n;
    struct shard *shards;
    size_t n_shards, cap_shards;
    struct sp_strbuf index; /* empty where there is one file */
    pthread_mutex_t lock;
    bool finished;
};

static void name_shard(char name[NAME_SIZE], size_t shard, size_t n_shards)
{
    snprintf(name, NAME_SIZE, "model.safetensors");
    if (n_shards == 1) return;
    snprintf(name, NAME_SIZE, "model-%05zu-of-%05zu.safetensors", shard + 1, n_shards);
}

bool sp_safetensors_is_weights_name(const char *name)
{
    unsigned i, n;
    int len = 0;

    if (strcmp(name, "model.safetensors") == 0 || strcmp(name, index_name) == 0) return true;
    return sscanf(name, "model-%5u-of-%5u.safetensors%n", &i, &n, &len) == 2 &&
           (size_t)len == strlen(name);
}

static enum sp_status measure(uint64_t *size, const struct sp_safetensor *t, struct sp_err *err)
{
    size_t n = sp_dtype_info(t->dtype)->bits / 8;

    for (unsigned i = 0; i < t->rank; i++) {
        if (t->shape[i] <= SIZE_MAX && sp_mul(&n, n, (size_t)t->shape[i])) continue;
        return sp_fail(err, SP_E_INPUT, "tensor %s: its size overflows", t->name);
    }
    *size = n;
    return SP_OK;
}

static enum sp_status cut_shards(struct sp_safetensors_writer *w, uint64_t shard_size,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct shard *s = NULL;

    for (size_t i = 0; i < w->n; i++) {
        uint64_t size = 0;
        if ((st = measure(&size, &w->tensors[i], err))) return st;
        if (s == NULL || s->size >= shard_size || size > shard_size - s->size) {
            st = sp_grow(&w->shards, &w->cap_shards, w->n_shards + 1, sizeof *w->shards, err);
            if (st) return st;
            s = &w->shards[w->n_shards++];
            *s = (struct shard){.first = i};
        }
        w->places[i] = (struct place){.shard = w->n_shards - 1, .size = size};
        s->size += size;
        s->n++;
    }
    if (w->n_shards <= MAX_SHARDS) return SP_OK;
    return sp_fail(err, SP_E_USAGE, "%zu shards would be needed, at most %d are written",
                   w->n_shards, MAX_SHARDS);
}

/* The widest elements first. */
static void place_tensors(struct sp_safetensors_writer *w, const struct shard *s)
{
    uint64_t offset = 0;

    for (unsigned bits = 64; bits >= 8; bits /= 2) {
        for (size_t i = s->first; i < s->first + s->n; i++) {
            if (sp_dtype_info(w->tensors[i].dtype)->bits != bits) continue;
            w->places[i].offset = offset;
            offset += w->places[i].size;
        }
    }
}

/* The 8 bytes of its size, and the header itself. */
static enum sp_status print_header(struct sp_strbuf *text, const struct sp_safetensors_writer *w,
                                   const struct shard *s, struct sp_err *err)
{
    uint8_t size[8] = {0};
    struct sp_json_out out = {0};
    enum sp_status st;

    sp_json_out_bytes(&out, size, sizeof size);
    sp_json_out_raw(&out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = s->first; i < s->first + s->n; i++) {
        const struct sp_safetensor *t = &w->tensors[i];
        const struct place *p = &w->places[i];
        sp_json_out_raw(&out, ",\"");
        sp_json_out_raw(&out, t->name);
        sp_json_out_print(&out, "\":{\"dtype\":\"%s\",\"shape\":[",
                          sp_dtype_info(t->dtype)->safetensors);
        for (unsigned k = 0; k < t->rank; k++)
            sp_json_out_print(&out, "%s%" PRIu64, k ? "," : "", t->shape[k]);
        sp_json_out_print(&out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", p->offset,
                          p->offset + p->size);
    }
    sp_json_out_raw(&out, "}");
    while (!out.no_memory && out.text.len % sizeof size)
        sp_json_out_raw(&out, " ");
    *text = out.text;
    if ((st = sp_json_out_check(&out, err))) return st;
    sp_put64((uint8_t *)text->at, text->len - sizeof size);
    return SP_OK;
}

static enum sp_status path_of(char **path, const struct sp_safetensors_writer *w,
                              const struct shard *s, struct sp_err *err)
{
    char name[NAME_SIZE];

    name_shard(name, (size_t)(s - w->shards), w->n_shards);
    return sp_file_join(path, w->folder, name, err);
}

static enum sp_status begin_shard(const struct sp_safetensors_writer *w, struct shard *s,
                                  struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = path_of(&path, w, s, err))) return st;
    st = sp_atomic_file_open(&s->output, path, false, s->header.len + s->size, err);
    free(path);
    return st ? st : sp_atomic_file_write_at(s->output, 0, s->header.at, s->header.len, err);
}

static enum sp_status end_shard(struct shard *s, struct sp_err *err)
{
    enum sp_status st = sp_atomic_file_commit(s->output, err);

    s->complete = st == SP_OK;
    sp_atomic_file_close(s->output);
    s->output = NULL;
    return st;
}

/* The index is formatted as transformers writes it. */
static enum sp_status print_index(struct sp_safetensors_writer *w, struct sp_err *err)
{
    struct sp_json_out out = {0};
    uint64_t total = 0;
    char name[NAME_SIZE];

    if (w->n_shards == 1) return SP_OK;
    for (size_t i = 0; i < w->n_shards; i++)
        total += w->shards[i].size;
    sp_json_out_print(
        &out, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {\n",
        total);
    for (size_t i = 0; i < w->n; i++) {
        name_shard(name, w->places[i].shard, w->n_shards);
        sp_json_out_raw(&out, "    \"");
        sp_json_out_raw(&out, w->tensors[i].name);
        sp_json_out_print(&out, "\": \"%s\"%s\n", name, i + 1 < w->n ? "," : "");
    }
    sp_json_out_raw(&out, "  }\n}\n");
    w->index = out.text;
    return sp_json_out_check(&out, err);
}

enum sp_status sp_safetensors_writer_open(struct sp_safetensors_writer **out, const char *folder,
                                          const struct sp_safetensor *tensors, size_t n,
                                          uint64_t shard_size, struct sp_err *err)
{
    enum sp_status st;
    struct sp_safetensors_writer *w = NULL;

    if ((st = sp_new(&w, 1, sizeof *w, err))) return st;
    pthread_mutex_init(&w->lock, NULL);
    w->tensors = tensors;
    w->n = n;
    if ((st = sp_copy_text(&w->folder, folder, strlen(folder), err))) goto done;
    if ((st = sp_new(&w->places, n, sizeof *w->places, err))) goto done;
    if ((st = cut_shards(w, shard_size, err))) goto done;
    for (size_t i = 0; i < w->n_shards; i++) {
        struct shard *s = &w->shards[i];
        place_tensors(w, s);
        if ((st = print_header(&s->header, w, s, err))) goto done;
        if (i < BEGUN_SHARDS && (st = begin_shard(w, s, err))) goto done;
    }
    if ((st = print_index(w, err))) goto done;
    w->tensors = NULL;
    *out = w;
    w = NULL;
done:
    sp_safetensors_writer_close(w);
    return st;
}

/* The thread that writes the last bytes of a shard moves it to its final name. */
static bool count_bytes(struct sp_safetensors_writer *w, struct shard *s, size_t size)
{
    bool last;

    pthread_mutex_lock(&w->lock);
    s->n_put += size;
    last = s->n_put == s->size;
    pthread_mutex_unlock(&w->lock);
    return last;
}

enum sp_status sp_safetensors_writer_put(struct sp_safetensors_writer *w, size_t i, uint64_t offset,
                                         const void *bytes, size_t size, struct sp_err *err)
{
    const struct place *p = &w->places[i];
    struct shard *s = &w->shards[p->shard];
    enum sp_status st = SP_OK;

    if (offset > p->size || size > p->size - offset)
        return sp_fail(err, SP_E_BUG, "bytes after the end of tensor %zu", i);
    if (size == 0) return SP_OK;
    pthread_mutex_lock(&w->lock);
    if (s->output == NULL) st = begin_shard(w, s, err);
    pthread_mutex_unlock(&w->lock);
    if (st) return st;
    st = sp_atomic_file_write_at(s->output, s->header.len + p->offset + offset, bytes, size, err);
    if (st) return st;
    return count_bytes(w, s, size) ? end_shard(s, err) : SP_OK;
}

static enum sp_status write_index(struct sp_safetensors_writer *w, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if (w->index.len == 0) return SP_OK;
    if ((st = sp_file_join(&path, w->folder, index_name, err))) return st;
    st = sp_atomic_file_write_file(path, false, w->index.at, w->index.len, err);
    free(path);
    return st;
}

enum sp_status sp_safetensors_writer_finish(struct sp_safetensors_writer *w, struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < w->n_shards; i++) {
        struct shard *s = &w->shards[i];
        if (s->complete) continue; /* all but shards without a byte of data */
        if (s->output == NULL && (st = begin_shard(w, s, err))) return st;
        if ((st = end_shard(s, err))) return st;
    }
    if ((st = write_index(w, err))) return st;
    w->finished = true;
    return SP_OK;
}

static void remove_shard(const struct sp_safetensors_writer *w, const struct shard *s)
{
    char *path = NULL;

    if (path_of(&path, w, s, NULL) == SP_OK) unlink(path);
    free(path);
}

void sp_safetensors_writer_close(struct sp_safetensors_writer *w)
{
    if (w == NULL) return;
    for (size_t i = 0; i < w->n_shards; i++) {
        struct shard *s = &w->shards[i];
        sp_atomic_file_close(s->output);
        sp_strbuf_release(&s->header);
        if (s->complete && !w->finished) remove_shard(w, s);
    }
    free(w->shards);
    free(w->places);
    sp_strbuf_release(&w->index);
    free(w->folder);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
