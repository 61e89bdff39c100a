#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "broker/http/http_internal.h"

enum { COMPRESS_FROM_BYTES = 1024 };

void sl_http_add_headers(struct MHD_Response *response)
{
    static const char *const headers[][2] = {
        // Nothing but what this server sends, no inline script; the icon is a data: URL.
        {"Content-Security-Policy",
         "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
         "form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        sl_mhd.MHD_add_response_header(response, headers[i][0], headers[i][1]);
}

static bool takes_gzip(struct MHD_Connection *connection)
{
    const char *accepts = sl_mhd.MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                             MHD_HTTP_HEADER_ACCEPT_ENCODING);
    return accepts && strstr(accepts, "gzip") && !strstr(accepts, "gzip;q=0");
}

// A gzip member (owned); NULL when there is no memory, or it would not be smaller.
static char *compressed(const char *bytes, size_t n, size_t *out_n)
{
    z_stream z = {0};
    char *out = malloc(n);
    // 15 + 16: the largest window, in gzip's framing.
    if (!out || deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(out);
        return NULL;
    }
    z.next_in = (Bytef *)bytes; // only read
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)n;
    int rc = deflate(&z, Z_FINISH);
    *out_n = z.total_out;
    deflateEnd(&z);
    if (rc == Z_STREAM_END)
        return out;
    free(out);
    return NULL;
}

enum MHD_Result sl_http_answer(struct sl_http_request *r, unsigned status, const char *type,
                               const char *bytes, size_t n)
{
    size_t packed_n = 0;
    char *packed = NULL;
    if (n >= COMPRESS_FROM_BYTES && n < UINT32_MAX && takes_gzip(r->connection))
        packed = compressed(bytes, n, &packed_n);
    struct MHD_Response *response =
        packed ? sl_mhd.MHD_create_response_from_buffer(packed_n, packed, MHD_RESPMEM_MUST_FREE)
               : sl_mhd.MHD_create_response_from_buffer(n, (void *)bytes, MHD_RESPMEM_MUST_COPY);
    if (!response) {
        free(packed);
        return MHD_NO;
    }
    sl_http_add_headers(response);
    sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (packed)
        sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                       r->target == SL_TARGET_ACTION ? "POST" : "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                       "Bearer realm=\"sluice\"");
    enum MHD_Result queued = sl_mhd.MHD_queue_response(r->connection, status, response);
    sl_mhd.MHD_destroy_response(response);
    sl_http_set_deadline(r->connection, r->http, SL_HTTP_ANSWER_S);
    atomic_fetch_add_explicit(&r->http->n_requests, 1, memory_order_relaxed);
    return queued;
}

enum MHD_Result sl_http_answer_text(struct sl_http_request *r, unsigned status, const char *type,
                                    struct sl_text *text)
{
    enum MHD_Result queued;
    if (text->failed)
        queued = sl_http_answer_error(r, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    else
        queued = sl_http_answer(r, status, type, text->s ? text->s : "", text->n);
    sl_text_fini(text);
    return queued;
}

enum MHD_Result sl_http_answer_error(struct sl_http_request *r, unsigned status, const char *fmt,
                                     ...)
{
    char why[1024];
    struct sl_text text = {0};
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (r->target == SL_TARGET_FILE || r->target == SL_TARGET_METRICS) {
        sl_text_printf(&text, "%s\n", why);
        return sl_http_answer_text(r, status, "text/plain; charset=utf-8", &text);
    }
    sl_text_puts(&text, "{\"error\":");
    sl_text_json_string(&text, why);
    sl_text_puts(&text, "}\n");
    return sl_http_answer_text(r, status, "application/json", &text);
}
