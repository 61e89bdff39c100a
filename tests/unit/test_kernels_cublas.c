/*
 * Products by cuBLASLt (kernels/cuda/gemm_lt.cc), by what stands in for the library on the emulated
 * GPU (tests/simt/standin): what is chosen, and what becomes of a product that the library refuses.
 */
#include "tests/unit/gpu_fixture.h"

#include <math.h>
#include <pthread.h>

#include "common/base/bits.h"
#include "common/base/log.h"
#include "tests/simt/cublas_lt.h"
#include "tests/unit/suite.h"

static char plugin_path[4200], library_path[4300];
static const struct sl_device *gpu;
static const struct sl_kernels *kernels;
static struct sl_mempool scratch;
static int warnings;
static char last_warning[1024];

static void take_line(int level, const char *text)
{
    if (level != SL_LOG_WARN)
        return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static void set_up(void)
{
    setenv("SLUICE_CUDA_PLUGIN", plugin_path, 1);
    setenv("SLUICE_SIMT_CUBLAS", library_path, 1);
    unsetenv("SLUICE_SIMT_CUBLAS_FAIL");
    unsetenv("SLUICE_CUBLAS");
    sl_log_set_sink(take_line);
}

static void open_gpu(void)
{
    ck_assert_msg(sl_kernels_open_gpu(0, 0, &gpu, &kernels) == SL_OK, "%s", sl_error_message());
    sl_mempool_init_on(&scratch, &gpu->memory);
}

static struct simt_lt_counts counts(void)
{
    struct simt_lt_counts out;
    void *library = dlopen(library_path, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(library);
    void (*count)(struct simt_lt_counts *) = NULL;
    *(void **)&count = dlsym(library, SIMT_LT_COUNTS_SYMBOL);
    ck_assert_ptr_nonnull(count);
    count(&out);
    return out;
}

static uint64_t products(struct simt_lt_counts c)
{
    uint64_t n = 0;
    for (int i = 0; i < SIMT_LT_ALGORITHMS; i++)
        n += c.products[i];
    return n;
}

struct shape {
    enum sl_precision precision;
    bool ta, tb;
    uint64_t m, n, k;
    float beta;
    size_t skew_a, skew_b, skew_c; // floats that they are off from 64 bytes
};

static float *random_floats(uint64_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x + 1);
    ck_assert_ptr_nonnull(x);
    for (uint64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    return x;
}

// A product on the GPU, compared with the reference's.
static void multiply(struct shape s)
{
    const struct sl_kernels *ref = sl_kernels_find("ref");
    const uint64_t lda = s.ta ? s.m : s.k, ldb = s.tb ? s.k : s.n;
    const uint64_t na = s.m * s.k + s.skew_a, nb = s.n * s.k + s.skew_b, nc = s.m * s.n + s.skew_c;
    float *a = random_floats(na, 1), *b = random_floats(nb, 2), *c = random_floats(nc, 3);
    float *on_a = gpu_put(gpu, a, na * 4), *on_b = gpu_put(gpu, b, nb * 4);
    float *on_c = gpu_put(gpu, c, nc * 4);
    const enum sl_transpose ta = s.ta ? SL_TRANS : SL_NO_TRANS, tb = s.tb ? SL_TRANS : SL_NO_TRANS;
    struct sl_mempool ws = {0};
    sl_mempool_reset(&scratch);
    ck_assert_msg(kernels->gemm(s.precision, ta, tb, s.m, s.n, s.k, 0.5f, on_a + s.skew_a, lda,
                                on_b + s.skew_b, ldb, s.beta, on_c + s.skew_c, s.n,
                                &scratch) == SL_OK,
                  "%s", sl_error_message());
    float *got = gpu_get(gpu, on_c, nc * 4);
    ck_assert_int_eq(ref->gemm(s.precision, ta, tb, s.m, s.n, s.k, 0.5f, a + s.skew_a, lda,
                               b + s.skew_b, ldb, s.beta, c + s.skew_c, s.n, &ws),
                     SL_OK);
    const double operands = s.precision == SL_PRECISION_TF32 ? 2e-3 : 1e-6;
    for (uint64_t i = 0; i < nc; i++)
        ck_assert_msg(fabs((double)got[i] - (double)c[i]) <= operands * sqrt((double)s.k) + 1e-6,
                      "element %llu is %g, wanted %g", (unsigned long long)i, (double)got[i],
                      (double)c[i]);
    sl_mempool_fini(&ws);
    gpu_free(gpu, on_a, na * 4);
    gpu_free(gpu, on_b, nb * 4);
    gpu_free(gpu, on_c, nc * 4);
    free(a);
    free(b);
    free(c);
    free(got);
}

// ---- whether there is one -----------------------------------------------------------------------

static const char *described(void)
{
    static struct sl_gpu_report report;
    const struct sl_plugin *plugin = NULL;
    ck_assert_msg(sl_plugin_open(&plugin) == SL_OK, "%s", sl_error_message());
    plugin->report(&report);
    return report.cublas;
}

TEST(a_report_has_version_and_file)
{
    const char *found = described();
    ck_assert_msg(strncmp(found, "cuBLASLt 13.1.0 (", 17) == 0, "%s", found);
    ck_assert_msg(strstr(found, "libcublasLt.so.13)"), "%s", found);
}

TEST(without_one_a_report_says_why)
{
    unsetenv("SLUICE_SIMT_CUBLAS");
    ck_assert_str_eq(described(), "none under emulation: products are the plug-in's own");
    open_gpu();
    multiply((struct shape){.m = 64, .n = 64, .k = 64});
    ck_assert_int_eq(warnings, 0);
}

TEST(the_environment_forbids_it)
{
    setenv("SLUICE_CUBLAS", "none", 1);
    ck_assert_msg(strstr(described(), "SLUICE_CUBLAS is none"), "%s", described());
    open_gpu();
    multiply((struct shape){.m = 64, .n = 64, .k = 64});
    ck_assert_ptr_null(dlopen(library_path, RTLD_NOW | RTLD_NOLOAD));
}

// ---- what is chosen -----------------------------------------------------------------------------

static const struct {
    struct shape of;
    enum simt_lt_algorithm by;
} chosen[] = {
    {{.tb = true, .m = 64, .n = 32, .k = 64}, SIMT_LT_VECTOR},
    {{SL_PRECISION_TF32, .tb = true, .m = 64, .n = 32, .k = 64, .beta = 1}, SIMT_LT_VECTOR},
    {{SL_PRECISION_BF16, .ta = true, .m = 64, .n = 32, .k = 64, .beta = 1}, SIMT_LT_VECTOR},
    {{.ta = true, .m = 64, .n = 32, .k = 1000, .beta = 1}, SIMT_LT_VECTOR_SPLIT},
    {{SL_PRECISION_BF16, .ta = true, .tb = true, .m = 64, .n = 32, .k = 1000},
     SIMT_LT_VECTOR_SPLIT},
    {{.m = 64, .n = 32, .k = 67}, SIMT_LT_SCALAR},             // rows of a
    {{.tb = true, .m = 63, .n = 32, .k = 64}, SIMT_LT_SCALAR}, // an odd number of them
    {{.tb = true, .m = 64, .n = 32, .k = 64, .skew_a = 1}, SIMT_LT_SCALAR},
    {{.tb = true, .m = 64, .n = 32, .k = 64, .skew_b = 1}, SIMT_LT_SCALAR},
    {{.tb = true, .m = 64, .n = 32, .k = 64, .skew_c = 1}, SIMT_LT_SCALAR},
    // Copies are aligned, and so are their rows.
    {{SL_PRECISION_BF16, .tb = true, .m = 64, .n = 32, .k = 67, .skew_a = 1, .skew_b = 1},
     SIMT_LT_VECTOR},
};

LOOP_TEST(an_algorithm_fits_addresses_and_sizes, 0, SL_COUNT_OF(chosen))
{
    open_gpu();
    multiply(chosen[_i].of);
    const struct simt_lt_counts c = counts();
    ck_assert_uint_eq(products(c), 1);
    ck_assert_uint_eq(c.products[chosen[_i].by], 1);
    ck_assert_uint_eq(c.objects, 0);
    ck_assert_int_eq(warnings, 0);
}

// 1030 and 1034 rows are of a class, whose algorithm takes even numbers alone; 1033 are not.
TEST(a_shape_that_its_class_does_not_fit_is_asked_for_by_itself)
{
    open_gpu();
    multiply((struct shape){.tb = true, .m = 1030, .n = 8, .k = 16});
    multiply((struct shape){.tb = true, .m = 1034, .n = 8, .k = 16});
    ck_assert_uint_eq(counts().asked, 1);
    for (int i = 0; i < 2; i++)
        multiply((struct shape){.tb = true, .m = 1033, .n = 8, .k = 16});
    const struct simt_lt_counts c = counts();
    ck_assert_uint_eq(c.asked, 2);
    ck_assert_uint_eq(c.products[SIMT_LT_VECTOR], 2);
    ck_assert_uint_eq(c.products[SIMT_LT_SCALAR], 2);
    ck_assert_uint_eq(c.objects, 0);
}

static void *in_a_thread(void *unused)
{
    (void)unused;
    multiply((struct shape){.m = 64, .n = 64, .k = 64});
    return NULL;
}

TEST(choices_outlive_a_thread)
{
    open_gpu();
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, in_a_thread, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_uint_eq(counts().asked, 1);
    ck_assert_uint_eq(products(counts()), 3);
}

// ---- what is refused ----------------------------------------------------------------------------

static const struct {
    const char *failure, *words;
} refused[] = {
    {"create", "making a handle for a product"},
    {"describe", "CUBLAS_STATUS_ALLOC_FAILED"},
    {"algorithm", "does not multiply 64 x 64 x 300"},
    {"check", "does not multiply 64 x 64 x 300"},
    {"unsupported", "does not multiply 64 x 64 x 300"},
    {"memory", "CUBLAS_STATUS_ALLOC_FAILED"},
    {"lost", "CUBLAS_STATUS_NOT_INITIALIZED"},
    {"broken", "CUBLAS_STATUS_INTERNAL_ERROR"},
};

LOOP_TEST(what_is_refused_is_multiplied_by_the_plugin_and_said_once, 0, SL_COUNT_OF(refused))
{
    setenv("SLUICE_SIMT_CUBLAS_FAIL", refused[_i].failure, 1);
    open_gpu();
    for (int i = 0; i < 3; i++)
        multiply((struct shape){.ta = true, .m = 64, .n = 64, .k = 300, .beta = 1});
    multiply((struct shape){.precision = SL_PRECISION_BF16, .m = 65, .n = 3, .k = 7});
    ck_assert_uint_eq(products(counts()), 0);
    ck_assert_uint_eq(counts().objects, 0);
    ck_assert_int_eq(warnings, 1);
    ck_assert_msg(strstr(last_warning, "slower kernel"), "%s", last_warning);
    ck_assert_msg(strstr(last_warning, refused[_i].words), "%s", last_warning);
}

LOOP_TEST(a_refusal_that_passes_is_forgotten, 0, 5)
{
    static const char *const once[] = {"create:1", "describe:1", "memory:1", "lost:1", "broken:1"};
    setenv("SLUICE_SIMT_CUBLAS_FAIL", once[_i], 1);
    open_gpu();
    for (int i = 0; i < 3; i++)
        multiply((struct shape){.m = 64, .n = 64, .k = 64});
    ck_assert_uint_eq(products(counts()), 2);
    ck_assert_uint_eq(counts().objects, 0);
    ck_assert_int_eq(warnings, 1);
}

// ---- the library that stands in -----------------------------------------------------------------

// Its functions, by their names.
static struct {
#define POINTER(name, result, arguments) result(*name) arguments;
    SIMT_LT_FUNCTIONS(POINTER)
#undef POINTER
} lt;

static void open_library(void)
{
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library, "%s", dlerror());
#define TAKE(name, result, arguments)                                                              \
    *(void **)&lt.name = dlsym(library, #name);                                                    \
    ck_assert_ptr_nonnull(*(void **)&lt.name);
    SIMT_LT_FUNCTIONS(TAKE)
#undef TAKE
}

#define INVALID(expr) ck_assert_int_eq(expr, CUBLAS_STATUS_INVALID_VALUE)
#define DONE(expr)    ck_assert_int_eq(expr, CUBLAS_STATUS_SUCCESS)

TEST(attributes_are_refused_as_by_the_library)
{
    cublasLtMatmulDesc_t product;
    cublasLtMatmulPreference_t preference;
    uint64_t value = 1;
    open_library();
    DONE(lt.cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    DONE(lt.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &value, 4));
    INVALID(lt.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8));
    INVALID(lt.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 4));
    INVALID(
        lt.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &value, 4));
    INVALID(
        lt.cublasLtMatmulDescSetAttribute(product, (cublasLtMatmulDescAttributes_t)99, &value, 4));
    DONE(lt.cublasLtMatmulDescDestroy(product));
    DONE(lt.cublasLtMatmulPreferenceCreate(&preference));
    INVALID(lt.cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &value, 4));
    INVALID(lt.cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &value, 8));
    DONE(lt.cublasLtMatmulPreferenceDestroy(preference));
    ck_assert_uint_eq(counts().objects, 0);
}

// What the heuristic says to who sets nothing: no workspace, and sums in any order.
TEST(what_is_not_set_has_the_librarys_defaults)
{
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t x, wrong, bf16;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t all[SIMT_LT_ALGORITHMS];
    int n = 0;
    open_library();
    DONE(lt.cublasLtCreate(&handle));
    DONE(lt.cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F));
    DONE(lt.cublasLtMatrixLayoutCreate(&x, CUDA_R_32F, 512, 512, 512));
    DONE(lt.cublasLtMatrixLayoutCreate(&wrong, CUDA_R_32F, 512, 512, 511));
    DONE(lt.cublasLtMatrixLayoutCreate(&bf16, CUDA_R_16BF, 512, 512, 512));
    DONE(lt.cublasLtMatmulPreferenceCreate(&preference));
#define ASK(a, b, c, d)                                                                            \
    lt.cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, preference, SIMT_LT_ALGORITHMS, \
                                      all, &n)
    DONE(ASK(x, x, x, x));
    ck_assert_int_eq(n, 3);
    ck_assert_uint_eq(all[0].algo.data[1], SIMT_LT_VECTOR_ADDED);
    ck_assert_uint_eq(all[1].algo.data[1], SIMT_LT_VECTOR);
    INVALID(ASK(wrong, x, x, x));
    INVALID(ASK(x, x, x, bf16));
    ck_assert_int_eq(ASK(bf16, bf16, x, x), CUBLAS_STATUS_NOT_SUPPORTED); // to be rounded to tf32
    const int32_t nonsense = 77;
    DONE(lt.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &nonsense, 4));
    INVALID(ASK(x, x, x, x));
#undef ASK
    DONE(lt.cublasLtMatmulPreferenceDestroy(preference));
    for (int i = 0; i < 3; i++)
        DONE(lt.cublasLtMatrixLayoutDestroy(i == 0 ? x : i == 1 ? wrong : bf16));
    DONE(lt.cublasLtMatmulDescDestroy(product));
    DONE(lt.cublasLtDestroy(handle));
    ck_assert_uint_eq(counts().objects, 0);
}

int main(void)
{
    if (!gpu_find(plugin_path, sizeof plugin_path)) {
        fprintf(stderr, "the emulated GPU was not built\n");
        return EXIT_FAILURE;
    }
    snprintf(library_path, sizeof library_path, "%.*s/standin/libcublasLt.so.13",
             (int)(strrchr(plugin_path, '/') - plugin_path), plugin_path);
    return run_tests((struct unit_case){.setup = set_up});
}
