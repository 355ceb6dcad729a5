/* format/system/cpus.h: quotas of control groups, read from folders laid out as in cgroups(7). */
#define _GNU_SOURCE /* sched_setaffinity */
#include <sched.h>
#include <sys/stat.h>

#include "format/system/cpus.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static void write_quota(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static void make_folders(const char *const *names)
{
    for (; *names; names++)
        assert_int_equal(mkdir(scratch_path(*names), 0700), 0);
}

/* The smallest quota of a group and its ancestors counts, rounded up. */
TEST(version_2)
{
    static const char *const folders[] = {"a", "a/b", "a/b/c", NULL};
    const char *root = scratch_folder();

    make_folders(folders);
    write_quota("a/cpu.max", "250000 100000\n");
    write_quota("a/b/cpu.max", "max 100000\n");
    write_quota("a/b/c/cpu.max", "700000 100000\n");
    assert_int_equal(sp_quota_cpus("0::/a/b/c\n", root), 3);
    assert_int_equal(sp_quota_cpus("0::/a/b", root), 3);
    assert_int_equal(sp_quota_cpus("0::/\n", root), 0);
    write_quota("a/b/c/cpu.max", "50000 200000\n");
    assert_int_equal(sp_quota_cpus("0::/a/b/c\n", root), 1);
    assert_int_equal(sp_quota_cpus("0::/a\n", root), 3);
    write_quota("a/cpu.max", "200000 100000\n");
    assert_int_equal(sp_quota_cpus("0::/a\n", root), 2);
}

/* A container sees its own group as the root, whatever its path is outside. */
TEST(container)
{
    const char *root = scratch_folder();

    write_quota("cpu.max", "150000 100000\n");
    assert_int_equal(sp_quota_cpus("0::/\n", root), 2);
    assert_int_equal(sp_quota_cpus("0::/docker/0123456789abcdef\n", root), 2);
}

TEST(version_1)
{
    static const char *const folders[] = {"cpu", "cpu/a", "memory", NULL};
    const char *root = scratch_folder();

    make_folders(folders);
    write_quota("cpu/a/cpu.cfs_quota_us", "400000\n");
    write_quota("cpu/a/cpu.cfs_period_us", "100000\n");
    write_quota("cpu/cpu.cfs_quota_us", "-1\n");
    write_quota("cpu/cpu.cfs_period_us", "100000\n");
    write_quota("memory/cpu.cfs_quota_us", "100000\n");
    write_quota("memory/cpu.cfs_period_us", "100000\n");
    assert_int_equal(sp_quota_cpus("5:memory:/\n4:cpuacct,cpu:/a\n0::/\n", root), 4);
    assert_int_equal(sp_quota_cpus("5:memory:/\n4:cpu,cpuacct:/\n", root), 0);
    assert_int_equal(sp_quota_cpus("4:cpuset:/a\n3:cpuacct:/a\n", root), 0);
}

TEST(invalid_paths_are_ignored)
{
    const char *root = scratch_folder();

    assert_int_equal(sp_quota_cpus("", root), 0);
    assert_int_equal(sp_quota_cpus("0::/no/such/group\n", root), 0);
    assert_int_equal(sp_quota_cpus("nonsense\n:\n::\n0:\n", root), 0);
}

static void invalid_quota_is_ignored(void **state)
{
    write_quota("cpu.max", *state);
    assert_int_equal(sp_quota_cpus("0::/\n", scratch_folder()), 0);
}

CASES(invalid_quota_is_ignored, "", "max", "0 100000", "-5 100000", "100 0", "100 -1", "x y",
      "100000", "9e9 1", "max 100000", "99999999999999999999999 1");

/* A process whose affinity mask holds one CPU, the last of those that it had. */
TEST(affinity_of_one_cpu)
{
    cpu_set_t had, one;
    size_t last = CPU_SETSIZE - 1;

    assert_int_equal(sched_getaffinity(0, sizeof had, &had), 0);
    while (!CPU_ISSET(last, &had))
        last--;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(sp_usable_cpus(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof had, &had), 0);
    assert_in_range(sp_usable_cpus(), 1, (unsigned)CPU_COUNT(&had));
}

TEST_FIXTURE(NULL, scratch_teardown);
