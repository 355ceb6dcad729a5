#include "format/base/compress.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Text shrinks little more above this, and the time grows steeply. */
enum { LEVEL = 6 };

enum sp_status sp_compress(uint8_t **out, size_t *out_size, const void *content, size_t size,
                           struct sp_err *err)
{
    enum sp_status st = SP_OK;
    ZSTD_CCtx *context = NULL;
    uint8_t *frame = NULL;
    size_t bound = ZSTD_compressBound(size), n;

    if (ZSTD_isError(bound))
        return sp_fail(err, SP_E_INPUT, "%zu bytes are too many to compress", size);
    if ((context = ZSTD_createCCtx()) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory for a compressor");
    if ((st = sp_new(&frame, bound, 1, err))) goto done;
    n = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    if (!ZSTD_isError(n)) n = ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    if (!ZSTD_isError(n)) n = ZSTD_compress2(context, frame, bound, content, size);
    if (ZSTD_isError(n)) {
        st = sp_fail(err, SP_E_NOMEM, "zstd: %zu bytes: %s", size, ZSTD_getErrorName(n));
        goto done;
    }
    *out = frame;
    *out_size = n;
    frame = NULL;
done:
    free(frame);
    ZSTD_freeCCtx(context);
    return st;
}

/* ZSTD_decompress would take several frames one after the other, hence the check of the first
 * frame's length. */
enum sp_status sp_decompress(void *out, size_t size, const uint8_t *frame, size_t frame_size,
                             struct sp_err *err)
{
    unsigned long long stated = ZSTD_getFrameContentSize(frame, frame_size);
    size_t length = ZSTD_findFrameCompressedSize(frame, frame_size), n;

    if (stated == ZSTD_CONTENTSIZE_ERROR || ZSTD_isError(length) ||
        sp_get32(frame) != ZSTD_MAGICNUMBER)
        return sp_fail(err, SP_E_INPUT, "compressed data is not a complete zstd frame");
    if (length != frame_size) {
        return sp_fail(err, SP_E_INPUT, "compressed data: frame of %zu bytes in %zu", length,
                       frame_size);
    }
    if (stated != size) {
        return sp_fail(err, SP_E_INPUT,
                       "compressed data: states %llu bytes of content, expected %zu", stated, size);
    }
    n = ZSTD_decompress(out, size, frame, frame_size);
    if (ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
        return sp_fail(err, SP_E_NOMEM, "out of memory for a decompressor");
    if (ZSTD_isError(n))
        return sp_fail(err, SP_E_INPUT, "compressed data: %s", ZSTD_getErrorName(n));
    if (n != size) {
        return sp_fail(err, SP_E_INPUT, "compressed data: %zu bytes of content, expected %zu", n,
                       size);
    }
    return SP_OK;
}

void sp_compress_library(char *text, size_t size)
{
    snprintf(text, size, "libzstd %s", ZSTD_versionString());
}
