/* cli/bench/machine_facts.c: files as Linux writes them in /proc and /sys. */
#include "cli/bench/bench.h"

#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <sys/stat.h>

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static const char *make_root(void)
{
    static const char *const folders[] = {"proc",
                                          "sys",
                                          "sys/kernel",
                                          "sys/kernel/mm",
                                          "sys/kernel/mm/transparent_hugepage",
                                          "sys/devices",
                                          "sys/devices/system",
                                          "sys/devices/system/cpu",
                                          "sys/devices/system/cpu/cpu0",
                                          "sys/devices/system/cpu/cpu0/cpufreq",
                                          "sys/devices/system/cpu/cpu1",
                                          "sys/devices/system/cpu/cpu1/cpufreq",
                                          "sys/devices/system/cpu/cpu2",
                                          "sys/devices/system/cpu/cpu2/cpufreq",
                                          "sys/devices/system/cpu/cpu5"};
    const char *root = scratch_folder();

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(scratch_path(folders[i]), 0700), 0);
    return root;
}

/* The favored core of a kind is a little faster than the others. */
TEST(two_kinds_of_cores)
{
    const char *root = make_root();
    struct sp_machine_facts facts;

    /* The second piece of the long line looks like one of a processor. */
    write_text("proc/cpuinfo", keep_format("processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n\n"
                                           "processor\t: 1\nmodel name\t: A CPU @ 3 GHz\n"
                                           "%*sprocessor\n\nprocessor\t: 2\n",
                                           SP_MACHINE_TEXT - 1, "flags\t: "));
    write_text("proc/meminfo", "MemTotal:       16384 kB\nMemFree:         1024 kB\n");
    write_text("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write_text("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "5400000\n");
    write_text("sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "5100000\n");
    write_text("sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq", "4000000\n");
    sp_machine_facts_read(&facts, root);
    assert_string_equal(facts.processor, "A CPU @ 3 GHz");
    assert_string_equal(facts.huge_pages, "madvise");
    assert_int_equal(facts.memory, 16384 << 10);
    assert_int_equal(facts.n_cpus, 3);
    assert_int_equal(facts.n_slow, 1);
    write_text("sys/devices/system/cpu/cpu0/cpu_capacity", "1024\n");
    write_text("sys/devices/system/cpu/cpu1/cpu_capacity", "446\n");
    write_text("sys/devices/system/cpu/cpu2/cpu_capacity", "446\n");
    sp_machine_facts_read(&facts, root);
    assert_int_equal(facts.n_slow, 2);
    /* CPU 5 is online, 3 and 4 are not. */
    write_text("sys/devices/system/cpu/cpu5/cpu_capacity", "446\n");
    sp_machine_facts_read(&facts, root);
    assert_int_equal(facts.n_slow, 3);
}

TEST(nothing_is_said)
{
    struct sp_machine_facts facts;

    sp_machine_facts_read(&facts, "/nowhere");
    assert_string_equal(facts.processor, "");
    assert_string_equal(facts.huge_pages, "");
    assert_int_equal(facts.memory, 0);
    assert_int_equal(facts.n_cpus, 0);
    assert_int_equal(facts.n_slow, 0);
}
