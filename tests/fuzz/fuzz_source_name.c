/* Fuzzes models by name: the stores of Hugging Face and ollama hold what the input says. A name is
 * refused with a message, or it leads to a path below a store; the records of an ollama model are
 * refused, or are a Modelfile.
 *
 * The input has four parts, each but the last ended by a NUL: the name, refs/main of the model
 * org/name, ollama's manifest of the model `name`, and the blob whose digest is all zeros. */
#include "convert/source/source_name.h"
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#define MODEL "hub/models--org--name/"
#define MANIFEST "ollama/manifests/registry.ollama.ai/library/name/latest"
#define BLOB "ollama/blobs/sha256-" ZEROS ZEROS ZEROS ZEROS
#define ZEROS "0000000000000000"

static char folder[64] = "/tmp/fuzz-source-name.XXXXXX", hub[96], ollama[96];

static const char *const folders[] = {
    "hub",
    "hub/models--org--name",
    MODEL "refs",
    MODEL "snapshots",
    MODEL "snapshots/main",
    MODEL "snapshots/0123abcd",
    "ollama",
    "ollama/blobs",
    "ollama/manifests",
    "ollama/manifests/registry.ollama.ai",
    "ollama/manifests/registry.ollama.ai/library",
    "ollama/manifests/registry.ollama.ai/library/name",
};
static const char *const files[] = {
    MODEL "snapshots/main/a-Q4_K_M.gguf",
    MODEL "snapshots/main/a-Q8_0-00001-of-00002.gguf",
    MODEL "snapshots/0123abcd/config.json",
    MODEL "refs/main",
    MANIFEST,
    BLOB,
};
enum { N_FOLDERS = sizeof folders / sizeof *folders, N_FILES = sizeof files / sizeof *files };

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || (size && fwrite(data, 1, size, f) != size) || fclose(f)) abort();
}

static void remove_at_exit(void)
{
    char path[256];

    for (size_t i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    for (size_t i = N_FOLDERS; i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        rmdir(path);
    }
    rmdir(folder);
}

static void begin(void)
{
    char path[256];

    if (mkdtemp(folder) == NULL || atexit(remove_at_exit)) abort();
    for (size_t i = 0; i < N_FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        if (mkdir(path, 0700)) abort();
    }
    for (size_t i = 0; i < N_FILES; i++)
        write_file(files[i], NULL, 0);
    snprintf(hub, sizeof hub, "%s/hub", folder);
    snprintf(ollama, sizeof ollama, "%s/ollama", folder);
}

static void check_path(const char *path)
{
    if (strstr(path, "/../") ||
        (strncmp(path, hub, strlen(hub)) != 0 && strncmp(path, ollama, strlen(ollama)) != 0))
        abort();
}

/* Checks that the records of whole texts are the blob. */
static void check_texts(const struct sp_modelfile *base, const uint8_t *blob, size_t size)
{
    for (size_t i = 0; i < base->n_records; i++) {
        const struct sp_modelfile_record *r = &base->records[i];
        if (r->command != SP_MODELFILE_SYSTEM && r->command != SP_MODELFILE_TEMPLATE &&
            r->command != SP_MODELFILE_LICENSE)
            continue;
        if (r->value_size != size || memcmp(r->value, blob, size) != 0) abort();
    }
}

static void read_records(const char *manifest, const struct sp_source_stores *stores,
                         const uint8_t *blob, size_t size)
{
    struct sp_strbuf text = {0};
    struct sp_modelfile own = {0}, base = {0};
    struct sp_err err = {0};

    if (sp_strbuf_append(&text, "FROM x\n", 7, &err)) abort();
    if (sp_ollama_append_records(&text, manifest, &own, stores, NULL, &err)) {
        if (err.text[0] == '\0') abort();
    } else if (sp_modelfile_parse(&base, manifest, text.at, text.len, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    if (err.text[0] == '\0') check_texts(&base, blob, size);
    sp_modelfile_release(&base);
    sp_strbuf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sp_source_stores stores = {hub, ollama};
    struct sp_named_source found = {0};
    struct sp_err err = {0};
    char name[1024] = "";
    const uint8_t *blob = NULL;
    size_t n_blob = 0;

    if (hub[0] == '\0') begin();
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *end = i < 3 && size ? memchr(data, 0, size) : NULL;
        size_t n = end ? (size_t)(end - data) : size;
        if (i == 0 && n > 0 && n < sizeof name)
            memcpy(name, data, n);
        else if (i > 0)
            write_file(files[N_FILES - 4 + i], data, n);
        blob = data;
        n_blob = n;
        if (size) data += n + (end != NULL);
        size -= n + (end != NULL);
    }
    if (sp_source_name_find(&found, name, &stores, &err) && err.text[0] == '\0') abort();
    if (found.path) check_path(found.path);
    if (found.adapter) check_path(found.adapter);
    if (found.manifest) {
        check_path(found.manifest);
        read_records(found.manifest, &stores, blob, n_blob);
    }
    sp_named_source_release(&found);
    return 0;
}
