/*
 * cublas_lt.cc - stands in for cuBLASLt on emulated GPUs: its C interface over plain loops.
 *
 * STRICT. What the documentation calls invalid is CUBLAS_STATUS_INVALID_VALUE: attributes that are
 * not known or of another size, layouts that do not fit the product, workspaces that are too small
 * or not aligned to 16 bytes. Combinations of types that have no kernel are NOT_SUPPORTED. What a
 * GPU would answer with a fault is said, and aborts: operands that are not as aligned as the
 * algorithm wants them, or not in memory that the device reaches. What is not set has NVIDIA's
 * default: no workspace, every reduction scheme, an alignment to 256 bytes.
 *
 * FOUR ALGORITHMS, the fastest first, as the heuristic gives them (simt_lt_algorithm). Each adds in
 * an order of its own, so that a choice shows in the bits of the result. The first one must never
 * be chosen by who wants the same bits again: its parts are added in another order at each product.
 * The vector ones take 16 bytes at a time, and results of an even number of columns (rows of the
 * plug-in's) alone: so what was chosen for a class of sizes may refuse one of them.
 *
 * FAILURES on demand, from SLUICE_SIMT_CUBLAS_FAIL, a list of WORD or WORD:N (the Nth such call):
 *
 *      create       no handle: CUBLAS_STATUS_ALLOC_FAILED
 *      describe     no descriptions: CUBLAS_STATUS_ALLOC_FAILED
 *      algorithm    the heuristic knows none: CUBLAS_STATUS_NOT_SUPPORTED
 *      check        no algorithm takes a product after all
 *      unsupported, memory, lost, broken
 *                   a product: NOT_SUPPORTED, ALLOC_FAILED, NOT_INITIALIZED, INTERNAL_ERROR
 */
#include "tests/simt/cublas_lt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

static_assert(sizeof(cublasLtMatmulAlgo_t) == SIMT_LT_ALGO_BYTES, "an algorithm");
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == SIMT_LT_RESULT_BYTES, "a result");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == SIMT_LT_AT_WORKSPACE,
              "its workspace");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == SIMT_LT_AT_STATE, "its state");
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) == SIMT_LT_AT_WAVES, "waves");

enum : uint64_t { MAGIC = 0x73696d745f6c7421, GONE = 0xdbdbdbdbdbdbdbdb };
enum { VERSION = 130100, PARTS = 4, VECTOR_BYTES = 16, WORKSPACE_BYTES = 16 };

// Each begins with MAGIC while it is there.
struct simt_lt_handle {
    uint64_t magic;
};
struct simt_lt_product {
    uint64_t magic;
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const float *bias;
};
struct simt_lt_layout {
    uint64_t magic;
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct simt_lt_preference {
    uint64_t magic;
    size_t workspace;
    uint32_t schemes;
    uint32_t align_a, align_b, align_c, align_d;
};

namespace {

const struct simt_lent *lent;
std::atomic<uint64_t> objects, asked, products[SIMT_LT_ALGORITHMS], turns;

// ---- failures on demand -------------------------------------------------------------------------

enum failure { CREATE, DESCRIBE, ALGORITHM, CHECK, UNSUPPORTED, MEMORY, LOST, BROKEN, FAILURES };
const char *const words[FAILURES] = {"create",      "describe", "algorithm", "check",
                                     "unsupported", "memory",   "lost",      "broken"};
std::atomic<long> calls[FAILURES];

bool fails(enum failure which)
{
    const size_t n = strlen(words[which]);
    const long call = ++calls[which];
    const char *text = getenv("SLUICE_SIMT_CUBLAS_FAIL");
    for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
        const size_t word = strcspn(text, ":,");
        if (word == n && memcmp(text, words[which], n) == 0)
            return text[n] != ':' || strtol(text + n + 1, NULL, 10) == call;
    }
    return false;
}

// ---- objects ------------------------------------------------------------------------------------

template <class T> bool is_alive(const T *object)
{
    return object && object->magic == MAGIC;
}

template <class T> cublasStatus_t make(const T &value, T **out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = static_cast<T *>(malloc(sizeof value));
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    **out = value;
    objects++;
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t destroy(T *object)
{
    if (!is_alive(object))
        return CUBLAS_STATUS_INVALID_VALUE;
    object->magic = GONE;
    free(object);
    objects--;
    return CUBLAS_STATUS_SUCCESS;
}

// An attribute's place; NULL: there is none of this name.
struct place {
    void *at;
    size_t bytes;
};

cublasStatus_t set(struct place to, const void *value, size_t bytes)
{
    if (!to.at || !value || bytes != to.bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to.at, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- products -----------------------------------------------------------------------------------

const struct {
    cublasLtReductionScheme_t scheme;
    uint32_t parts, align; // align: bytes; 0: that of an element
    uint64_t k_from;
    float waves;
} algorithms[SIMT_LT_ALGORITHMS] = {
    {CUBLASLT_REDUCTION_SCHEME_INPLACE, PARTS, VECTOR_BYTES, 8, 0.25f},
    {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, PARTS, VECTOR_BYTES, 256, 0.5f},
    {CUBLASLT_REDUCTION_SCHEME_NONE, 1, VECTOR_BYTES, 1, 1.0f},
    {CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0, 1, 2.0f},
};

// d (m, n) = op(a) (m, k) op(b) (k, n), column-major.
struct problem {
    uint64_t m, n, k;
    int64_t lda, ldb, ldd;
    cudaDataType_t type; // of a and b
    bool ta, tb, tf32, biased;
};

uint32_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

bool is_possible(const struct simt_lt_layout *l)
{
    return is_alive(l) && l->rows > 0 && l->cols > 0 && l->ld > 0 && (uint64_t)l->ld >= l->rows;
}

bool are_alike(const struct simt_lt_layout *x, const struct simt_lt_layout *y)
{
    return x->type == y->type && x->rows == y->rows && x->cols == y->cols && x->ld == y->ld;
}

cublasStatus_t understand(const struct simt_lt_product *p, const struct simt_lt_layout *a,
                          const struct simt_lt_layout *b, const struct simt_lt_layout *c,
                          const struct simt_lt_layout *d, struct problem *out)
{
    if (!is_alive(p) || !is_possible(a) || !is_possible(b) || !is_possible(c) || !is_possible(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    // Attributes are not judged when they are set.
    for (int32_t operation : {p->trans_a, p->trans_b})
        if (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT && p->epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = problem();
    out->ta = p->trans_a == CUBLAS_OP_T;
    out->tb = p->trans_b == CUBLAS_OP_T;
    out->m = out->ta ? a->cols : a->rows;
    out->k = out->ta ? a->rows : a->cols;
    out->n = out->tb ? b->rows : b->cols;
    out->lda = a->ld;
    out->ldb = b->ld;
    out->ldd = d->ld;
    out->type = a->type;
    out->tf32 = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    out->biased = p->epilogue == CUBLASLT_EPILOGUE_BIAS;
    if ((out->tb ? b->cols : b->rows) != out->k || d->rows != out->m || d->cols != out->n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!are_alike(c, d) || (out->biased && !p->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    const bool has_kernels = a->type == b->type && d->type == CUDA_R_32F &&
                             p->scale == CUDA_R_32F && (!out->tf32 || a->type == CUDA_R_32F);
    return has_kernels ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

size_t workspace_of(int which, const struct problem &p)
{
    const bool keeps = algorithms[which].scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return keeps ? PARTS * p.m * p.n * sizeof(float) : 0;
}

bool is_multiple(int64_t ld, cudaDataType_t type, uint32_t align)
{
    return (uint64_t)ld * bytes_of(type) % align == 0;
}

// Whether the algorithm takes these sizes, wherever the matrices are.
bool suits(int which, const struct problem &p)
{
    const uint32_t align = algorithms[which].align;
    if (p.k < algorithms[which].k_from)
        return false;
    return !align || (is_multiple(p.lda, p.type, align) && is_multiple(p.ldb, p.type, align) &&
                      is_multiple(p.ldd, CUDA_R_32F, align) && p.n % 2 == 0);
}

// ... and what its caller prefers.
bool is_preferred(int which, const struct problem &p, const struct simt_lt_preference *by)
{
    const uint32_t align = algorithms[which].align;
    const uint32_t of_ab = align ? align : bytes_of(p.type), of_cd = align ? align : 4;
    const bool scheme = algorithms[which].scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
                        (algorithms[which].scheme & by->schemes);
    return scheme && workspace_of(which, p) <= by->workspace && of_ab <= by->align_a &&
           of_ab <= by->align_b && of_cd <= by->align_c && of_cd <= by->align_d;
}

void describe(int which, const struct problem &p, cublasLtMatmulHeuristicResult_t *out)
{
    memset(out, 0, sizeof *out);
    out->algo.data[0] = MAGIC;
    out->algo.data[1] = (uint64_t)which;
    out->workspaceSize = workspace_of(which, p);
    out->state = CUBLAS_STATUS_SUCCESS;
    out->wavesCount = algorithms[which].waves;
}

// -1: it is none.
int number_of(const cublasLtMatmulAlgo_t *algo)
{
    const bool known = algo && algo->data[0] == MAGIC && algo->data[1] < SIMT_LT_ALGORITHMS;
    return known ? (int)algo->data[1] : -1;
}

// ---- arithmetic ---------------------------------------------------------------------------------

// A product in its stream.
struct order {
    struct problem p;
    int which;
    float alpha, beta;
    const void *a, *b;
    const float *c, *bias;
    float *d, *workspace;
    uint64_t turn;
};

float element(const void *x, uint64_t at, const struct problem &p)
{
    uint32_t bits;
    float value;
    if (p.type == CUDA_R_16BF) {
        bits = (uint32_t) static_cast<const uint16_t *>(x)[at] << 16;
    } else {
        bits = static_cast<const uint32_t *>(x)[at];
        // To 10 bits of the significand, the nearest; infinities and NaN stay.
        if (p.tf32 && (bits & 0x7f800000u) != 0x7f800000u)
            bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The products of elements `from` to `to` of k; `lanes` sums go side by side.
float add_up(const struct order &o, uint64_t i, uint64_t j, uint64_t from, uint64_t to,
             uint32_t lanes)
{
    const struct problem &p = o.p;
    const uint64_t lda = (uint64_t)p.lda, ldb = (uint64_t)p.ldb;
    float sums[4] = {};
    for (uint64_t l = from; l < to; l++) {
        const float x = element(o.a, p.ta ? i * lda + l : l * lda + i, p);
        const float y = element(o.b, p.tb ? l * ldb + j : j * ldb + l, p);
        sums[l % lanes] = fmaf(x, y, sums[l % lanes]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

float sum_of(const struct order &o, uint64_t i, uint64_t j)
{
    const uint64_t k = o.p.k, run = (k + PARTS - 1) / PARTS;
    if (o.which == SIMT_LT_SCALAR || o.which == SIMT_LT_VECTOR)
        return add_up(o, i, j, 0, k, o.which == SIMT_LT_SCALAR ? 1 : 4);
    float parts[PARTS], sum = 0.0f;
    for (uint64_t s = 0; s < PARTS; s++) {
        const uint64_t from = s * run < k ? s * run : k, to = k - from < run ? k : from + run;
        parts[s] = add_up(o, i, j, from, to, 4);
        if (o.workspace)
            o.workspace[(s * o.p.n + j) * o.p.m + i] = parts[s];
    }
    const bool in_order = o.which == SIMT_LT_VECTOR_SPLIT;
    for (uint64_t s = 0; s < PARTS; s++)
        sum += in_order ? o.workspace[(s * o.p.n + j) * o.p.m + i] : parts[(s + o.turn) % PARTS];
    return sum;
}

void multiply(void *context)
{
    const struct order &o = *static_cast<struct order *>(context);
    for (uint64_t j = 0; j < o.p.n; j++)
        for (uint64_t i = 0; i < o.p.m; i++) {
            const uint64_t at = j * (uint64_t)o.p.ldd + i;
            float v = o.alpha * sum_of(o, i, j);
            if (o.beta != 0.0f) // what c held is not read when beta is 0
                v += o.beta * o.c[at];
            o.d[at] = v + (o.bias ? o.bias[i] : 0.0f);
        }
}

// ---- what a GPU would stumble over --------------------------------------------------------------

void must_be(const char *matrix, const void *p, uint64_t elements, uint32_t element, uint32_t align)
{
    char text[160];
    align = align ? align : element;
    if ((uintptr_t)p % align) {
        snprintf(text, sizeof text, "%s at %p: the algorithm wants it aligned to %u bytes", matrix,
                 p, align);
        lent->report("MISALIGNED", text);
    }
    if (!lent->is_reached(p, elements * element)) {
        snprintf(text, sizeof text, "%s at %p: %llu bytes are not memory of the device", matrix, p,
                 (unsigned long long)(elements * element));
        lent->report("OUT OF BOUNDS", text);
    }
}

// Elements from a matrix's first to its last one.
uint64_t span(const struct simt_lt_layout *l)
{
    return (l->cols - 1) * (uint64_t)l->ld + l->rows;
}

cublasStatus_t refuse_on_demand(void)
{
    return fails(UNSUPPORTED) ? CUBLAS_STATUS_NOT_SUPPORTED
           : fails(MEMORY)    ? CUBLAS_STATUS_ALLOC_FAILED
           : fails(LOST)      ? CUBLAS_STATUS_NOT_INITIALIZED
           : fails(BROKEN)    ? CUBLAS_STATUS_INTERNAL_ERROR
                              : CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" __attribute__((visibility("default"))) void simt_lt_take(const struct simt_lent *from)
{
    lent = from;
}

extern "C" __attribute__((visibility("default"))) void simt_lt_counts(struct simt_lt_counts *out)
{
    out->objects = objects;
    out->asked = asked;
    for (int i = 0; i < SIMT_LT_ALGORITHMS; i++)
        out->products[i] = products[i];
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
#define SIMT_LT_NAME(name, value)                                                                  \
    case name: return #name;
        SIMT_LT_STATUSES(SIMT_LT_NAME)
#undef SIMT_LT_NAME
    }
    return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (fails(CREATE))
        return CUBLAS_STATUS_ALLOC_FAILED;
    cublasStatus_t status = make(simt_lt_handle{MAGIC}, handle);
    objects -= status == CUBLAS_STATUS_SUCCESS; // handles stay
    return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    objects++;
    cublasStatus_t status = destroy(handle);
    objects -= status != CUBLAS_STATUS_SUCCESS;
    return status;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (fails(DESCRIBE))
        return CUBLAS_STATUS_ALLOC_FAILED;
    return make(simt_lt_product{MAGIC, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N,
                                CUBLASLT_EPILOGUE_DEFAULT, NULL},
                product);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    return destroy(product);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes)
{
    struct place to = {};
    if (!is_alive(product))
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: to = {&product->trans_a, sizeof product->trans_a}; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: to = {&product->trans_b, sizeof product->trans_b}; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: to = {&product->epilogue, sizeof product->epilogue}; break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: to = {&product->bias, sizeof product->bias}; break;
    }
    return set(to, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    return make(simt_lt_layout{MAGIC, type, rows, cols, ld}, layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    return make(simt_lt_preference{MAGIC, 0, CUBLASLT_REDUCTION_SCHEME_MASK, 256, 256, 256, 256},
                preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t bytes)
{
    if (!is_alive(preference))
        return CUBLAS_STATUS_INVALID_VALUE;
    struct simt_lt_preference &p = *preference;
    struct place to = {};
    switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: to = {&p.workspace, sizeof p.workspace}; break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: to = {&p.schemes, sizeof p.schemes}; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: to = {&p.align_a, sizeof p.align_a}; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: to = {&p.align_b, sizeof p.align_b}; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: to = {&p.align_c, sizeof p.align_c}; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: to = {&p.align_d, sizeof p.align_d}; break;
    }
    return set(to, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t of_a,
    cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *out, int *n)
{
    struct problem p;
    asked++;
    if (!is_alive(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_alive(preference) || wanted <= 0 || !out || !n)
        return CUBLAS_STATUS_INVALID_VALUE;
    *n = 0;
    cublasStatus_t status = understand(product, of_a, of_b, of_c, of_d, &p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (fails(ALGORITHM))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < SIMT_LT_ALGORITHMS && *n < wanted; i++)
        if (suits(i, p) && is_preferred(i, p, preference))
            describe(i, p, &out[(*n)++]);
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
                                       cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    struct problem p;
    const int which = number_of(algo);
    if (!is_alive(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = understand(product, of_a, of_b, of_c, of_d, &p);
    if (status != CUBLAS_STATUS_SUCCESS || which < 0 || !result)
        return status != CUBLAS_STATUS_SUCCESS ? status : CUBLAS_STATUS_INVALID_VALUE;
    if (fails(CHECK) || !suits(which, p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    describe(which, p, result);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t of_a,
                              const void *b, cublasLtMatrixLayout_t of_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t of_c, void *d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    struct order o = {};
    if (!is_alive(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = understand(product, of_a, of_b, of_c, of_d, &o.p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    o.which = number_of(algo);
    if (o.which < 0 || !alpha || !beta || !a || !b || !c || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((uintptr_t)workspace % WORKSPACE_BYTES || workspace_bytes < workspace_of(o.which, o.p))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!suits(o.which, o.p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    status = refuse_on_demand();
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const uint32_t align = algorithms[o.which].align;
    must_be("a", a, span(of_a), bytes_of(of_a->type), align);
    must_be("b", b, span(of_b), bytes_of(of_b->type), align);
    must_be("c", c, span(of_c), sizeof(float), align);
    must_be("d", d, span(of_d), sizeof(float), align);
    if (o.p.biased)
        must_be("the bias", product->bias, o.p.m, sizeof(float), align);
    if (workspace_bytes)
        must_be("the workspace", workspace, workspace_bytes, 1, WORKSPACE_BYTES);
    memcpy(&o.alpha, alpha, sizeof o.alpha);
    memcpy(&o.beta, beta, sizeof o.beta);
    o.a = a;
    o.b = b;
    o.c = static_cast<const float *>(c);
    o.d = static_cast<float *>(d);
    o.bias = o.p.biased ? product->bias : NULL;
    o.workspace = workspace_of(o.which, o.p) ? static_cast<float *>(workspace) : NULL;
    o.turn = turns++;
    struct order *kept = static_cast<struct order *>(malloc(sizeof o));
    if (!kept)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *kept = o;
    if (!lent->give(stream, multiply, kept))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    products[o.which]++;
    return CUBLAS_STATUS_SUCCESS;
}
