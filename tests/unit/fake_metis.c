// A METIS that does what FAKE_METIS says, for test_partition_metis and tests/e2e/test_partition.py.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS = 40 };

int METIS_SetDefaultOptions(int32_t *options);
int METIS_PartGraphRecursive(int32_t *n, int32_t *constraints, int32_t *offsets,
                             int32_t *neighbours, int32_t *weights, int32_t *sizes,
                             int32_t *edge_weights, int32_t *n_parts, float *shares, float *fuller,
                             int32_t *options, int32_t *cut, int32_t *part);
__typeof__(METIS_PartGraphRecursive) METIS_PartGraphKway;

static int is_to(const char *what)
{
    const char *set = getenv("FAKE_METIS");
    return set && strcmp(set, what) == 0;
}

int METIS_SetDefaultOptions(int32_t *options)
{
    memset(options, 0xff, OPTIONS * sizeof *options * (is_to("be wide") ? 2 : 1));
    return 1;
}

// Says in a file which process it is in, and stays there.
static void hang(void)
{
    FILE *f = fopen("metis.pid.new", "w");
    fprintf(f, "%d", (int)getpid());
    fclose(f);
    rename("metis.pid.new", "metis.pid");
    for (;;)
        pause();
}

// Vertex v is in part v modulo the parts.
int METIS_PartGraphRecursive(int32_t *n, int32_t *constraints, int32_t *offsets,
                             int32_t *neighbours, int32_t *weights, int32_t *sizes,
                             int32_t *edge_weights, int32_t *n_parts, float *shares, float *fuller,
                             int32_t *options, int32_t *cut, int32_t *part)
{
    if (is_to("hang"))
        hang();
    if (is_to("abort"))
        abort();
    puts("METIS says this on standard output");
    for (int32_t v = 0; v < *n; v++)
        part[v] = is_to("be empty") ? 0 : is_to("go outside") ? *n_parts : v % *n_parts;
    return is_to("refuse") ? -2 : is_to("lack memory") ? -3 : is_to("fail") ? -4 : 1;
}

int METIS_PartGraphKway(int32_t *n, int32_t *constraints, int32_t *offsets, int32_t *neighbours,
                        int32_t *weights, int32_t *sizes, int32_t *edge_weights, int32_t *n_parts,
                        float *shares, float *fuller, int32_t *options, int32_t *cut, int32_t *part)
{
    return METIS_PartGraphRecursive(n, constraints, offsets, neighbours, weights, sizes,
                                    edge_weights, n_parts, shares, fuller, options, cut, part);
}
