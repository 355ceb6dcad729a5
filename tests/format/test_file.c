/* format/base/file.h: only regular files are read, ranges are checked, and an output file is
 * complete or absent. */
#define _GNU_SOURCE /* O_TMPFILE */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/base/atomic_file.h"
#include "format/base/bounded_folder.h"
#include "format/base/file.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static unsigned n_entries(void)
{
    DIR *dir = opendir(scratch_folder());
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 2;
}

static void assert_content(const char *path, const char *expected)
{
    size_t size;
    char *bytes = scratch_read(path, &size);

    assert_int_equal(size, strlen(expected));
    assert_memory_equal(bytes, expected, size);
}

TEST(existence_and_joined_paths)
{
    char *path = NULL;

    scratch_write("a", "x", 1);
    assert_true(sp_file_exists(scratch_path("a")));
    assert_true(sp_file_exists(scratch_folder()));
    assert_false(sp_file_exists(scratch_path("b")));
    assert_false(sp_file_exists(scratch_path("a/b")));
    assert_true(sp_file_is_folder(scratch_folder()));
    assert_false(sp_file_is_folder(scratch_path("a")));
    assert_ok(sp_file_join(&path, "x/y", "z", NULL));
    assert_string_equal(path, "x/y/z");
    free(path);
    assert_ok(sp_file_join(&path, "/", "z", NULL));
    assert_string_equal(path, "/z");
    free(path);
    assert_ok(sp_file_join(&path, "", "z", NULL));
    assert_string_equal(path, "z");
    free(path);
}

TEST(files_are_mapped)
{
    struct sp_mapping m = {0};

    assert_ok(sp_file_map(&m, scratch_write("a", "hello", 5), NULL));
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "hello", 5);
    sp_file_unmap(&m);
    assert_null(m.data);
    assert_ok(sp_file_map(&m, scratch_write("empty", "", 0), NULL));
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    sp_file_unmap(&m);
    sp_file_unmap(&m);
}

TEST(mapping_without_addresses)
{
    const char *path = scratch_write("a", "hello", 5);
    struct sp_mapping m = {0};
    struct sp_err err = {0};
    struct rlimit limit, none;

    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    none = (struct rlimit){1, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    enum sp_status st = sp_file_map(&m, path, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(st, SP_E_NOMEM);
    assert_non_null(strstr(err.text, "/a: mapping 5 bytes: "));
    assert_null(m.data);
}

TEST(non_files_are_refused)
{
    struct sp_mapping m = {0};
    struct sp_file *f = NULL;
    const char *fifo = scratch_path("fifo");
    struct sp_text text;

    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_fails(sp_file_map(&m, fifo, why), SP_E_INPUT, "fifo is a FIFO, expected a file");
    assert_fails(sp_file_open(&f, scratch_folder(), why), SP_E_INPUT,
                 "is a folder, expected a file");
    assert_int_equal(sp_file_open(&f, "/dev/null", NULL), SP_E_INPUT);
    assert_fails(sp_file_read_text(&text, scratch_path("none"), 10, why), SP_E_IO,
                 "/none: No such file or directory");
    assert_null(f);
}

TEST(reading_ranges)
{
    struct sp_file *f = NULL;
    const char *path = scratch_write("a", "0123456789", 10);
    char buffer[16] = {0};

    assert_ok(sp_file_open(&f, path, NULL));
    assert_string_equal(sp_file_path(f), path);
    assert_int_equal(sp_file_size(f), 10);
    assert_ok(sp_file_read_at(f, 3, buffer, 4, NULL));
    assert_string_equal(buffer, "3456");
    assert_ok(sp_file_read_at(f, 10, buffer, 0, NULL));
    assert_fails(sp_file_read_at(f, 8, buffer, 3, why), SP_E_INPUT,
                 "3 bytes wanted at byte 8, but it has 10");
    assert_int_equal(sp_file_read_at(f, UINT64_MAX, buffer, 2, NULL), SP_E_INPUT);
    assert_int_equal(sp_file_read_at(f, 1, buffer, SIZE_MAX, NULL), SP_E_INPUT);
    assert_int_equal(truncate(path, 5), 0);
    assert_fails(sp_file_read_at(f, 3, buffer, 4, why), SP_E_IO,
                 "ends at byte 5, it had 10 when it was opened");
    sp_file_close(f);
    sp_file_close(NULL);
}

TEST(small_files_as_text)
{
    const char *path = scratch_write("a", "a\0b", 3);
    struct sp_text text;

    assert_ok(sp_file_read_text(&text, path, 3, NULL));
    assert_int_equal(text.size, 3);
    assert_memory_equal(text.at, "a\0b", 4);
    free(text.at);
    assert_fails(sp_file_read_text(&text, path, 2, why), SP_E_INPUT, "3 bytes, expected at most 2");
}

static bool supports_unnamed_files(void)
{
    int fd = open(scratch_folder(), O_TMPFILE | O_RDWR, 0600);

    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* The output may be written at any position. It appears under its name when it is committed. */
TEST(outputs_appear_when_committed)
{
    struct sp_atomic_file *o = NULL;
    const char *path = scratch_path("out");
    struct stat info;
    mode_t mask = umask(027);

    assert_ok(sp_atomic_file_open(&o, path, false, 6, NULL));
    assert_ok(sp_atomic_file_write_at(o, 3, "def", 3, NULL));
    assert_ok(sp_atomic_file_write_at(o, 0, "abc", 3, NULL));
    assert_false(sp_file_exists(path));
    assert_int_equal(n_entries(), supports_unnamed_files() ? 0 : 1);
    assert_ok(sp_atomic_file_commit(o, NULL));
    sp_atomic_file_close(o);
    umask(mask);
    assert_content(path, "abcdef");
    assert_int_equal(n_entries(), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

TEST(abandoned_outputs_leave_nothing)
{
    struct sp_atomic_file *o = NULL;
    const char *path = scratch_write("out", "old", 3);

    assert_ok(sp_atomic_file_open(&o, path, true, 1 << 20, NULL));
    assert_ok(sp_atomic_file_write_at(o, 0, "new", 3, NULL));
    sp_atomic_file_close(o);
    sp_atomic_file_close(NULL);
    assert_content(path, "old");
    assert_int_equal(n_entries(), 1);
}

TEST(killed_writers_leave_nothing)
{
    const char *path = scratch_write("out", "old", 3);
    int ready[2];
    char byte;

    if (!supports_unnamed_files()) skip();
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sp_atomic_file *o = NULL;
        if (sp_atomic_file_open(&o, path, true, 1 << 20, NULL) ||
            sp_atomic_file_write_at(o, 0, "new", 3, NULL) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_content(path, "old");
    assert_int_equal(n_entries(), 1);
}

TEST(existing_files_are_kept_without_force)
{
    struct sp_atomic_file *o = NULL;
    const char *path = scratch_write("out", "old", 3);

    assert_fails(sp_atomic_file_open(&o, path, false, 3, why), SP_E_USAGE, "out exists already");
    assert_null(o);
    assert_ok(sp_atomic_file_open(&o, path, true, 0, NULL));
    assert_ok(sp_atomic_file_write_at(o, 0, "new!", 4, NULL));
    assert_ok(sp_atomic_file_commit(o, NULL));
    sp_atomic_file_close(o);
    assert_content(path, "new!");

    assert_int_equal(unlink(path), 0);
    assert_ok(sp_atomic_file_open(&o, path, false, 3, NULL));
    scratch_write("out", "came meanwhile", 14);
    assert_fails(sp_atomic_file_commit(o, why), SP_E_USAGE, "");
    sp_atomic_file_close(o);
    assert_content(path, "came meanwhile");
    assert_int_equal(n_entries(), 1);
}

TEST(impossible_targets_are_refused)
{
    struct sp_atomic_file *o = NULL;

    assert_fails(sp_atomic_file_open(&o, scratch_folder(), true, 0, why), SP_E_USAGE,
                 "is a folder");
    assert_int_equal(sp_atomic_file_open(&o, scratch_path("none/out"), false, 0, NULL), SP_E_IO);
    assert_int_equal(sp_atomic_file_open(&o, scratch_path("out/"), false, 0, NULL), SP_E_USAGE);
    assert_int_equal(sp_atomic_file_open(&o, "/dev/null", true, 0, NULL), SP_E_USAGE);
    assert_fails(sp_atomic_file_open(&o, scratch_path("huge"), false, INT64_MAX, why), SP_E_IO,
                 "huge: ");
    assert_null(o);
    assert_int_equal(n_entries(), 0);
}

TEST(symbolic_links_are_followed)
{
    struct sp_atomic_file *o = NULL;
    const char *path = scratch_write("real", "old", 3), *link = scratch_path("link");
    struct stat info;

    assert_int_equal(symlink("real", link), 0);
    assert_ok(sp_atomic_file_open(&o, link, true, 3, NULL));
    assert_ok(sp_atomic_file_write_at(o, 0, "new", 3, NULL));
    assert_ok(sp_atomic_file_commit(o, NULL));
    sp_atomic_file_close(o);
    assert_content(path, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

/* A replaced file keeps its permissions, whatever the umask is. */
TEST(replaced_files_keep_their_permissions)
{
    const mode_t modes[] = {0600, 0444, 0666};
    struct stat info;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct sp_atomic_file *o = NULL;
        const char *path = scratch_write("out", "old", 3);
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_ok(sp_atomic_file_open(&o, path, true, 3, NULL));
        assert_ok(sp_atomic_file_write_at(o, 0, "new", 3, NULL));
        assert_ok(sp_atomic_file_commit(o, NULL));
        sp_atomic_file_close(o);
        assert_content(path, "new");
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, modes[i]);
        assert_int_equal(unlink(path), 0);
    }
}

TEST(bounded_folders_keep_what_is_written)
{
    static const struct timespec earlier[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const struct sp_folder_bound bound = {.part = ".page", .most = 2};

    scratch_write(".b.page.1-0.tmp", "abc", 3);
    scratch_write("other", "abcd", 4);
    utimensat(AT_FDCWD, scratch_write("a.page", "ab", 2), earlier, 0);
    assert_int_equal(sp_folder_trim(scratch_folder(), &bound), 3);
    assert_int_equal(n_entries(), 2);
    utimensat(AT_FDCWD, scratch_path(".b.page.1-0.tmp"), earlier, 0);
    assert_int_equal(sp_folder_trim(scratch_folder(), &bound), 0);
    assert_int_equal(n_entries(), 1);
}

TEST_FIXTURE(NULL, scratch_teardown);
