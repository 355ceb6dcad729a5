#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/packed_checkpoint.h"
#include "cli/base/out.h"
#include "cli/base/user_folder.h"
#include "cli/create_callbacks.h"
#include "convert/source/source_name.h"
#include "format/base/affix.h"
#include "format/base/bounded_folder.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "format/gguf.h"
#include "format/modelfile/modelfile.h"
#include "format/packfile.h"
#include "format/system/macos.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_SIZE ((uint64_t)32000000000) /* bytes of all packed files in the cache folder */

/* Appends name, size and time of a file of the folder; folders do not count. */
static enum sp_status add_file(struct sp_strbuf *list, const char *folder, const char *name,
                               struct sp_err *err)
{
    char *path = NULL, line[80];
    struct stat info;
    enum sp_status st;
    int n;

    if ((st = sp_file_join(&path, folder, name, err))) return st;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        n = snprintf(line, sizeof line, "/%jd %jd.%ld\n", (intmax_t)info.st_size,
                     (intmax_t)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
        st = sp_strbuf_append(list, name, strlen(name), err);
        if (!st) st = sp_strbuf_append(list, line, (size_t)n, err);
    }
    free(path);
    return st;
}

/* Appends the folder's files; hidden ones do not count. */
static enum sp_status add_files(struct sp_strbuf *list, const char *folder, struct sp_err *err)
{
    struct dirent **entries = NULL;
    enum sp_status st = SP_OK;
    int n = scandir(folder, &entries, NULL, alphasort);

    if (n < 0) return sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st && entries[i]->d_name[0] != '.')
            st = add_file(list, folder, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return st;
}

/* A checkpoint that the user gave as a path or a name. */
struct checkpoint {
    const char *given;
    struct sp_named_source named; /* zeroed: `given` is a path */
    char place[PATH_MAX];         /* real path of the folder or the GGUF file */
    const char *type;             /* of the target's weights; NULL: as stored */
};

/* *identity = hash of the folder's files or of the one file, and of ollama's manifest. */
static enum sp_status identify(uint64_t *identity, const struct checkpoint *c, struct sp_err *err)
{
    /* tells files from those that earlier versions made, without a built-in head */
    static const char with_head[] = "with head";
    struct sp_strbuf list = {0};
    enum sp_status st = sp_file_is_folder(c->place) ? add_files(&list, c->place, err)
                                                    : add_file(&list, "/", c->place, err);

    if (!st && c->named.manifest) st = add_file(&list, "", c->named.manifest, err);
    if (!st) st = sp_strbuf_append(&list, with_head, sizeof with_head, err);
    if (!st) *identity = sp_hash64(list.at ? list.at : "", list.len);
    sp_strbuf_release(&list);
    return st;
}

/* Removes the packed files of earlier states of the checkpoint, whose names begin with `prefix`;
 * `name` is the new one. */
static void remove_older(const char *cache, const char *prefix, const char *name)
{
    DIR *folder = opendir(cache);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && strcmp(entry->d_name, name) != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
}

/* ---- the bound of the cache ---- */

static void tell_removed(void *command, const char *path)
{
    fprintf(stderr, "spectool %s: removed %s, the least recently used\n", (const char *)command,
            path);
}

/* Removes files that were not used for long until those that stay take no more than the bound, and
 * tells how much they take. Whoever has a file open keeps it. */
static void bound_cache(const char *command, const char *cache, const char *keep)
{
    char before[SP_AMOUNT_TEXT], most[SP_AMOUNT_TEXT];
    struct sp_folder_bound bound = {
        .part = ".bin", .keep = keep, .most = CACHE_SIZE, .removed = tell_removed};
    uint64_t total;

    bound.context = (void *)(uintptr_t)command;
    total = sp_folder_trim(cache, &bound);
    fprintf(stderr,
            "spectool %s: packed models take %s of at most %s there; removing files frees it\n",
            command, sp_out_size(before, total), sp_out_size(most, CACHE_SIZE));
}

/* Tells how a model that is not quantized becomes smaller and faster, to commands that generate. */
static void note_size(const char *command, const char *checkpoint,
                      const struct sp_create_report *report)
{
    if (strcmp(command, "run") != 0 && strcmp(command, "serve") != 0) return;
    if (!sp_create_is_large(report, SP_PART_TARGET)) return;
    sp_note(command,
            "nothing was quantized; spectool %s -q q4 %s packs it in about a third of the size, "
            "which runs faster",
            command, checkpoint);
}

/* Packs a checkpoint without further options, or whatever of that the request asks for. */
static enum sp_status create(struct sp_create_report *report, struct sp_create_options request,
                             const char *checkpoint, const char *command, struct sp_err *err)
{
    struct sp_create_listener listener = {.command = command};
    struct sp_user_stores user;
    enum sp_status st;

    sp_user_stores_find(&user);
    request.from = checkpoint;
    request.check_template = sp_create_check_template;
    request.stores = user.stores;
    sp_create_attach(&request.callbacks, &listener);
    if (request.only_read) sp_progress_begin(&listener.progress, "reading", NULL);
    st = sp_create(report, &request, err);
    sp_progress_end(&listener.progress);
    return st;
}

static enum sp_status pack(const struct checkpoint *c, const char *path, const char *command,
                           struct sp_err *err)
{
    struct sp_create_options request = {.output = path, .target_type = sp_create_type(c->type)};
    struct sp_create_report report;
    char size[SP_AMOUNT_TEXT];
    enum sp_status st;

    fprintf(stderr, "spectool %s: packing %s, once, into %s\n", command, c->given, path);
    st = create(&report, request, c->given, command, err);
    if (st == SP_OK) {
        fprintf(stderr, "spectool %s: packed, %s\n", command, sp_out_size(size, report.file_size));
        note_size(command, c->given, &report);
    }
    return st;
}

/* A folder that is no checkpoint may be one that create or export reads or writes. */
static enum sp_status check_folder(const char *folder, struct sp_err *err)
{
    struct sp_err inner = {0};
    char *modelfile = NULL, *gguf = NULL;
    enum sp_status st = sp_folder_find_model(&gguf, folder, &inner);

    free(gguf);
    if (st == SP_OK) return SP_OK;
    if (sp_file_join(&modelfile, folder, "Modelfile", NULL) == SP_OK && sp_file_exists(modelfile)) {
        st = sp_fail(err, SP_E_INPUT,
                     "%s: a folder without config.json is no checkpoint; spectool create -f %s "
                     "packs what its Modelfile names",
                     folder, modelfile);
    } else {
        *err = inner;
    }
    free(modelfile);
    return st;
}

static bool is_gguf(const char *path)
{
    uint8_t first[4];
    struct sp_file *file = NULL;
    bool is_one = sp_file_open(&file, path, NULL) == SP_OK &&
                  sp_file_read_at(file, 0, first, sizeof first, NULL) == SP_OK &&
                  sp_gguf_is_magic(first);

    sp_file_close(file);
    return is_one;
}

bool sp_packed_checkpoint_is_needed(const char *path)
{
    return sp_file_is_folder(path) || !sp_file_exists(path) || is_gguf(path);
}

/* True for a text with a FROM line that is a Modelfile. */
static bool is_modelfile(const char *path)
{
    struct sp_modelfile file = {0};
    struct sp_text text = {0};
    bool is_one = sp_file_read_text(&text, path, SP_MODELFILE_MAX_SIZE, NULL) == SP_OK &&
                  sp_modelfile_parse(&file, path, text.at, text.size, NULL) == SP_OK &&
                  sp_modelfile_find(&file, SP_MODELFILE_FROM, NULL) != NULL;

    sp_modelfile_release(&file);
    free(text.at);
    return is_one;
}

static enum sp_status fail_part(const char *path, struct sp_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    return sp_fail(err, SP_E_INPUT,
                   "%s: a file of a checkpoint, expected the checkpoint's folder, %.*s", path,
                   n ? (int)n : 1,
                   n       ? path
                   : slash ? "/"
                           : ".");
}

bool sp_packed_checkpoint_is_model(const char *path)
{
    return sp_packed_checkpoint_is_needed(path) || sp_ends_with(path, ".safetensors") ||
           sp_pack_is_file(path);
}

enum sp_status sp_packed_checkpoint_check(const char *path, struct sp_err *err)
{
    if (sp_file_is_folder(path)) return check_folder(path, err);
    return sp_file_exists(path) && sp_ends_with(path, ".json") ? fail_part(path, err) : SP_OK;
}

/* Refuses a file that a packed file is made from. */
static enum sp_status check_made_from(const char *path, struct sp_err *err)
{
    if (sp_ends_with(path, ".safetensors")) return fail_part(path, err);
    if (!is_modelfile(path)) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "%s: a Modelfile, expected a packed file; spectool create -f %s makes one", path,
                   path);
}

static enum sp_status check_packed(const char *path, struct sp_err *err)
{
    enum sp_status st;
    bool is_pack;

    if ((st = sp_pack_recognize(&is_pack, path, err)) || is_pack) return st;
    if (sp_ends_with(path, ".json")) return fail_part(path, err);
    if ((st = check_made_from(path, err))) return st;
    return sp_fail(err, SP_E_INPUT,
                   "%s: neither a packed file, a checkpoint folder nor a GGUF file", path);
}

/* Returns ORG/NAME of a model's address at Hugging Face; NULL: the text is none. */
static const char *name_in_address(const char *text)
{
    static const char *const sites[] = {"https://huggingface.co/", "huggingface.co/",
                                        "https://hf.co/", "hf.co/"};

    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        if (strncmp(text, sites[i], strlen(sites[i])) == 0) return text + strlen(sites[i]);
    return NULL;
}

/* Finds the folder or file that a path or a name means. */
static enum sp_status find(struct checkpoint *out, const char *given, const char *type,
                           struct sp_err *err)
{
    struct sp_user_stores user;
    const char *path = given, *name = name_in_address(given);
    enum sp_status st;

    *out = (struct checkpoint){.given = given, .type = type};
    if (!sp_file_exists(given)) {
        sp_user_stores_find(&user);
        if ((st = sp_source_name_find(&out->named, given, &user.stores, err))) return st;
        path = out->named.path;
        if (path == NULL && strchr(given, '/') == NULL && !sp_source_name_is_file(given)) {
            return sp_fail_about(
                err, SP_E_IO, SP_TOPIC_NO_MODEL,
                "%s: neither a file nor a model in ollama's store (%s); models of the "
                "Hugging Face cache are named ORG/NAME",
                given, user.stores.ollama);
        }
        if (path == NULL && name) {
            return sp_fail_about(
                err, SP_E_IO, SP_TOPIC_NO_MODEL,
                "%s: spectool downloads nothing; hf download %s, then the name is %s", given, name,
                name);
        }
        if (path == NULL) {
            return sp_fail_about(err, SP_E_IO, SP_TOPIC_NO_MODEL, "%s: %s", given,
                                 strerror(ENOENT));
        }
    }
    if (realpath(path, out->place) == NULL)
        return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
    return sp_file_is_folder(out->place) ? check_folder(path, err) : SP_OK;
}

/* Writes how the names of all packed files of the checkpoint in this type begin: the name of its
 * folder or file, or the model's, the type, and a hash that tells checkpoints of the same name
 * apart. */
static void print_prefix(char prefix[NAME_MAX], const struct checkpoint *c)
{
    const char *text = c->named.path ? c->given : c->place;
    char *end;

    snprintf(prefix, NAME_MAX, "%.100s%s%s", c->named.path ? text : strrchr(text, '/') + 1,
             c->type ? "-" : "", c->type ? c->type : "");
    for (end = prefix; *end; end++)
        if (c->named.path && strchr("/:@", *end)) *end = '-';
    snprintf(end, 32, "-%016" PRIx64 "-", sp_hash64(text, strlen(text)));
}

/* *path = the packed file of a checkpoint, owned by the caller. */
static enum sp_status packed_file(char **path, const char *given, const char *type,
                                  const char *command, struct sp_err *err)
{
    struct checkpoint c = {0};
    char prefix[NAME_MAX], name[NAME_MAX + 32];
    char *cache = NULL, *whole = NULL;
    uint64_t identity = 0;
    enum sp_status st;

    if ((st = find(&c, given, type, err)) || (st = identify(&identity, &c, err))) goto done;
    if ((st = sp_user_file(&cache, "XDG_CACHE_HOME", ".cache", "", err))) {
        sp_context(err, "%s is packed into the cache folder", given);
        goto done;
    }
    print_prefix(prefix, &c);
    snprintf(name, sizeof name, "%s%016" PRIx64 ".bin", prefix, identity);
    if ((st = sp_file_join(&whole, cache, name, err))) goto done;
    if (!sp_file_exists(whole)) {
        st = pack(&c, whole, command, err);
        if (st == SP_E_USAGE && sp_file_exists(whole)) { /* another process was faster */
            *err = (struct sp_err){0};
            st = SP_OK;
        }
        if (st) goto done;
        remove_older(cache, prefix, name);
        bound_cache(command, cache, name);
    }
    (void)utimensat(AT_FDCWD, whole, NULL, 0); /* the time of its last use */
    *path = whole;
    whole = NULL;
done:
    sp_named_source_release(&c.named);
    free(whole);
    free(cache);
    return st;
}

enum sp_status sp_packed_checkpoint_find(char **path, const char *given, const char *type,
                                         const char *command, struct sp_err *err)
{
    enum sp_status st;

    if (sp_packed_checkpoint_is_needed(given)) return packed_file(path, given, type, command, err);
    if ((st = check_packed(given, err))) return st;
    if (type) {
        return sp_fail(err, SP_E_USAGE,
                       "%s: a packed file has its types already; spectool quantize -q %s %s "
                       "changes that of its target",
                       given, type, given);
    }
    return sp_copy_text(path, given, strlen(given), err);
}

enum sp_status sp_packed_checkpoint_or_folder(char **path, const char *given, const char *command,
                                              struct sp_err *err)
{
    bool folder = sp_file_is_folder(given);
    enum sp_status st;

    if (sp_packed_checkpoint_is_needed(given) && !folder)
        return packed_file(path, given, NULL, command, err);
    if (!folder && (st = check_made_from(given, err))) return st;
    return sp_copy_text(path, given, strlen(given), err);
}

enum sp_status sp_packed_checkpoint_check_name(const char *given, struct sp_err *err)
{
    struct checkpoint c = {0};
    enum sp_status st;

    if (!sp_packed_checkpoint_is_needed(given)) return check_packed(given, err);
    st = find(&c, given, NULL, err);
    sp_named_source_release(&c.named);
    return st;
}

enum sp_status sp_packed_checkpoint_outline(struct sp_temp_file *out, const char *given,
                                            const char *command, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_packed_checkpoint_check_name(given, err))) return st;
    if ((st = sp_temp_file_open(out, "outline.bin", err))) return st;
    return create(NULL, (struct sp_create_options){.output = out->path, .outline = true}, given,
                  command, err);
}

enum sp_status sp_packed_checkpoint_read(struct sp_create_report *report, const char *given,
                                         const char *command, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_packed_checkpoint_check_name(given, err))) return st;
    return create(report, (struct sp_create_options){.only_read = true}, given, command, err);
}
