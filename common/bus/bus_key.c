#include "common/bus/bus_key.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/error.h"

enum { KEY_CHARS = SL_BUS_KEY_TEXT - 1 };

int sl_bus_key_make(char key[SL_BUS_KEY_TEXT])
{
    char public_key[SL_BUS_KEY_TEXT];
    if (zmq_has("curve") && zmq_curve_keypair(public_key, key) == 0)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED, "control bus: this ZeroMQ was built without CURVE, which "
                                    "protects the messages of a job: install one with libsodium");
}

int sl_bus_key_hand_over(const char *key)
{
    int fd = memfd_create("sluice-key", MFD_CLOEXEC);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "handing the bus's key over: memfd_create");
    if (pwrite(fd, key, KEY_CHARS, 0) == KEY_CHARS)
        return fd;
    int err = errno;
    close(fd);
    return sl_fail_errno(SL_ESYS, err, "handing the bus's key over: writing %d bytes", KEY_CHARS);
}

int sl_bus_key_read(int fd, char key[SL_BUS_KEY_TEXT])
{
    ssize_t n = pread(fd, key, SL_BUS_KEY_TEXT, 0);
    key[n == KEY_CHARS ? n : 0] = '\0';
    if (n < 0)
        return sl_fail_errno(SL_ESYS, errno, "reading the bus's key from descriptor %d", fd);
    if (sl_curve_is_key(key))
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "reading the bus's key from descriptor %d: found %zd bytes, wanted %d of Z85",
                   fd, n, KEY_CHARS);
}

int sl_bus_key_curve(const char *key, bool binds, struct sl_curve *out)
{
    memset(out, 0, sizeof *out);
    if (!sl_curve_is_key(key) || zmq_curve_public(out->public_key, key) != 0)
        return sl_fail(SL_EINVAL, "control bus: this is not a valid bus key");
    memcpy(out->secret_key, key, SL_BUS_KEY_TEXT);
    // Both sides are of the same pair, so each knows the other's public key.
    if (binds)
        memcpy(out->client[out->n_clients++], out->public_key, SL_BUS_KEY_TEXT);
    else
        memcpy(out->daemon_key, out->public_key, SL_BUS_KEY_TEXT);
    return SL_OK;
}
