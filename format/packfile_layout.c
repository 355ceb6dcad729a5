/* The packed file's fixed-size records, byte by byte, and the rules of its canonical layout. The
 * table of offsets is in packfile_layout.h. Nothing here looks beyond one record: what records must
 * be to each other is checked where they are read (packfile.c). */
#include "format/packfile_layout.h"

#include "format/base/bytes.h"
#include "format/base/hash.h"
#include "format/base/unicode.h"
#include "format/pack_contents.h"

#include <string.h>

/* Like PNG's: a transfer that rewrites line ends or strips the eighth bit shows at once. */
const uint8_t sp_pack_magic[8] = {0x89, 'S', 'P', 'K', 0x0D, 0x0A, 0x1A, 0x0A};

static bool all_zero(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (p[i]) return false;
    return true;
}

void sp_pack_put_header(uint8_t *p, const struct sp_pack_header *header)
{
    memset(p, 0, SP_PACK_HEADER_SIZE);
    memcpy(p, sp_pack_magic, sizeof sp_pack_magic);
    sp_put16(p + 8, (uint16_t)header->major);
    sp_put16(p + 10, (uint16_t)header->minor);
    sp_put32(p + 12, SP_PACK_HEADER_SIZE);
    sp_put64(p + 16, header->file_size);
    sp_put64(p + 24, header->directory_offset);
    sp_put64(p + 32, header->directory_size);
    sp_put64(p + 40, header->directory_digest);
    sp_put32(p + 48, header->n_tensors);
    sp_put32(p + 52, header->n_sections);
    sp_put32(p + 56, header->names_size);
    sp_put64(p + 120, sp_hash64(p, SP_PACK_HEADER_DIGESTED));
}

/* The directory's own numbers: it must end the file and be exactly as long as its parts. */
static enum sp_status check_directory_range(const struct sp_pack_header *h, struct sp_err *err)
{
    uint64_t want = (uint64_t)h->n_tensors * SP_PACK_TENSOR_ENTRY +
                    (uint64_t)h->n_sections * SP_PACK_SECTION_ENTRY + h->names_size;

    if (h->directory_size != want) {
        return sp_fail(err, SP_E_INPUT,
                       "directory of %llu bytes, but its %lu tensors, %lu sections and %lu bytes "
                       "of names take %llu",
                       (unsigned long long)h->directory_size, (unsigned long)h->n_tensors,
                       (unsigned long)h->n_sections, (unsigned long)h->names_size,
                       (unsigned long long)want);
    }
    if (h->directory_size > h->file_size || h->directory_offset < SP_PACK_PAGE ||
        h->directory_offset != h->file_size - h->directory_size) {
        return sp_fail(err, SP_E_INPUT,
                       "directory of %llu bytes at offset %llu does not end a file of %llu bytes",
                       (unsigned long long)h->directory_size,
                       (unsigned long long)h->directory_offset, (unsigned long long)h->file_size);
    }
    return SP_OK;
}

enum sp_status sp_pack_get_header(struct sp_pack_header *out, const uint8_t *bytes, uint64_t size,
                                  struct sp_err *err)
{
    struct sp_pack_header h;

    if (size >= 4 && memcmp(bytes, "GGUF", 4) == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "a GGUF file, expected a packed one, which spectool create makes from it");
    }
    if (size < sizeof sp_pack_magic || memcmp(bytes, sp_pack_magic, sizeof sp_pack_magic) != 0)
        return sp_fail(err, SP_E_INPUT, "not a packed file");
    if (size < SP_PACK_PAGE) {
        return sp_fail(err, SP_E_INPUT, "%llu bytes, shorter than a packed file's first page",
                       (unsigned long long)size);
    }
    h.major = sp_get16(bytes + 8);
    h.minor = sp_get16(bytes + 10);
    /* Before the digest: a later major version may keep that elsewhere. */
    if (h.major > SP_PACK_MAJOR) {
        return sp_fail(err, SP_E_UNSUPPORTED, "format version %u.%u is newer than %d.%d", h.major,
                       h.minor, SP_PACK_MAJOR, SP_PACK_MINOR);
    }
    if (sp_get64(bytes + 120) != sp_hash64(bytes, SP_PACK_HEADER_DIGESTED))
        return sp_fail(err, SP_E_INPUT, "the header does not match its digest");
    if (h.major != SP_PACK_MAJOR)
        return sp_fail(err, SP_E_INPUT, "format version %u.%u does not exist", h.major, h.minor);
    h.file_size = sp_get64(bytes + 16);
    h.directory_offset = sp_get64(bytes + 24);
    h.directory_size = sp_get64(bytes + 32);
    h.directory_digest = sp_get64(bytes + 40);
    h.n_tensors = sp_get32(bytes + 48);
    h.n_sections = sp_get32(bytes + 52);
    h.names_size = sp_get32(bytes + 56);
    if (sp_get32(bytes + 12) != SP_PACK_HEADER_SIZE || !all_zero(bytes + 60, 60))
        return sp_fail(err, SP_E_INPUT, "reserved bytes of the header are not zero");
    if (!all_zero(bytes + SP_PACK_HEADER_SIZE, SP_PACK_PAGE - SP_PACK_HEADER_SIZE)) {
        return sp_fail(err, SP_E_INPUT, "bytes between the header and offset %d are not zero",
                       SP_PACK_PAGE);
    }
    if (h.file_size != size) {
        return sp_fail(err, SP_E_INPUT, "%llu bytes, but the header says %llu",
                       (unsigned long long)size, (unsigned long long)h.file_size);
    }
    *out = h;
    return check_directory_range(out, err);
}

int sp_pack_tensor_compare(const void *left, const void *right)
{
    const struct sp_pack_tensor *a = left, *b = right;

    if (a->part != b->part) return a->part < b->part ? -1 : 1;
    return strcmp(a->name, b->name);
}

void sp_pack_put_tensor(uint8_t *p, const struct sp_pack_tensor *t, uint64_t offset)
{
    memset(p, 0, SP_PACK_TENSOR_ENTRY);
    sp_put16(p, (uint16_t)strlen(t->name));
    p[2] = (uint8_t)t->part;
    p[3] = (uint8_t)t->dtype;
    p[4] = (uint8_t)t->layout;
    p[5] = (uint8_t)t->rank;
    for (unsigned i = 0; i < t->rank; i++)
        sp_put64(p + 8 + 8 * i, t->shape[i]);
    sp_put64(p + 40, offset);
    sp_put64(p + 48, t->size);
    sp_put64(p + 56, t->digest);
}

enum sp_status sp_pack_get_tensor(struct sp_pack_tensor *out, uint64_t *offset, size_t *name_size,
                                  const uint8_t *p, struct sp_err *err)
{
    size_t size;

    *name_size = sp_get16(p);
    *out = (struct sp_pack_tensor){.rank = p[5]};
    if (p[2] != SP_PART_TARGET && p[2] != SP_PART_DRAFT)
        return sp_fail(err, SP_E_INPUT, "part %u, expected 1 (target) or 2 (draft)", p[2]);
    if (!sp_dtype_is_packed(p[3]))
        return sp_fail(err, SP_E_UNSUPPORTED, "type number %u is not known", p[3]);
    if (p[4] != SP_PLAIN && p[4] != SP_PANEL)
        return sp_fail(err, SP_E_UNSUPPORTED, "layout number %u is not known", p[4]);
    if (p[5] > SP_PACK_MAX_RANK)
        return sp_fail(err, SP_E_INPUT, "rank %u, expected at most %d", p[5], SP_PACK_MAX_RANK);
    out->part = (enum sp_part)p[2];
    out->dtype = (enum sp_dtype)p[3];
    out->layout = (enum sp_layout)p[4];
    for (unsigned i = 0; i < SP_PACK_MAX_RANK; i++) {
        out->shape[i] = sp_get64(p + 8 + 8 * i);
        if ((out->shape[i] == 0) == (i < out->rank)) {
            return sp_fail(err, SP_E_INPUT, "dimension %u is %llu in a shape of rank %u", i,
                           (unsigned long long)out->shape[i], out->rank);
        }
    }
    *offset = sp_get64(p + 40);
    out->size = sp_get64(p + 48);
    out->digest = sp_get64(p + 56);
    if (sp_get16(p + 6) != 0) return sp_fail(err, SP_E_INPUT, "reserved bytes are not zero");
    if (!sp_tensor_size(&size, out->dtype, out->layout, out->shape, out->rank))
        return sp_fail(err, SP_E_INPUT, "its shape is impossible for its type and layout");
    if (size != out->size) {
        return sp_fail(err, SP_E_INPUT, "%llu bytes, but its type and shape need %zu",
                       (unsigned long long)out->size, size);
    }
    return SP_OK;
}

void sp_pack_put_section(uint8_t *p, const struct sp_pack_section *s, uint64_t offset)
{
    memset(p, 0, SP_PACK_SECTION_ENTRY);
    sp_put16(p, (uint16_t)s->kind);
    p[2] = (uint8_t)s->part;
    p[3] = s->compressed;
    sp_put64(p + 8, offset);
    sp_put64(p + 16, s->stored);
    sp_put64(p + 24, s->size);
    sp_put64(p + 32, s->digest);
}

enum sp_status sp_pack_get_section(struct sp_pack_section *out, uint64_t *offset, const uint8_t *p,
                                   struct sp_err *err)
{
    unsigned kind = sp_get16(p);

    if (kind == 0 || kind >= SP_N_SECTIONS)
        return sp_fail(err, SP_E_UNSUPPORTED, "section kind %u is not known", kind);
    *out = (struct sp_pack_section){
        .kind = (enum sp_section)kind,
        .part = (enum sp_part)p[2],
        .compressed = p[3] == 1,
        .stored = sp_get64(p + 16),
        .size = sp_get64(p + 24),
        .digest = sp_get64(p + 32),
    };
    *offset = sp_get64(p + 8);
    if (!sp_pack_section_valid(out->kind, out->part)) {
        return sp_fail(err, SP_E_INPUT, "a %s section cannot belong to part %u",
                       sp_section_name(out->kind), p[2]);
    }
    if (p[3] > 1 || (out->compressed && out->kind == SP_SECTION_TOKENIZER_MAP)) {
        return sp_fail(err, SP_E_INPUT, "encoding %u of the %s section is not allowed", p[3],
                       sp_section_name(out->kind));
    }
    if (sp_get32(p + 4) != 0) {
        return sp_fail(err, SP_E_INPUT, "reserved bytes of the %s section are not zero",
                       sp_section_name(out->kind));
    }
    if (out->size > sp_pack_section_limit(out->kind)) {
        return sp_fail(err, SP_E_INPUT, "the %s section has %llu bytes, expected at most %llu",
                       sp_section_name(out->kind), (unsigned long long)out->size,
                       (unsigned long long)sp_pack_section_limit(out->kind));
    }
    if (out->stored == 0 || (out->compressed ? out->size > sp_pack_content_limit(out->stored)
                                             : out->size != out->stored)) {
        return sp_fail(err, SP_E_INPUT, "the %s section cannot hold %llu bytes in %llu",
                       sp_section_name(out->kind), (unsigned long long)out->size,
                       (unsigned long long)out->stored);
    }
    return SP_OK;
}

bool sp_pack_name_valid(const char *name, size_t size)
{
    if (size == 0 || size > SP_PACK_MAX_NAME || sp_utf8_valid(name, size) != size) return false;
    for (size_t i = 0; i < size;) {
        uint32_t c = sp_utf8_next(name, size, &i);
        if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false; /* a control character */
    }
    return true;
}

/* Published models stay below a quarter of these. */
uint64_t sp_pack_section_limit(enum sp_section kind)
{
    static const uint32_t limits[SP_N_SECTIONS] = {
        [SP_SECTION_MODELFILE] = 16 << 20,  [SP_SECTION_PAIRING] = 1 << 20,
        [SP_SECTION_CONFIG] = 4 << 20,      [SP_SECTION_GENERATION] = 1 << 20,
        [SP_SECTION_TOKENIZER] = 128 << 20, [SP_SECTION_TOKENIZER_CONFIG] = 16 << 20,
        [SP_SECTION_TEMPLATE] = 1 << 20,    [SP_SECTION_TOKENIZER_MAP] = 1 << 30,
        [SP_SECTION_CALIBRATION] = 8 << 20, [SP_SECTION_ADAPTERS] = 8 << 20,
        [SP_SECTION_POOLING] = 1 << 20,     [SP_SECTION_RECEIPTS] = 1 << 20,
        [SP_SECTION_SMOOTHING] = 8 << 20,   [SP_SECTION_CACHES] = 1 << 20,
    };

    return limits[kind];
}

/* Configurations and tokenizers shrink to a fifth or a tenth. What is repeated shrinks to a
 * thousandth, which matters only where it is large. */
uint64_t sp_pack_content_limit(uint64_t stored)
{
    enum { SMALL = 1 << 20, SMALL_RATIO = 1024, RATIO = 64 };
    uint64_t small = stored < SMALL / SMALL_RATIO ? SMALL_RATIO * (stored + 1) - 1 : SMALL;

    if (stored > UINT64_MAX / RATIO) return UINT64_MAX;
    return small > RATIO * stored ? small : RATIO * stored;
}

bool sp_pack_section_valid(enum sp_section kind, enum sp_part part)
{
    if (kind == SP_SECTION_MODELFILE || kind == SP_SECTION_PAIRING ||
        kind == SP_SECTION_CALIBRATION || kind == SP_SECTION_RECEIPTS)
        return part == SP_PART_FILE;
    if (kind == SP_SECTION_ADAPTERS || kind == SP_SECTION_POOLING || kind == SP_SECTION_SMOOTHING ||
        kind == SP_SECTION_CACHES)
        return part == SP_PART_TARGET;
    return part == SP_PART_TARGET || part == SP_PART_DRAFT;
}

bool sp_pack_next_offset(uint64_t *out, uint64_t end, bool first)
{
    uint64_t step = first ? SP_PACK_PAGE : SP_PACK_ALIGN;

    if (end > UINT64_MAX - step) return false;
    *out = (end + step - 1) & ~(step - 1);
    return true;
}

enum sp_status sp_pack_digest_parts(struct sp_part_digests *out,
                                    const struct sp_pack_tensor *tensors, size_t n,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct sp_hash *hash = NULL;

    if ((st = sp_hash_new(&hash, err))) return st;
    for (int part = SP_PART_TARGET; part <= SP_PART_DRAFT; part++) {
        sp_hash_reset(hash);
        for (size_t i = 0; i < n; i++) {
            uint8_t digest[8];
            if (tensors[i].part != (enum sp_part)part) continue;
            sp_put64(digest, tensors[i].digest);
            sp_hash_update(hash, tensors[i].name, strlen(tensors[i].name) + 1);
            sp_hash_update(hash, digest, sizeof digest);
        }
        *(part == SP_PART_TARGET ? &out->target : &out->draft) = sp_hash_digest(hash);
    }
    sp_hash_free(hash);
    return SP_OK;
}
