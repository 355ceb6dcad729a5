#include "runtime/backend/cache_file.h"

#include "format/base/atomic_file.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC_SIZE = 8, HEAD_SIZE = 16, VERSION = 1 };
static const char magic[MAGIC_SIZE] = "SPPAGE";

struct sp_cache_file {
    struct sp_file *in;         /* owned; NULL if the file is written */
    struct sp_atomic_file *out; /* owned; NULL if the file is read */
    struct sp_hash *digest;     /* owned */
    char *path;                 /* owned */
    uint64_t at;
};

enum sp_status sp_cache_file_create(struct sp_cache_file **out, const char *path,
                                    struct sp_err *err)
{
    struct sp_cache_file *s = NULL;
    uint8_t head[HEAD_SIZE];
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    memcpy(head, magic, sizeof magic);
    sp_put64(head + MAGIC_SIZE, VERSION);
    if ((st = sp_copy_text(&s->path, path, strlen(path), err))) goto done;
    if ((st = sp_hash_new(&s->digest, err))) goto done;
    if ((st = sp_atomic_file_open(&s->out, path, true, 0, err))) goto done;
    if ((st = sp_atomic_file_write_at(s->out, 0, head, sizeof head, err))) goto done;
    s->at = sizeof head;
    *out = s;
    s = NULL;
done:
    sp_cache_file_close(s);
    return st;
}

static enum sp_status check_head(struct sp_cache_file *s, struct sp_err *err)
{
    uint8_t head[HEAD_SIZE];
    enum sp_status st;

    if (sp_file_size(s->in) < sizeof head)
        return sp_fail(err, SP_E_INPUT, "%s is not a page of a prompt cache", s->path);
    if ((st = sp_file_read_at(s->in, 0, head, sizeof head, err))) return st;
    if (memcmp(head, magic, sizeof magic) != 0)
        return sp_fail(err, SP_E_INPUT, "%s is not a page of a prompt cache", s->path);
    if (sp_get64(head + MAGIC_SIZE) != VERSION) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: a page of version %ju, expected %d", s->path,
                       (uintmax_t)sp_get64(head + MAGIC_SIZE), VERSION);
    }
    s->at = sizeof head;
    return SP_OK;
}

enum sp_status sp_cache_file_open(struct sp_cache_file **out, const char *path, struct sp_err *err)
{
    struct sp_cache_file *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    if ((st = sp_copy_text(&s->path, path, strlen(path), err))) goto done;
    if ((st = sp_hash_new(&s->digest, err))) goto done;
    if ((st = sp_file_open(&s->in, path, err))) goto done;
    if ((st = check_head(s, err))) goto done;
    *out = s;
    s = NULL;
done:
    sp_cache_file_close(s);
    return st;
}

void sp_cache_file_close(struct sp_cache_file *s)
{
    if (s == NULL) return;
    sp_file_close(s->in);
    sp_atomic_file_close(s->out);
    sp_hash_free(s->digest);
    free(s->path);
    free(s);
}

bool sp_cache_file_is_read(const struct sp_cache_file *s)
{
    return s->in != NULL;
}

uint64_t sp_cache_file_size(const struct sp_cache_file *s)
{
    return s->at;
}

enum sp_status sp_cache_file_bytes(struct sp_cache_file *s, void *bytes, size_t size,
                                   struct sp_err *err)
{
    enum sp_status st = s->in ? sp_file_read_at(s->in, s->at, bytes, size, err)
                              : sp_atomic_file_write_at(s->out, s->at, bytes, size, err);

    if (st) return st;
    sp_hash_update(s->digest, bytes, size);
    s->at += size;
    return SP_OK;
}

enum sp_status sp_cache_file_number(struct sp_cache_file *s, size_t *number, size_t most,
                                    struct sp_err *err)
{
    uint8_t bytes[8];
    uint64_t moved;
    enum sp_status st;

    sp_put64(bytes, *number);
    if ((st = sp_cache_file_bytes(s, bytes, sizeof bytes, err))) return st;
    moved = sp_get64(bytes);
    if (moved > most) {
        return sp_fail(err, SP_E_INPUT, "%s: %ju at byte %ju, expected at most %zu", s->path,
                       (uintmax_t)moved, (uintmax_t)(s->at - 8), most);
    }
    *number = (size_t)moved;
    return SP_OK;
}

enum sp_status sp_cache_file_match(struct sp_cache_file *s, const void *bytes, size_t size,
                                   struct sp_err *err)
{
    uint8_t piece[1 << 12];
    const uint8_t *from = bytes;
    enum sp_status st = SP_OK;

    for (size_t n; size > 0 && st == SP_OK; from += n, size -= n) {
        n = size < sizeof piece ? size : sizeof piece;
        memcpy(piece, from, n);
        if ((st = sp_cache_file_bytes(s, piece, n, err))) return st;
        if (memcmp(piece, from, n) != 0)
            return sp_fail(err, SP_E_INPUT, "%s: a page of other tokens", s->path);
    }
    return st;
}

static enum sp_status read_rest(struct sp_cache_file *s, uint64_t end, struct sp_err *err)
{
    enum { PIECE = 1 << 16 };
    uint8_t *bytes = NULL;
    enum sp_status st;

    if ((st = sp_new(&bytes, PIECE, 1, err))) return st;
    while (st == SP_OK && s->at < end) {
        uint64_t left = end - s->at;
        st = sp_cache_file_bytes(s, bytes, left < PIECE ? (size_t)left : PIECE, err);
    }
    free(bytes);
    return st;
}

enum sp_status sp_cache_file_finish(struct sp_cache_file *s, struct sp_err *err)
{
    uint8_t bytes[8];
    uint64_t digest;
    enum sp_status st;

    if (s->in) {
        uint64_t size = sp_file_size(s->in), end = size < sizeof bytes ? 0 : size - sizeof bytes;
        if ((st = read_rest(s, end, err))) return st;
        digest = sp_hash_digest(s->digest);
        if ((st = sp_file_read_at(s->in, end, bytes, sizeof bytes, err))) return st;
        if (s->at == end && sp_get64(bytes) == digest) return SP_OK;
        return sp_fail(err, SP_E_INPUT, "%s: damaged, its digest does not match", s->path);
    }
    sp_put64(bytes, sp_hash_digest(s->digest));
    if ((st = sp_atomic_file_write_at(s->out, s->at, bytes, sizeof bytes, err))) return st;
    return sp_atomic_file_publish(s->out, err);
}
