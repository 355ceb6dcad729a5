/* Opens the tokenizer of a packed file, a checkpoint folder, or a tokenizer.json. */
#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/packfile.h"
#include "format/tokenizer/bpe_files.h"
#include "format/tokenizer/older_files.h"
#include "format/tokenizer/tokmap_write.h"
#include "format/tokenizer/vocab.h"
#include "runtime/tokenizer/tokenizer_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sources of a tokenizer; both are owned. */
struct source {
    struct sp_pack *pack;
    uint8_t *blob;
};

enum { MAX_TEXT = 256 << 20 };

static enum sp_status open_pack(struct sp_tokenizer **out, struct source *s, const char *path,
                                struct sp_err *err)
{
    const struct sp_pack_section *map;
    enum sp_status st;

    if ((st = sp_pack_open(&s->pack, path, err))) return st;
    if ((st = sp_pack_expect_model(s->pack, err))) return st;
    map = sp_pack_find_section(s->pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP);
    if (map == NULL) return sp_fail(err, SP_E_INPUT, "%s has no tokenizer", path);
    if ((st = sp_tokenizer_open(out, map->data, (size_t)map->size, err)))
        sp_context(err, "%s", path);
    return st;
}

/* The tokenizer.json at `path`, or what the folder has in its place if that does not exist. */
static enum sp_status read_json(struct sp_text *json, const char *folder, const char *path,
                                const struct sp_text *config, struct sp_err *err)
{
    enum sp_status st;

    if (sp_file_exists(path)) return sp_file_read_text(json, path, MAX_TEXT, err);
    if ((st = sp_bpe_files_read(json, folder, config, err)) || json->at) return st;
    return sp_tokenizer_files_fail(folder, err);
}

static enum sp_status open_json(struct sp_tokenizer **out, struct source *s, const char *folder,
                                const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_text json = {0}, config = {0};
    size_t size = 0;

    st = sp_file_read_in(&config, folder, "tokenizer_config.json", MAX_TEXT, err);
    if (st) goto done;
    if ((st = read_json(&json, folder, path, &config, err))) goto done;
    if ((st = sp_older_files_add(&config, folder, &json, err))) goto done;
    st = sp_vocab_compile(&s->blob, &size, &json, &config, NULL, err);
    if (st == SP_OK) st = sp_tokenizer_open(out, s->blob, size, err);
    if (st) sp_context(err, "%s", path);
done:
    free(json.at);
    free(config.at);
    return st;
}

static enum sp_status open_folder(struct sp_tokenizer **out, struct source *s, const char *folder,
                                  struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = sp_file_join(&path, folder, "tokenizer.json", err))) return st;
    st = open_json(out, s, folder, path, err);
    free(path);
    return st;
}

static enum sp_status open_file(struct sp_tokenizer **out, struct source *s, const char *path,
                                struct sp_err *err)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];

    if (!sp_file_exists(path)) return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(ENOENT));
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
    return open_json(out, s, folder, path, err);
}

/* A file whose name ends in .json is a tokenizer.json; any other file must be a packed file. */
enum sp_status sp_tokenizer_open_file(struct sp_tokenizer **out, const char *path,
                                      struct sp_err *err)
{
    struct sp_tokenizer *tokenizer = NULL;
    struct source s = {0};
    enum sp_status st;

    if (sp_file_is_folder(path))
        st = open_folder(&tokenizer, &s, path, err);
    else if (sp_ends_with(path, ".json"))
        st = open_file(&tokenizer, &s, path, err);
    else
        st = open_pack(&tokenizer, &s, path, err);
    if (st) {
        sp_pack_close(s.pack);
        free(s.blob);
        return st;
    }
    tokenizer->own_pack = s.pack;
    tokenizer->own_blob = s.blob;
    *out = tokenizer;
    return SP_OK;
}
