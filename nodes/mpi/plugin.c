/*
 * plugin.c - libsluice_mpi.so: the table of nodes/plugin.h on the MPI of this site.
 *
 * Compiled by the site's mpicc, with nothing of the program in it. Errors of MPI come back as codes
 * (MPI_ERRORS_RETURN); no collective operation is used.
 */
#include <mpi.h>

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/version.h"
#include "nodes/plugin.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request is one word");

static int (*tell)(int code, const char *message);
static char name[MPI_MAX_LIBRARY_VERSION_STRING];

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return tell(code, message);
}

static int check(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (rc == MPI_SUCCESS)
        return SL_OK;
    MPI_Error_string(rc, text, &n);
    return fail(SL_EIO, "%s: %.*s", what, n, text);
}

static const char *mpi_name(void)
{
    return name;
}

static int mpi_open(uint32_t *rank, uint32_t *size)
{
    int got = 0, n = 0, r = 0;
    // The first words: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
    MPI_Get_library_version(name, &n);
    name[strcspn(name, ",\n")] = '\0';
    for (char *c = name; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    int rc = check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &got), "MPI_Init_thread");
    if (rc < 0)
        return rc;
    if (got < MPI_THREAD_FUNNELED)
        return fail(SL_EUNSUPPORTED, "%s does not allow a process with threads: build it with them",
                    name);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    *rank = (uint32_t)r;
    *size = (uint32_t)n;
    return SL_OK;
}

// word[0] is MPI's request; word[1] the bytes that are to come, of a send ANY_SIZE.
#define ANY_SIZE UINT64_MAX

static void put_request(struct sl_world_request *out, MPI_Request request, uint64_t n)
{
    memset(out, 0, sizeof *out);
    memcpy(&out->word[0], &request, sizeof request);
    out->word[1] = n;
}

static int mpi_send(uint32_t to, enum sl_world_tag tag, const void *bytes, size_t n,
                    struct sl_world_request *out)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = check(MPI_Isend(bytes, (int)n, MPI_BYTE, (int)to, (int)tag, MPI_COMM_WORLD, &request),
                   "send");
    put_request(out, request, ANY_SIZE);
    return rc;
}

static int mpi_receive(uint32_t from, enum sl_world_tag tag, void *bytes, size_t n,
                       struct sl_world_request *out)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rc =
        check(MPI_Irecv(bytes, (int)n, MPI_BYTE, (int)from, (int)tag, MPI_COMM_WORLD, &request),
              "receive");
    put_request(out, request, n);
    return rc;
}

static int mpi_test(struct sl_world_request *r)
{
    MPI_Request request;
    MPI_Status status;
    int over = 0, n = 0;
    memcpy(&request, &r->word[0], sizeof request);
    int rc = check(MPI_Test(&request, &over, &status), "a message");
    memcpy(&r->word[0], &request, sizeof request);
    if (rc < 0)
        return rc;
    if (!over)
        return SL_EAGAIN;
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    if (r->word[1] == ANY_SIZE || cancelled)
        return SL_OK;
    MPI_Get_count(&status, MPI_BYTE, &n);
    return (uint64_t)n == r->word[1] ? SL_OK
                                     : fail(SL_EPROTO, "a message of %d bytes: wanted %llu", n,
                                            (unsigned long long)r->word[1]);
}

static int mpi_cancel(struct sl_world_request *r)
{
    MPI_Request request;
    memcpy(&request, &r->word[0], sizeof request);
    r->word[1] = ANY_SIZE;
    return check(MPI_Cancel(&request), "cancel");
}

static int mpi_probe(enum sl_world_tag tag, uint32_t *from, size_t *n)
{
    MPI_Status status;
    int there = 0, bytes = 0;
    int rc = check(MPI_Iprobe(MPI_ANY_SOURCE, (int)tag, MPI_COMM_WORLD, &there, &status), "probe");
    if (rc < 0 || !there)
        return rc < 0 ? rc : SL_EAGAIN;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    *from = (uint32_t)status.MPI_SOURCE;
    *n = (size_t)bytes;
    return SL_OK;
}

static void mpi_abort(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

#ifdef MPICH_VERSION
enum { ACK_MS = 5000 };

// What is left of MPI_Finalize for the launcher (PMI 1): without it, it takes a process that leaves
// for one that failed, and kills the others. A launcher that says nothing has other ways to know.
static void tell_launcher(void)
{
    static const char word[] = "cmd=finalize\n";
    char answer[128];
    const char *text = getenv("PMI_FD");
    struct pollfd fd = {.fd = text ? atoi(text) : -1, .events = POLLIN};
    if (fd.fd <= 0 || write(fd.fd, word, sizeof word - 1) != (ssize_t)(sizeof word - 1))
        return;
    if (poll(&fd, 1, ACK_MS) > 0) {
        ssize_t ignored = read(fd.fd, answer, sizeof answer);
        (void)ignored;
    }
}
#endif

// MPICH 4.0 with UCX does not come back from MPI_Finalize once in a few times: who is ready first
// sleeps in its barrier without serving those that are not. All have agreed that it is over, so the
// process just ends; what it holds is not named and goes with it.
static int mpi_close(void)
{
#ifdef MPICH_VERSION
    tell_launcher();
    return SL_OK;
#else
    return check(MPI_Finalize(), "MPI_Finalize");
#endif
}

static const struct sl_world_table TABLE = {
    .abi = SL_WORLD_ABI,
    .bytes = sizeof(struct sl_world_table),
    .version = SL_VERSION,
    .name = mpi_name,
    .open = mpi_open,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .probe = mpi_probe,
    .abort = mpi_abort,
    .close = mpi_close,
};

__attribute__((visibility("default"))) const struct sl_world_table *sluice_mpi(
    const struct sl_world_host *host);

const struct sl_world_table *sluice_mpi(const struct sl_world_host *host)
{
    if (!host || host->abi != SL_WORLD_ABI || host->bytes != sizeof *host)
        return NULL;
    tell = host->fail;
    return &TABLE;
}
