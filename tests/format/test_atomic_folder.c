/* Tests folders that are replaced atomically, also on file systems that lack a system call. This
 * file defines the calls renameat2 and renameat, which fail as they would on such a file system. */
#define _GNU_SOURCE /* SYS_renameat2, RENAME_EXCHANGE */
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/base/atomic_folder.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool supports_flags;   /* whether the file system supports the flags of renameat2 */
static unsigned failing_call; /* which call of renameat fails, counted from 1; 0: none */
static unsigned n_renames;    /* number of calls of renameat */

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
    if (supports_flags) return (int)syscall(SYS_renameat2, from, a, to, b, flags);
    errno = EINVAL;
    return -1;
}

int renameat(int from, const char *a, int to, const char *b)
{
    if (failing_call && ++n_renames == failing_call) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from, a, to, b, 0);
}

static bool is_replaceable(const char *inside, const char *name)
{
    return inside == NULL && strcmp(name, "a") == 0;
}

static void write_inside(const char *folder, const char *text)
{
    char *path = NULL;

    assert_ok(sp_file_join(&path, folder, "a", NULL));
    assert_ok(sp_atomic_file_write_file(path, false, text, strlen(text), NULL));
    free(path);
}

static void assert_inside(const char *folder, const char *text)
{
    char *path = NULL, *found;
    size_t size;

    assert_ok(sp_file_join(&path, folder, "a", NULL));
    found = scratch_read(path, &size);
    assert_string_equal(found, text);
    free(path);
}

static size_t n_entries(void)
{
    DIR *dir = opendir(scratch_folder());
    size_t n = 0;

    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

/* Replaces the folder by one that holds "new" while a call of renameat fails. Checks the content
 * afterwards, and that no other entry is left. */
static void replace(unsigned call, enum sp_status status, const char *expected)
{
    struct sp_atomic_folder *folder = NULL;

    const char *out = keep_format("%s", scratch_path("out"));
    assert_ok(sp_atomic_folder_open(&folder, out, true, is_replaceable, NULL));
    write_inside(sp_atomic_folder_path(folder), "new");
    failing_call = call;
    n_renames = 0;
    assert_int_equal(sp_atomic_folder_commit(folder, NULL), status);
    failing_call = 0;
    sp_atomic_folder_close(folder);
    assert_inside(out, expected);
    assert_int_equal(n_entries(), 1);
}

TEST(folders_are_replaced)
{
    for (int supported = 0; supported < 2; supported++) {
        supports_flags = supported;
        const char *out = keep_format("%s", scratch_path("out"));
        replace(0, SP_OK, "new"); /* the folder does not exist yet */
        assert_int_equal(unlink(scratch_path("out/a")), 0);
        write_inside(out, "old");
        replace(0, SP_OK, "new");
        scratch_remove();
    }
}

/* renameat is called for the new name (which exists), to move the old folder aside, to move the new
 * one into place, and to move the old one back. */
TEST(failed_renames_restore_the_folder)
{
    supports_flags = false;
    const char *out = keep_format("%s", scratch_path("out"));
    assert_int_equal(mkdir(out, 0777), 0);
    write_inside(out, "old");
    for (unsigned call = 1; call <= 3; call++)
        replace(call, SP_E_IO, "old");
    replace(0, SP_OK, "new");
    scratch_remove();
}
