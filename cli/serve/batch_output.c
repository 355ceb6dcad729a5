#include "cli/serve/batch.h"
#include "format/base/mem.h"
#include "format/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_answer(const struct sp_json *line)
{
    return sp_json_has(line, "ids") || sp_json_has(line, "error") || sp_json_has(line, "result");
}

/* True if the answer is an error: one of spectool's own format, of OpenAI's or of Anthropic's. */
static bool is_failure(const struct sp_json *line)
{
    const char *type = sp_json_get_text(sp_json_get(line, "result"), "type");
    int64_t status = 200;

    (void)sp_json_to_i64(sp_json_get(sp_json_get(line, "response"), "status_code"), &status);
    return sp_json_get(line, "error") != NULL || status != 200 ||
           (type && strcmp(type, "succeeded") != 0);
}

static enum sp_status keep(struct sp_batch_output *o, const char *text, size_t size,
                           struct sp_err *err)
{
    struct sp_json *line = NULL;
    struct sp_err parse_err = {0};
    const char *id = NULL;
    enum sp_status st = sp_json_parse(&line, text, size, SP_JSON_STRICT, &parse_err);

    if (st == SP_E_NOMEM) {
        *err = parse_err;
        return st;
    }
    if (st || !is_answer(line)) {
        st = sp_fail(err, SP_E_INPUT, "%s: line %zu is not an answer of a batch", o->path,
                     o->n_kept + 1);
        goto done;
    }
    if ((st = sp_grow(&o->kept, &o->cap_kept, o->n_kept + 1, sizeof *o->kept, err))) goto done;
    o->kept[o->n_kept] = NULL;
    id = sp_json_get_text(line, "custom_id");
    if (id && (st = sp_copy_text(&o->kept[o->n_kept], id, strlen(id), err))) goto done;
    o->n_kept++;
    o->n_kept_failures += is_failure(line);
done:
    sp_json_free(line);
    return st;
}

/* True if an answer can begin with these bytes. */
static bool begins_answer(const char *text, size_t size)
{
    static const char *const first[] = {"{\"id\":", "{\"ids\":", "{\"custom_id\":", "{\"error\":"};

    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        size_t n = strlen(first[i]);
        if (memcmp(text, first[i], size < n ? size : n) == 0) return true;
    }
    return false;
}

/* Reports errno. */
static enum sp_status fail_io(const char *path, struct sp_err *err)
{
    return sp_fail(err, errno == ENOMEM ? SP_E_NOMEM : SP_E_IO, "%s: %s", path, strerror(errno));
}

/* Reads the whole lines. What follows must begin as an answer does, since it will be dropped. */
static enum sp_status read_lines(struct sp_batch_output *o, struct sp_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    off_t size = 0;
    enum sp_status st = SP_OK;

    while (!st && (n = getline(&line, &cap, o->file)) > 0 && line[n - 1] == '\n') {
        st = keep(o, line, (size_t)n, err);
        size += n;
    }
    if (!st && n < 0 && !feof(o->file)) st = fail_io(o->path, err);
    if (!st && n > 0) {
        o->has_tail = true;
        if (!begins_answer(line, (size_t)n)) {
            st = sp_fail(err, SP_E_INPUT, "%s: line %zu is not an answer of a batch", o->path,
                         o->n_kept + 1);
        }
    }
    free(line);
    o->size = size;
    if (!st && fseeko(o->file, size, SEEK_SET)) st = fail_io(o->path, err);
    return st;
}

/* Opens a regular file, which is created if there is none, and locks it. A file system that has no
 * locks is no reason to refuse. */
static enum sp_status open_locked(struct sp_batch_output *o, struct sp_err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(o->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0 || (o->file = fdopen(fd, "r+")) == NULL) {
        enum sp_status st = fail_io(o->path, err);
        if (fd >= 0) close(fd);
        return st;
    }
    if (fcntl(fd, F_SETLK, &lock) && (errno == EACCES || errno == EAGAIN))
        return sp_fail(err, SP_E_IO, "%s: another batch is writing its answers there", o->path);
    return SP_OK;
}

enum sp_status sp_batch_output_open(struct sp_batch_output *out, const char *path,
                                    struct sp_err *err)
{
    struct stat info;
    enum sp_status st;

    *out = (struct sp_batch_output){.file = stdout, .path = path};
    if (path == NULL) return SP_OK;
    out->file = NULL;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return (out->file = fopen(path, "w")) ? SP_OK : fail_io(path, err);
    if ((st = open_locked(out, err))) return st;
    return read_lines(out, err);
}

enum sp_status sp_batch_output_drop_tail(struct sp_batch_output *o, struct sp_err *err)
{
    if (o->has_tail && ftruncate(fileno(o->file), o->size)) return fail_io(o->path, err);
    o->has_tail = false;
    return SP_OK;
}

enum sp_status sp_batch_output_match(const struct sp_batch_output *o, size_t index, const char *id,
                                     struct sp_err *err)
{
    const char *kept = o->kept[index];

    if (kept == NULL ? id == NULL : id && strcmp(kept, id) == 0) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "custom_id is %s, but line %zu of %s answers %s; it was made "
                   "from other input",
                   id ? id : "missing", index + 1, o->path, kept ? kept : "a line without one");
}

enum sp_status sp_batch_output_flush(struct sp_batch_output *o, struct sp_err *err)
{
    if (fflush(o->file) == 0 && !ferror(o->file)) return SP_OK;
    return fail_io(o->path ? o->path : "standard output", err);
}

void sp_batch_output_close(struct sp_batch_output *o)
{
    if (o->file && o->file != stdout) fclose(o->file);
    while (o->n_kept > 0)
        free(o->kept[--o->n_kept]);
    free(o->kept);
    *o = (struct sp_batch_output){0};
}
