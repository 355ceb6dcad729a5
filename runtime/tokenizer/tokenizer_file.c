/* Opens the tokenizer of a packed file, a checkpoint folder, or a tokenizer.json. */
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
static enum sp_status read_json(char **json, size_t *size, const char *folder, const char *path,
                                const char *config, size_t config_size, struct sp_err *err)
{
    enum sp_status st;

    if (sp_file_exists(path)) return sp_file_read_text(json, size, path, MAX_TEXT, err);
    if ((st = sp_bpe_files_read(json, size, folder, config, config_size, err)) || *json) return st;
    return sp_tokenizer_files_fail(folder, err);
}

static enum sp_status open_json(struct sp_tokenizer **out, struct source *s, const char *folder,
                                const char *path, struct sp_err *err)
{
    enum sp_status st;
    char *json = NULL, *config = NULL;
    size_t size = 0, config_size = 0, blob_size = 0;

    st = sp_file_read_in(&config, &config_size, folder, "tokenizer_config.json", MAX_TEXT, err);
    if (st) goto done;
    if ((st = read_json(&json, &size, folder, path, config, config_size, err))) goto done;
    if ((st = sp_older_files_add(&config, &config_size, folder, json, size, err))) goto done;
    st = sp_vocab_compile(&s->blob, &blob_size, json, size, config, config_size, NULL, err);
    if (st == SP_OK) st = sp_tokenizer_open(out, s->blob, blob_size, err);
    if (st) sp_context(err, "%s", path);
done:
    free(json);
    free(config);
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
    size_t len = strlen(path);
    enum sp_status st;

    if (sp_file_is_folder(path))
        st = open_folder(&tokenizer, &s, path, err);
    else if (len >= 5 && strcmp(path + len - 5, ".json") == 0)
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
