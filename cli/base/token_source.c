#include "cli/base/token_source.h"
#include "cli/base/input_text.h"
#include "cli/base/lines.h"
#include "format/base/file.h"
#include "format/pack_contents.h"
#include "format/tokenizer/vocab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 << 20 };

static enum sp_status open_pack(struct sp_token_source *s, const char *path, struct sp_err *err)
{
    const struct sp_pack_section *map;
    enum sp_status st;

    if ((st = sp_pack_open(&s->pack, path, err))) return st;
    map = sp_pack_find_section(s->pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP);
    if (map == NULL) return sp_fail(err, SP_E_INPUT, "%s has no tokenizer", path);
    if ((st = sp_tokenizer_open(&s->tokenizer, map->data, (size_t)map->size, err))) {
        sp_context(err, "%s", path);
    }
    return st;
}

/* tokenizer_config.json beside it, where there is one. */
static enum sp_status read_config(char **text, size_t *size, const char *folder, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = sp_file_join(&path, folder, "tokenizer_config.json", err))) return st;
    if (sp_file_exists(path)) st = sp_file_read_text(text, size, path, MAX_TEXT, err);
    free(path);
    return st;
}

static enum sp_status open_json(struct sp_token_source *s, const char *folder, const char *path,
                                struct sp_err *err)
{
    enum sp_status st;
    char *json = NULL, *config = NULL;
    size_t size = 0, config_size = 0, blob_size = 0;

    if ((st = sp_file_read_text(&json, &size, path, MAX_TEXT, err))) goto done;
    if ((st = read_config(&config, &config_size, folder, err))) goto done;
    st = sp_vocab_compile(&s->blob, &blob_size, json, size, config, config_size, NULL, err);
    if (st == SP_OK) st = sp_tokenizer_open(&s->tokenizer, s->blob, blob_size, err);
    if (st) sp_context(err, "%s", path);
done:
    free(json);
    free(config);
    return st;
}

static enum sp_status open_folder(struct sp_token_source *s, const char *folder, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = sp_file_join(&path, folder, "tokenizer.json", err))) return st;
    st = open_json(s, folder, path, err);
    free(path);
    return st;
}

static enum sp_status open_beside(struct sp_token_source *s, const char *path, struct sp_err *err)
{
    const char *slash = strrchr(path, '/');
    char folder[4096];

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
    return open_json(s, folder, path, err);
}

/* A tokenizer.json is called so; every other file must be a packed one. */
enum sp_status sp_token_source_open(struct sp_token_source *out, const char *path,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct sp_token_source s = {0};
    size_t len = strlen(path);

    if (sp_file_is_folder(path))
        st = open_folder(&s, path, err);
    else if (len >= 5 && strcmp(path + len - 5, ".json") == 0)
        st = open_beside(&s, path, err);
    else
        st = open_pack(&s, path, err);
    if (st) sp_token_source_close(&s);
    *out = s;
    return st;
}

void sp_token_source_close(struct sp_token_source *source)
{
    sp_tokenizer_close(source->tokenizer);
    sp_pack_close(source->pack);
    free(source->blob);
    *source = (struct sp_token_source){0};
}

static enum sp_status token_line(void *context, const char *text, size_t size, struct sp_err *err)
{
    const struct sp_token_job *job = context;
    struct sp_json *value = NULL;
    enum sp_status st = sp_json_parse(&value, text, size, SP_JSON_STRICT, err);

    if (st == SP_OK) st = job->value(job, value, err);
    sp_json_free(value);
    return st;
}

static enum sp_status token_input(const struct sp_token_job *job, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;
    size_t size;

    if ((st = sp_input_text(&text, &size, NULL, SP_INPUT_MOST, err))) return st;
    st = job->text(job, text, size, err);
    free(text);
    return st;
}

enum sp_status sp_token_command(const struct sp_args *args, bool batch, struct sp_token_job job,
                                struct sp_err *err)
{
    const char *text = sp_args_text(args);
    struct sp_token_source source = {0};
    enum sp_status st;

    if (text != NULL && batch) {
        return sp_fail(err, SP_E_USAGE, "--batch reads standard input, unexpected argument %s",
                       text);
    }
    if ((st = sp_token_source_open(&source, args->operands[0], err))) return st;
    job.tokenizer = source.tokenizer;
    job.options = args->options;
    st = batch          ? sp_each_line(token_line, NULL, &job, err)
         : text != NULL ? job.text(&job, text, strlen(text), err)
                        : token_input(&job, err);
    sp_token_source_close(&source);
    return st;
}
