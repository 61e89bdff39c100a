// rows.c - the table of a program that moves rows and computes nothing with them: linked with this
// one alone it needs no library of matrix products.
#include "kernels/kernels.h"
#include "kernels/kernels_internal.h"

static const struct sl_kernels table = {
    .name = "rows",
    .gather_rows = sl_cpu_gather_rows,
    .split_rows = sl_cpu_split_rows,
    .gather_rows_to = sl_cpu_gather_rows_to,
};

const struct sl_kernels *sl_kernels_rows(void)
{
    return &table;
}
