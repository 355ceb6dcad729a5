#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/unit_test.h"
#include "convert/create/create.h"

#include <dirent.h>
#include <unistd.h>

enum { MAX_PATHS = 2048, PATH_SIZE = 512 };

static char temporary[PATH_SIZE];
static char paths[MAX_PATHS][PATH_SIZE * 2];
static size_t n_paths;

int packed_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(temporary, sizeof temporary, "%s/spectool-test.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(temporary) == NULL;
}

int packed_teardown(void **state)
{
    DIR *dir = opendir(temporary);
    const struct dirent *entry;
    char path[PATH_SIZE * 2];

    (void)state;
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", temporary, entry->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
    rmdir(temporary);
    n_paths = 0;
    return 0;
}

const char *packed_path(const char *name)
{
    assert_true(n_paths < MAX_PATHS);
    snprintf(paths[n_paths], sizeof paths[n_paths], "%s/%s", temporary, name);
    return paths[n_paths++];
}

const char *packed_modelfile(const char *from, const char *draft)
{
    static unsigned count;

    const char *path = packed_path(keep_format("Modelfile.%u", count++));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "FROM %s\n", from);
    if (draft) fprintf(f, "DRAFT %s\n", draft);
    assert_int_equal(fclose(f), 0);
    return path;
}

static enum sp_status pack(const char **path, const char *modelfile, enum sp_dtype target,
                           enum sp_dtype draft, struct sp_err *err)
{
    static unsigned count;
    struct sp_create_options options = {
        .modelfile = modelfile, .target_type = target, .draft_type = draft, .force = true};

    options.output = *path = packed_path(keep_format("%u.bin", count++));
    return sp_create(NULL, &options, err);
}

const char *packed_file(const char *modelfile, enum sp_dtype target, enum sp_dtype draft)
{
    const char *path;

    assert_ok(pack(&path, modelfile, target, draft, why));
    return path;
}

const char *packed_alone(const char *folder, enum sp_dtype type)
{
    return packed_file(packed_modelfile(folder, NULL), type, SP_DTYPE_NONE);
}

const char *packed_family(const char *name, enum sp_dtype type)
{
    return packed_alone(keep_format(TESTDATA "/families/%s", name), type);
}

const char *packed_speculator(const char *name, enum sp_dtype target, enum sp_dtype draft)
{
    return packed_file(keep_format(TESTDATA "/speculators/%s/Modelfile", name), target, draft);
}

bool packed_is_supported(const char *checkpoint)
{
    struct sp_err err = {0};
    const char *path;
    enum sp_status st =
        pack(&path, packed_modelfile(checkpoint, NULL), SP_DTYPE_NONE, SP_DTYPE_NONE, &err);

    if (st && st != SP_E_UNSUPPORTED) fail_msg("%s", err.text);
    return st == SP_OK;
}
