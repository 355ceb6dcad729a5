/* The chat template of a packed file, a checkpoint folder, or a file of its own. */
#include "format/base/file.h"
#include "format/modelfile/modelfile.h"
#include "runtime/session/session.h"
#include "runtime/template/template.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 64 << 20 };

/* What a template is read from; everything is owned. */
struct texts {
    char *jinja, *json, *config, *records;
    size_t jinja_size, json_size, config_size, records_size;
};

static void release(struct texts *t)
{
    free(t->jinja);
    free(t->json);
    free(t->config);
    free(t->records);
}

static void borrow(struct sp_template_texts *out, const struct texts *t)
{
    out->jinja = t->jinja;
    out->jinja_size = t->jinja_size;
    out->json = t->json;
    out->json_size = t->json_size;
    out->config = t->config;
    out->config_size = t->config_size;
}

/* The TEMPLATE of its Modelfile, else the checkpoint's; *out = NULL: it has none. */
static enum sp_status read_pack(struct sp_template **out, const struct sp_pack *pack,
                                struct sp_err *err)
{
    struct texts t = {0};
    struct sp_template_texts texts = {0};
    struct sp_modelfile file = {0};
    const struct sp_modelfile_record *record;
    enum sp_status st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &t.records,
                                             &t.records_size, err);

    if (!st) {
        st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_TEMPLATE, &t.jinja,
                                  &t.jinja_size, err);
    }
    if (!st) {
        st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_CONFIG, &t.config,
                                  &t.config_size, err);
    }
    if (!st && t.records != NULL)
        st = sp_modelfile_parse(&file, sp_pack_path(pack), t.records, t.records_size, err);
    if (st) goto done;
    borrow(&texts, &t);
    record = sp_modelfile_find(&file, SP_MODELFILE_TEMPLATE, NULL);
    if (record != NULL) {
        texts.modelfile = record->value;
        texts.modelfile_size = record->value_size;
    }
    if ((st = sp_template_open(out, &texts, err))) sp_context(err, "%s", sp_pack_path(pack));
done:
    sp_modelfile_release(&file);
    release(&t);
    return st;
}

static enum sp_status open_pack(struct sp_template **out, const char *path, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pack *pack = NULL;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    if ((st = sp_pack_expect_model(pack, err)) == SP_OK) st = read_pack(out, pack, err);
    sp_pack_close(pack);
    return st;
}

static enum sp_status open_folder(struct sp_template **out, const char *folder, struct sp_err *err)
{
    struct texts t = {0};
    struct sp_template_texts texts = {0};
    enum sp_status st =
        sp_file_read_in(&t.jinja, &t.jinja_size, folder, "chat_template.jinja", MAX_TEXT, err);

    if (st) goto done;
    st = sp_file_read_in(&t.json, &t.json_size, folder, "chat_template.json", MAX_TEXT, err);
    if (st) goto done;
    st = sp_file_read_in(&t.config, &t.config_size, folder, "tokenizer_config.json", MAX_TEXT, err);
    if (st) goto done;
    borrow(&texts, &t);
    if ((st = sp_template_open(out, &texts, err))) sp_context(err, "%s", folder);
done:
    release(&t);
    return st;
}

/* A .json holds a member chat_template; every other file is the template's text. */
static enum sp_status open_file(struct sp_template **out, const char *path,
                                enum sp_template_language language, struct sp_err *err)
{
    enum sp_status st;
    struct texts t = {0};
    struct sp_template_texts texts = {0};
    size_t len = strlen(path);

    if ((st = sp_file_read_text(&t.config, &t.config_size, path, MAX_TEXT, err))) return st;
    if (len > 5 && strcmp(path + len - 5, ".json") == 0) {
        borrow(&texts, &t);
        st = sp_template_open(out, &texts, err);
    } else {
        st = sp_template_compile(out, t.config, t.config_size, language, err);
    }
    if (st) sp_context(err, "%s", path);
    release(&t);
    return st;
}

/* True if the file begins like a packed file. */
static enum sp_status is_pack(bool *out, const char *path, struct sp_err *err)
{
    static const uint8_t magic[4] = {0x89, 'S', 'P', 'K'};
    enum sp_status st;
    struct sp_file *file = NULL;
    uint8_t head[sizeof magic] = {0};

    *out = false;
    if ((st = sp_file_open(&file, path, err))) return st;
    if (sp_file_size(file) >= sizeof head) st = sp_file_read_at(file, 0, head, sizeof head, err);
    *out = memcmp(head, magic, sizeof magic) == 0;
    sp_file_close(file);
    return st;
}

enum sp_status sp_package_template(const struct sp_package *package, struct sp_template **out,
                                   struct sp_err *err)
{
    return read_pack(out, package->pack, err);
}

enum sp_status sp_template_open_file(struct sp_template **out, const char *path,
                                     enum sp_template_language language, struct sp_err *err)
{
    enum sp_status st;
    struct sp_template *t = NULL;
    bool packed = false;

    if (sp_file_is_folder(path))
        st = open_folder(&t, path, err);
    else if (!(st = is_pack(&packed, path, err)))
        st = packed ? open_pack(&t, path, err) : open_file(&t, path, language, err);
    if (st) return st;
    if (t && language != SP_TEMPLATE_UNKNOWN && language != sp_template_language(t)) {
        sp_template_close(t);
        return sp_fail(err, SP_E_USAGE, "the template of %s is written in %s", path,
                       language == SP_TEMPLATE_GO ? "Jinja" : "Go's language");
    }
    *out = t;
    return SP_OK;
}
