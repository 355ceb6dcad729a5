/* format/system/energy.h: counters in folders laid out as the kernel's documentation of powercap
 * says. */
#include <math.h>
#include <sys/stat.h>

#include "format/system/energy.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

static void write_entry(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static void make_zone(const char *zone, const char *name, const char *microjoules)
{
    char path[64];

    assert_int_equal(mkdir(scratch_path(zone), 0700), 0);
    snprintf(path, sizeof path, "%s/name", zone);
    write_entry(path, name);
    snprintf(path, sizeof path, "%s/energy_uj", zone);
    write_entry(path, microjoules);
    snprintf(path, sizeof path, "%s/max_energy_range_uj", zone);
    write_entry(path, "262143328850\n");
}

static void assert_joules(struct sp_energy *energy, double joules)
{
    assert_true(fabs(sp_energy_joules(energy) - joules) < 1e-9);
}

/* Packages are added; their cores, memory and all of the machine are parts and sums of them. */
TEST(packages)
{
    struct sp_energy energy;

    make_zone("intel-rapl:0", "package-0\n", "1000000\n");
    make_zone("intel-rapl:0:0", "core\n", "500000\n");
    make_zone("intel-rapl:1", "psys\n", "3000000\n");
    make_zone("intel-rapl:2", "package-1-die-0\n", "7\n");
    make_zone("intel-rapl-mmio:0", "package-0\n", "1000000\n");
    sp_energy_start(&energy, scratch_folder());
    assert_joules(&energy, 0);
    write_entry("intel-rapl:0/energy_uj", "3500000\n");
    write_entry("intel-rapl:0:0/energy_uj", "900000\n");
    write_entry("intel-rapl:1/energy_uj", "9000000\n");
    write_entry("intel-rapl-mmio:0/energy_uj", "3500000\n");
    assert_joules(&energy, 2.5);
    write_entry("intel-rapl:2/energy_uj", "1000007\n");
    assert_joules(&energy, 3.5);
    assert_joules(&energy, 3.5);
}

/* A counter begins again at 0 after its largest number. */
TEST(overflow)
{
    struct sp_energy energy;

    make_zone("intel-rapl:0", "package-0\n", "262143000000\n");
    sp_energy_start(&energy, scratch_folder());
    write_entry("intel-rapl:0/energy_uj", "671150\n");
    assert_joules(&energy, 1);
    write_entry("intel-rapl:0/energy_uj", "1671150\n");
    assert_joules(&energy, 2);
}

/* A long answer keeps up with a counter that overflows twice meanwhile. */
TEST(keeps_up)
{
    struct sp_energy energy;

    make_zone("intel-rapl:0", "package-0\n", "0\n");
    sp_energy_start(&energy, scratch_folder());
    write_entry("intel-rapl:0/energy_uj", "262143000000\n");
    sp_energy_keep_up(&energy, 1000);
    write_entry("intel-rapl:0/energy_uj", "671150\n"); /* 1 J later */
    sp_energy_keep_up(&energy, 1030);
    write_entry("intel-rapl:0/energy_uj", "262143000000\n");
    sp_energy_keep_up(&energy, 1060);
    write_entry("intel-rapl:0/energy_uj", "671150\n");
    assert_joules(&energy, 262143 + 1 + 262142.32885 + 1);
}

/* A counter that is below the last reading without a largest number was reset, and counts on. */
TEST(reset)
{
    struct sp_energy energy;

    make_zone("intel-rapl:0", "package-0\n", "5000000\n");
    sp_energy_start(&energy, scratch_folder());
    write_entry("intel-rapl:0/max_energy_range_uj", "0\n");
    write_entry("intel-rapl:0/energy_uj", "1000000\n");
    assert_joules(&energy, 0);
    write_entry("intel-rapl:0/energy_uj", "3000000\n");
    assert_joules(&energy, 2);
}

/* A counter that only root may read, as is usual, or that is missing counts nothing. */
TEST(unreadable)
{
    struct sp_energy energy = {0};

    assert_joules(&energy, 0);
    sp_energy_start(&energy, scratch_folder());
    assert_joules(&energy, 0);
    make_zone("intel-rapl:0", "package-0\n", "5\n");
    assert_int_equal(remove(scratch_path("intel-rapl:0/energy_uj")), 0);
    sp_energy_start(&energy, scratch_folder());
    write_entry("intel-rapl:0/energy_uj", "9000000\n");
    assert_joules(&energy, 0);
    sp_energy_start(&energy, scratch_folder());
    assert_int_equal(remove(scratch_path("intel-rapl:0/energy_uj")), 0);
    assert_joules(&energy, 0);
}

TEST_FIXTURE(NULL, scratch_teardown);
