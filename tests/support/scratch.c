#include "tests/support/scratch.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];

const char *scratch_folder(void)
{
    if (folder[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/spectool-test.XXXXXX", tmp ? tmp : "/tmp");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

static void remove_inside(const char *path, int levels)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    char inner[1024];

    if (dir == NULL) return;
    while ((e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner) != 0 && levels > 0) {
            remove_inside(inner, levels - 1);
            rmdir(inner);
        }
    }
    closedir(dir);
}

void scratch_remove(void)
{
    if (folder[0] == '\0') return;
    remove_inside(folder, 3);
    rmdir(folder);
    folder[0] = '\0';
}

int scratch_teardown(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

const char *scratch_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", scratch_folder(), name);
    return path;
}

const char *scratch_write(const char *name, const void *bytes, size_t size)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    if (size) assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

char *scratch_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0, cap = 1 << 16;
    char *bytes = malloc(cap);

    assert_non_null(f);
    for (;;) {
        assert_non_null(bytes);
        n += fread(bytes + n, 1, cap - 1 - n, f);
        if (n < cap - 1) break;
        bytes = realloc(bytes, cap *= 2);
    }
    fclose(f);
    bytes[n] = '\0';
    *size = n;
    return keep(bytes);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

const char *const *folder_names(const char *path)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_shown, alphasort);
    const char **names = keep(calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *names));

    assert_non_null(names);
    for (int i = 0; i < n; i++)
        names[i] = ((struct dirent *)keep(entries[i]))->d_name;
    free(entries);
    return names;
}

void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = scratch_read(a, &n), *y = scratch_read(b, &m);

    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
}
