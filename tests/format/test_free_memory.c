/* format/system/free_memory.h: limits of control groups, in folders laid out as cgroups(7) says;
 * and format/base/region.h: memory that is committed and returned. */
#include <sys/stat.h>

#include "format/system/free_memory.h"
#include "format/base/region.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static void write_entry(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

/* The least that a group or one around it has left counts; pages of files count as free. */
TEST(version_2)
{
    const char *root = scratch_folder();

    assert_int_equal(mkdir(scratch_path("a"), 0700), 0);
    assert_int_equal(mkdir(scratch_path("a/b"), 0700), 0);
    write_entry("a/memory.max", "1000000\n");
    write_entry("a/memory.current", "700000\n");
    write_entry("a/memory.stat", "anon 1\ninactive_file 150000\nactive_file 50000\nslab 9\n");
    write_entry("a/b/memory.max", "max\n");
    assert_true(sp_free_group_memory("0::/a/b\n", root) == 500000);
    assert_true(sp_free_group_memory("0::/\n", root) == UINT64_MAX);
    write_entry("a/b/memory.max", "300000\n");
    write_entry("a/b/memory.current", "400000\n");
    assert_true(sp_free_group_memory("0::/a/b\n", root) == 0);
    assert_true(sp_free_group_memory("0::/a\n", root) == 500000);
}

TEST(version_1)
{
    const char *root = scratch_folder();

    assert_int_equal(mkdir(scratch_path("memory"), 0700), 0);
    assert_int_equal(mkdir(scratch_path("memory/a"), 0700), 0);
    write_entry("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_entry("memory/a/memory.limit_in_bytes", "2000000\n");
    write_entry("memory/a/memory.usage_in_bytes", "1500000\n");
    write_entry("memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\n");
    assert_true(sp_free_group_memory("4:cpu:/a\n3:hugetlb,memory:/a\n", root) == 600000);
    assert_true(sp_free_group_memory("4:cpu:/a\n", root) == UINT64_MAX);
}

TEST(this_machine)
{
    assert_in_range(sp_free_memory(), 1 << 20, UINT64_MAX - 1);
}

/* A region larger than any memory costs nothing; bytes are zero when they are committed, also after
 * they were returned; pointers stay. */
TEST(regions)
{
    struct sp_region region = {0};

    assert_ok(sp_region_open(&region, (size_t)1 << 40, NULL));
    uint8_t *at = region.at;
    assert_int_equal((uintptr_t)at % 64, 0);
    assert_int_equal(region.committed, 0);
    assert_ok(sp_region_grow(&region, 10, NULL));
    memset(at, 0xff, 10);
    assert_ok(sp_region_grow(&region, 3 << 20, NULL));
    assert_int_equal(at[9], 0xff);
    assert_int_equal(at[(3 << 20) - 1], 0);
    memset(at, 0xff, 3 << 20);
    sp_region_shrink(&region, 1 << 20);
    assert_int_equal(region.committed, 1 << 20);
    assert_ok(sp_region_grow(&region, 2 << 20, NULL));
    assert_ptr_equal(region.at, at);
    assert_int_equal(at[(1 << 20) - 1], 0xff);
    for (size_t i = 1 << 20; i < 2 << 20; i++)
        assert_int_equal(at[i], 0);
    sp_region_close(&region);
    sp_region_close(&region);
    assert_int_equal(sp_region_open(&region, SIZE_MAX, NULL), SP_E_NOMEM);
}

TEST_FIXTURE(NULL, scratch_teardown);
