// libmicrohttpd, opened with the first page.
#include "broker/http/http_internal.h"

#include "common/base/bits.h"

struct sl_http_library sl_mhd;

#define SYMBOL(function) {#function, &sl_mhd.function},
static const struct sl_late_symbol symbols[] = {SL_HTTP_FUNCTIONS(SYMBOL)};
static struct sl_late_library library = {
    .name = "libmicrohttpd",
    .files = {"libmicrohttpd.so.12"},
    .package = "libmicrohttpd12",
    .symbols = symbols,
    .n_symbols = SL_COUNT_OF(symbols),
};

int sl_http_library_open(void)
{
    return sl_late_library_open(&library);
}
