// rows.c - the table of a program that moves rows, draws samples and computes nothing with them:
// linked with this one alone it needs no library of matrix products.
#include "kernels/kernels.h"
#include "kernels/kernels_internal.h"

#define SAMPLE(unused, constant, word, kernel, flags) sl_cpu_##kernel,

static const struct sl_kernels table = {
    .name = "rows",
    .sample = {SL_SAMPLER_LIST(SAMPLE, )},
    .weight_prefix = sl_cpu_weight_prefix,
    .gather_rows = sl_cpu_gather_rows,
    .split_rows = sl_cpu_split_rows,
    .gather_rows_to = sl_cpu_gather_rows_to,
};

const struct sl_kernels *sl_kernels_rows(void)
{
    return &table;
}
