/* The chat template of a packed file, a checkpoint folder, or a file of its own. */
#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/modelfile/modelfile.h"
#include "runtime/session/session.h"
#include "runtime/template/template.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 64 << 20 };

static void release(struct sp_template_texts *texts)
{
    free(texts->jinja.at);
    free(texts->json.at);
    free(texts->config.at);
}

/* The TEMPLATE of its Modelfile, else the checkpoint's; *out = NULL: it has none. */
static enum sp_status read_pack(struct sp_template **out, const struct sp_pack *pack,
                                struct sp_err *err)
{
    struct sp_template_texts texts = {0};
    struct sp_modelfile file = {0};
    const struct sp_modelfile_record *record;
    struct sp_text records = {0};
    enum sp_status st =
        sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, err);

    if (!st)
        st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_TEMPLATE, &texts.jinja, err);
    if (!st) {
        st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_CONFIG, &texts.config,
                                  err);
    }
    if (!st && records.at)
        st = sp_modelfile_parse(&file, sp_pack_path(pack), records.at, records.size, err);
    if (st) goto done;
    record = sp_modelfile_find(&file, SP_MODELFILE_TEMPLATE, NULL);
    if (record != NULL) texts.modelfile = (struct sp_text){record->value, record->value_size};
    if ((st = sp_template_open(out, &texts, err))) sp_context(err, "%s", sp_pack_path(pack));
done:
    sp_modelfile_release(&file);
    free(records.at);
    release(&texts);
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
    struct sp_template_texts t = {0};
    enum sp_status st;

    if (!(st = sp_file_read_in(&t.jinja, folder, "chat_template.jinja", MAX_TEXT, err)) &&
        !(st = sp_file_read_in(&t.json, folder, "chat_template.json", MAX_TEXT, err)) &&
        !(st = sp_file_read_in(&t.config, folder, "tokenizer_config.json", MAX_TEXT, err)) &&
        (st = sp_template_open(out, &t, err)))
        sp_context(err, "%s", folder);
    release(&t);
    return st;
}

/* A .json holds a member chat_template; every other file is the template's text. */
static enum sp_status open_file(struct sp_template **out, const char *path,
                                enum sp_template_language language, struct sp_err *err)
{
    enum sp_status st;
    struct sp_template_texts t = {0};

    if ((st = sp_file_read_text(&t.config, path, MAX_TEXT, err))) return st;
    st = sp_ends_with(path, ".json")
             ? sp_template_open(out, &t, err)
             : sp_template_compile(out, t.config.at, t.config.size, language, err);
    if (st) sp_context(err, "%s", path);
    release(&t);
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
    else if (!(st = sp_pack_recognize(&packed, path, err)))
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
