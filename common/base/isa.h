/*
 * isa.h - the instruction set that this process computes with, and the limit on it.
 *
 * Bits of floating-point results depend on the instruction set (fused multiply-adds, the order of a
 * vector's sums), so a processor with a better one can be told to compute as one without it:
 * SLUICE_ISA=avx2 in the environment of a run. It is the only switch: whoever chooses between
 * bodies of a function, or lets a library choose, asks here.
 */
#ifndef SL_BASE_ISA_H
#define SL_BASE_ISA_H

#ifdef __cplusplus
extern "C" {
#endif

// Each contains those before it. AVX2 is the psABI's x86-64-v3, AVX512 its v4.
enum sl_isa {
    SL_ISA_BASELINE,
    SL_ISA_AVX2,
    SL_ISA_AVX512,
    SL_ISA_AMX,
};

// Reads SLUICE_ISA, once and before anything is computed; a wrong value is SL_EINVAL. Idempotent.
int sl_isa_init(void);

// What is used: the processor's best, but not above the limit. Hot loops ask: a load.
extern int sl_isa_in_use; // by way of sl_isa() alone; -1 before it is known
enum sl_isa sl_isa_choose(void);
static inline enum sl_isa sl_isa(void)
{
    int isa = __atomic_load_n(&sl_isa_in_use, __ATOMIC_RELAXED);
    return isa >= 0 ? (enum sl_isa)isa : sl_isa_choose();
}
// What the processor has.
enum sl_isa sl_isa_of_processor(void);
// bf16 operands are multiplied by instructions of the processor, within the limit.
int sl_isa_has_bf16(void);

const char *sl_isa_name(enum sl_isa isa); // "baseline", "avx2", "avx512", "amx"

// Another limit, for tests and measurements, while no other thread computes. Libraries keep the
// first.
void sl_isa_limit(enum sl_isa most);

#ifdef __cplusplus
}
#endif

#endif
