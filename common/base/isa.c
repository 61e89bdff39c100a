#include "common/base/isa.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const names[] = {"baseline", "avx2", "avx512", "amx"};

// Whoever is first finds the same as whoever is second.
int sl_isa_in_use = -1;

const char *sl_isa_name(enum sl_isa isa)
{
    return names[isa];
}

#if defined(__x86_64__)
// Conversion of binary16, which not every compiler can ask for by name.
static int has_f16c(void)
{
    enum { F16C = 1 << 29 };
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & F16C);
}

// x86-64-v3 and v4, by what no processor has without the rest; not every compiler can ask for them
// by name.
static int has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
}

static int has_v4(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

// Tiles and their bf16 products, if the system lets this process have the tiles (Linux 5.16).
static int has_amx(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE) &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#endif

enum sl_isa sl_isa_of_processor(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!has_v3())
        return SL_ISA_BASELINE;
    if (!has_v4())
        return SL_ISA_AVX2;
    return has_amx() ? SL_ISA_AMX : SL_ISA_AVX512;
#else
    return SL_ISA_BASELINE;
#endif
}

int sl_isa_has_bf16(void)
{
#if defined(__x86_64__)
    return sl_isa() >= SL_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
#else
    return 0;
#endif
}

void sl_isa_limit(enum sl_isa most)
{
    enum sl_isa best = sl_isa_of_processor();
    __atomic_store_n(&sl_isa_in_use, (int)SL_MIN(most, best), __ATOMIC_RELAXED);
}

int sl_isa_init(void)
{
    const char *limit = getenv("SLUICE_ISA");
    if (!limit || !*limit) {
        sl_isa_limit(SL_ISA_AMX);
        return SL_OK;
    }
    for (size_t i = 0; i < SL_COUNT_OF(names); i++)
        if (strcmp(limit, names[i]) == 0) {
            sl_isa_limit((enum sl_isa)i);
            return SL_OK;
        }
    return sl_fail(
        SL_EINVAL,
        "SLUICE_ISA is '%s': wanted baseline, avx2, avx512 or amx, the most that is used", limit);
}

enum sl_isa sl_isa_choose(void)
{
    if (sl_isa_init() < 0)
        sl_isa_limit(SL_ISA_AMX); // a program's main has said what is wrong
    return (enum sl_isa)__atomic_load_n(&sl_isa_in_use, __ATOMIC_RELAXED);
}
