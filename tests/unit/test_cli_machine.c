// A machine in words: what they mean, what is refused, and that its GPUs take the place of others.
#include "cli/machine.h"

#include <string.h>

#include "broker/sharding/gpus.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

TEST(numbers_have_their_units)
{
    struct sl_machine m;
    ck_assert_int_eq(sl_machine_read("gpus=8,gpu_memory=80GiB,memory=1TiB,drive=6GB,bus=25GB,"
                                     "read=200GB,edges=20M,products=40T",
                                     &m),
                     SL_OK);
    ck_assert_uint_eq(m.gpus, 8);
    ck_assert_uint_eq(m.gpu_memory, UINT64_C(80) << 30);
    ck_assert_uint_eq(m.memory, UINT64_C(1) << 40);
    ck_assert_uint_eq(m.drive, 6000000000);
    ck_assert_uint_eq(m.bus, 25000000000);
    ck_assert_uint_eq(m.read, 200000000000);
    ck_assert_uint_eq(m.edges, 20000000);
    ck_assert_uint_eq(m.products, 40000000000000);
}

TEST(what_is_not_given)
{
    struct sl_machine m;
    ck_assert_int_eq(sl_machine_read("memory=64GiB", &m), SL_OK);
    ck_assert_uint_eq(m.gpus + m.bus + m.drive + m.read + m.edges + m.products, 0);
    ck_assert_int_eq(sl_machine_read("memory=64GiB,gpus=1,gpu_memory=24GiB", &m), SL_OK);
    ck_assert_uint_eq(m.bus, UINT64_C(1000000000) * SL_GPUS_HOST_GBS);
}

TEST(its_gpus_are_the_ones_that_are_found)
{
    struct sl_machine m;
    ck_assert_int_eq(sl_machine_read("gpus=3,gpu_memory=80GiB,memory=1TiB", &m), SL_OK);
    sl_machine_assume(&m);
    ck_assert_uint_eq(sl_gpus_known()->report.n, 3);
    ck_assert_uint_eq(sl_gpus_known()->report.gpu[2].total_bytes, UINT64_C(80) << 30);
    ck_assert_int_eq(sl_machine_read("memory=1TiB", &m), SL_OK);
    sl_machine_assume(&m);
    ck_assert_uint_eq(sl_gpus_known()->report.n, 0);
    ck_assert(*sl_gpus_known()->report.problem);
}

static void assert_message_has(const char *part)
{
    ck_assert_msg(strstr(sl_error_message(), part), "'%s' lacks '%s'", sl_error_message(), part);
}

static const struct {
    const char *text, *a, *b;
} bad[] = {
    {"", "found \"\", wanted one of gpus, gpu_memory, memory", "as in"},
    {"memroy=1TiB", "found \"memroy\"", "did you mean memory?"},
    {"memory", "memory: found \"\", wanted a number from 1GiB", "as in"},
    {"memory=much", "memory: found \"much\"", "wanted a number"},
    {"memory=1000", "memory: found \"1000\"", "from 1GiB"},
    {"memory=1TiB,memory=2TiB", "found memory twice", "once"},
    {"memory=1TiB,gpus=65,gpu_memory=1GiB", "gpus: found \"65\"", "to 64"},
    {"memory=1TiB,drive=0", "drive: found \"0\"", "from 1"},
    {"gpus=1,gpu_memory=80GiB", "found no memory", "how much the machine has"},
    {"gpus=1,memory=1TiB", "found gpus alone", "gpu_memory"},
    {"gpu_memory=80GiB,memory=1TiB", "found gpu_memory alone", "gpus"},
    {"bus=1GB,memory=1TiB", "found bus without gpus", "take it out"},
};

LOOP_TEST(what_is_refused, 0, SL_COUNT_OF(bad))
{
    struct sl_machine m;
    ck_assert_int_eq(sl_machine_read(bad[_i].text, &m), SL_EINVAL);
    assert_message_has(bad[_i].a);
    assert_message_has(bad[_i].b);
    assert_message_has("--machine: ");
}

RUN_TESTS()
