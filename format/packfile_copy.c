/* The layout is a function of tensors and sections, and sections lie behind the tensors in front of
 * the directory: a file cannot get another section in place without an instant in which it is
 * damaged. So it is written anew. */
#include "format/packfile_copy.h"

#include "format/packfile_write.h"

enum { PIECE = 16 << 20 }; /* bytes between two calls of the callback */

static enum sp_status copy_tensor(struct sp_pack_writer *w, const struct sp_pack *pack, size_t i,
                                  uint64_t *done, const struct sp_pack_new_section *section,
                                  struct sp_err *err)
{
    const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
    enum sp_status st;

    if ((st = sp_pack_check_tensor(pack, i, err))) return st;
    for (uint64_t at = 0; at < t->size; at += PIECE) {
        size_t n = t->size - at < PIECE ? (size_t)(t->size - at) : PIECE;

        if (section->progress && section->progress(section->context, *done, sp_pack_size(pack)))
            return sp_fail(err, SP_E_CHECK, "interrupted");
        if ((st = sp_pack_writer_put(w, i, t->data + at, n, err))) return st;
        *done += n;
    }
    return SP_OK;
}

static enum sp_status copy_sections(struct sp_pack_writer *w, const struct sp_pack *pack,
                                    const struct sp_pack_new_section *section, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sp_pack_n_sections(pack) && !st; i++) {
        const struct sp_pack_section *s = sp_pack_section(pack, i);

        if (s->kind == section->kind && s->part == section->part) continue;
        st = sp_pack_writer_copy_section(w, s->part, s, err);
    }
    if (st || section->content == NULL) return st;
    return sp_pack_writer_section(w, section->part, section->kind, section->content, section->size,
                                  err);
}

enum sp_status sp_pack_copy_with(const char *path, const struct sp_pack *pack,
                                 const struct sp_pack_new_section *section, struct sp_err *err)
{
    size_t n = sp_pack_n_tensors(pack);
    struct sp_pack_writer *w = NULL;
    uint64_t done = 0;
    enum sp_status st;

    /* The tensors of a file lie in one array. */
    st = sp_pack_writer_open(&w, path, true, n ? sp_pack_tensor(pack, 0) : NULL, n, err);
    if (!st) st = copy_sections(w, pack, section, err);
    for (size_t i = 0; i < n && !st; i++)
        st = copy_tensor(w, pack, i, &done, section, err);
    if (!st) st = sp_pack_writer_finish(w, NULL, err);
    sp_pack_writer_close(w);
    return st;
}
