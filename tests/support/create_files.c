#include "tests/support/create_files.h"
#include "convert/create/create_job.h"
#include "format/pack_contents.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <dirent.h>

const char *create_keep_path(const char *path)
{
    char *copy = keep(strdup(path));

    assert_non_null(copy);
    return copy;
}

const char *create_path(const char *name)
{
    return create_keep_path(scratch_path(name));
}

int create_setup(void **state)
{
    (void)state;
    return scratch_folder() == NULL;
}

int create_teardown(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

size_t create_count_files(void)
{
    DIR *dir = opendir(scratch_folder());
    struct dirent *e;
    size_t n = 0;

    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

const char *create_modelfile(const char *lines)
{
    char text[4096];
    size_t n = 0;

    for (const char *s = lines; *s; s++) {
        assert_true(n + sizeof TINY < sizeof text);
        if (*s == '@')
            n += (size_t)sprintf(text + n, "%s", TINY);
        else
            text[n++] = *s;
    }
    return create_keep_path(scratch_write("Modelfile", text, n));
}

struct sp_create_options create_options(const char *path, const char *output)
{
    return (struct sp_create_options){.modelfile = path, .output = output, .n_threads = 2};
}

void create_pack(const char *path, const char *output, enum sp_dtype target, enum sp_dtype draft,
                 unsigned n_threads)
{
    struct sp_create_options o = create_options(path, output);

    o.target_type = target;
    o.draft_type = draft;
    o.n_threads = n_threads;
    o.force = true;
    assert_ok(sp_create(NULL, &o, why));
}

void create_requantize(const char *input, const char *output, enum sp_dtype target,
                       enum sp_dtype draft)
{
    struct sp_create_options o = {.from = input,
                                  .output = output,
                                  .target_type = target,
                                  .draft_type = draft,
                                  .n_threads = 2,
                                  .force = true};

    assert_ok(sp_requantize(NULL, &o, why));
}

void create_damage_tensor(const char *path, const char *tensor, const char *with, size_t n)
{
    struct sp_pack *pack = create_open(path);
    const uint8_t *data = sp_pack_find(pack, SP_PART_TARGET, tensor)->data;
    FILE *file = fopen(path, "r+b");

    assert_non_null(file);
    /* The data of the first tensor begins at the end of the first page. */
    assert_int_equal(fseek(file, 4096 + (long)(data - sp_pack_tensor(pack, 0)->data), SEEK_SET), 0);
    assert_int_equal(fwrite(with, 1, n, file), n);
    fclose(file);
}

static void close_pack(void *pack)
{
    sp_pack_close(pack);
}

struct sp_pack *create_open(const char *path)
{
    struct sp_pack *pack = NULL;
    struct sp_err err = {0};
    enum sp_status st = sp_pack_open(&pack, path, &err);

    for (size_t i = 0; !st && i < sp_pack_n_tensors(pack); i++)
        st = sp_pack_check_tensor(pack, i, &err);
    for (size_t i = 0; !st && i < sp_pack_n_sections(pack); i++)
        st = sp_pack_check_section(pack, i, &err);
    if (!st) st = sp_pairing_record_check(pack, &err);
    if (st) fail_msg("%s", err.text);
    return keep_with(pack, close_pack);
}
