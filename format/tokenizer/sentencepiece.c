/* The file is a message of protocol buffers (sentencepiece_model.proto): pieces, and how texts are
 * normalized. It is read as the metadata that llama.cpp's converter makes of it for a GGUF file, so
 * that both become tokenizer.json in the same way. */
#include "format/tokenizer/older_files.h"

#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/json/json.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "format/tokenizer/gguf_tokens.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 64 << 20, UNIGRAM = 1, BPE = 2 };

/* Numbers of fields: of the file, of a piece, of trainer_spec and of normalizer_spec. */
enum { PIECES = 1, TRAINER, NORMALIZER };
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum { MODEL_TYPE = 3, SPACE_AS_SUFFIX = 24, UNK_ID = 40, N_IDS = 3 };
enum { CHARSMAP = 2, DUMMY_PREFIX, EXTRA_SPACES, ESCAPE_SPACES };

/* ---- protocol buffers ---- */

struct bytes {
    const uint8_t *at, *end;
};

struct field {
    uint64_t number, value; /* of a varint, or of 4 bytes */
    struct bytes bytes;     /* of the type that has a length */
};

static bool read_varint(uint64_t *out, struct bytes *b)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        *out |= (uint64_t)(*b->at & 127) << shift;
        if (*b->at++ < 128) return true;
    }
    return false;
}

/* The next field; false if there is none that can be read: at the end b->at is b->end. */
static bool next_field(struct field *out, struct bytes *b)
{
    uint64_t tag, size;

    if (b->at == b->end || !read_varint(&tag, b)) return false;
    *out = (struct field){.number = tag >> 3};
    if ((tag & 7) == 0) return read_varint(&out->value, b);
    size = (tag & 7) == 1 ? 8 : 4;
    if ((tag & 7) == 2 && !read_varint(&size, b)) return false;
    if ((tag & 3) == 3 || (tag & 7) == 4 || size > (uint64_t)(b->end - b->at)) return false;
    out->bytes = (struct bytes){b->at, b->at + size};
    if ((tag & 7) == 5) out->value = sp_get32(b->at);
    b->at += size;
    return true;
}

/* ---- the metadata ---- */

struct model {
    struct sp_gguf_token_list tokens;
    uint64_t kind;
    uint64_t ids[N_IDS];                /* unknown, beginning, end; n or more: none */
    bool suffix, prefix, strip, escape; /* where spaces are written, added and removed */
    struct bytes charsmap;
    bool bos, eos;      /* are added to a text */
    const char *scheme; /* of the prefix; static; NULL: SentencePiece's own */
};

static enum sp_status add_piece(struct model *m, struct bytes message, struct sp_err *err)
{
    struct field f;
    struct bytes text = {0};
    uint32_t type = SP_GGUF_TOKEN_NORMAL;
    float score = 0;

    while (next_field(&f, &message)) {
        if (f.number == PIECE_TEXT) text = f.bytes;
        if (f.number == PIECE_SCORE) score = sp_float_of_bits((uint32_t)f.value);
        if (f.number == PIECE_TYPE) type = f.value < 7 ? (uint32_t)f.value : 0;
    }
    if (message.at != message.end)
        return sp_fail(err, SP_E_INPUT, "piece %llu is damaged", (unsigned long long)m->tokens.n);
    return sp_gguf_token_list_add(&m->tokens, (const char *)text.at, (size_t)(text.end - text.at),
                                  score, type, err);
}

/* Reads trainer_spec or normalizer_spec. */
static enum sp_status read_spec(struct model *m, uint64_t which, struct bytes message,
                                struct sp_err *err)
{
    struct field f;

    while (next_field(&f, &message)) {
        if (which == TRAINER && f.number == MODEL_TYPE) m->kind = f.value;
        if (which == TRAINER && f.number == SPACE_AS_SUFFIX) m->suffix = f.value != 0;
        if (which == TRAINER && f.number >= UNK_ID && f.number < UNK_ID + N_IDS)
            m->ids[f.number - UNK_ID] = f.value;
        if (which != NORMALIZER) continue;
        if (f.number == CHARSMAP) m->charsmap = f.bytes;
        if (f.number == DUMMY_PREFIX) m->prefix = f.value != 0;
        if (f.number == EXTRA_SPACES) m->strip = f.value != 0;
        if (f.number == ESCAPE_SPACES) m->escape = f.value != 0;
    }
    return message.at == message.end ? SP_OK : sp_fail(err, SP_E_INPUT, "its settings are damaged");
}

static enum sp_status read_model(struct model *m, struct bytes message, struct sp_err *err)
{
    struct field f;
    enum sp_status st = SP_OK;

    while (!st && next_field(&f, &message)) {
        if (f.number == PIECES) st = add_piece(m, f.bytes, err);
        if (f.number == TRAINER || f.number == NORMALIZER)
            st = read_spec(m, f.number, f.bytes, err);
    }
    if (st) return st;
    if (message.at != message.end || m->tokens.n == 0)
        return sp_fail(err, SP_E_INPUT, "not a model of SentencePiece, or a damaged one");
    if (m->kind != UNIGRAM && m->kind != BPE)
        return sp_fail(err, SP_E_UNSUPPORTED, "a model of %s is not supported",
                       m->kind == 3 ? "words" : "characters");
    if (m->suffix || !m->escape)
        return sp_fail(err, SP_E_UNSUPPORTED, "spaces that are not the beginning of pieces");
    return SP_OK;
}

/* Classes whose ids are those of the file; other classes change them. Those of Llama choose the
 * prefix as transformers 5 does; T5 ends a text and the others begin one. */
static const char *const classes[] = {
    "LlamaTokenizer",     "CodeLlamaTokenizer", "GemmaTokenizer", "InternLMTokenizer",
    "InternLM2Tokenizer", "BaichuanTokenizer",  "OrionTokenizer", "T5Tokenizer",
};
enum { N_LLAMA = 2, T5 = 7, N_CLASSES };

static unsigned find_class(const struct sp_json *config)
{
    size_t len = 0;
    const char *class = sp_json_to_string(sp_json_get(config, "tokenizer_class"), &len);
    unsigned i = 0;

    if (class && sp_ends_with(class, "Fast")) len -= strlen("Fast");
    while (class && i < N_CLASSES && !sp_is_word(class, len, classes[i]))
        i++;
    return i;
}

/* What tokenizer_config.json says beside the class. */
static enum sp_status read_config(struct model *m, unsigned class, const struct sp_json *config,
                                  struct sp_err *err)
{
    bool legacy = false;
    enum sp_status st;

    m->bos = class != T5;
    m->eos = class == T5;
    if ((st = sp_json_get_bool(config, "add_bos_token", &m->bos, err))) return st;
    if ((st = sp_json_get_bool(config, "add_eos_token", &m->eos, err))) return st;
    if ((st = sp_json_get_bool(config, "add_prefix_space", &m->prefix, err))) return st;
    if ((st = sp_json_get_bool(config, "legacy", &legacy, err))) return st;
    if (class < N_LLAMA) m->scheme = legacy ? "always" : "first";
    m->bos = m->bos && m->ids[1] < m->tokens.n;
    m->eos = m->eos && m->ids[2] < m->tokens.n;
    return SP_OK;
}

#define KEY(name) "tokenizer.ggml." name

/* The values of a GGUF file, by key, and tokenizer.json of them. */
static enum sp_status write_text(struct sp_text *text, const struct model *m, struct sp_err *err)
{
    const uint8_t flags[4] = {m->bos, m->eos, m->prefix, m->strip};
    const char *kind = m->kind == BPE ? "llama" : "t5";
    const struct sp_gguf_token_rules rules = {.sentencepiece = true, .prefix = m->scheme};
    uint8_t name[16] = {(uint8_t)strlen(kind)}, ids[N_IDS][4];
    struct sp_gguf *file = NULL;
    enum sp_status st;

    memcpy(name + 8, kind, strlen(kind));
    for (unsigned i = 0; i < N_IDS; i++)
        sp_put32(ids[i], m->ids[i] < m->tokens.n ? (uint32_t)m->ids[i] : UINT32_MAX);
    const struct sp_gguf_value values[] = {
        {KEY("add_bos_token"), SP_GGUF_BOOL, false, 1, &flags[0]},
        {KEY("add_eos_token"), SP_GGUF_BOOL, false, 1, &flags[1]},
        {KEY("add_space_prefix"), SP_GGUF_BOOL, false, 1, &flags[2]},
        {KEY("bos_token_id"), SP_GGUF_I32, false, 1, ids[1]},
        {KEY("eos_token_id"), SP_GGUF_I32, false, 1, ids[2]},
        {KEY("model"), SP_GGUF_STRING, false, 1, name},
        {KEY("precompiled_charsmap"), SP_GGUF_U8, true,
         (uint64_t)(m->charsmap.end - m->charsmap.at), m->charsmap.at},
        {KEY("remove_extra_whitespaces"), SP_GGUF_BOOL, false, 1, &flags[3]},
        {KEY("scores"), SP_GGUF_F32, true, m->tokens.n, (const uint8_t *)m->tokens.scores.at},
        {KEY("token_type"), SP_GGUF_I32, true, m->tokens.n, (const uint8_t *)m->tokens.types.at},
        {KEY("tokens"), SP_GGUF_STRING, true, m->tokens.n, (const uint8_t *)m->tokens.texts.at},
        {KEY("unknown_token_id"), SP_GGUF_I32, false, 1, ids[0]},
    };
    st = sp_gguf_of_values(&file, values, sizeof values / sizeof *values, err);
    if (!st) st = sp_gguf_tokenizer_text(text, file, &rules, err);
    sp_gguf_close(file);
    return st;
}

enum sp_status sp_sentencepiece_read(struct sp_text *text, const char *folder,
                                     const struct sp_text *config, struct sp_err *err)
{
    struct model m = {
        .kind = UNIGRAM, .ids = {0, 1, 2}, .prefix = true, .strip = true, .escape = true};
    struct sp_json *root = NULL;
    struct bytes bytes;
    struct sp_text file = {0};
    unsigned class;
    enum sp_status st;

    *text = file;
    if ((st = sp_json_parse_settings(&root, config, err))) return st;
    if ((class = find_class(root)) == N_CLASSES) goto done;
    st = sp_file_read_in(&file, folder, "tokenizer.model", MAX_SIZE, err);
    if (st || file.at == NULL) goto done;
    bytes = (struct bytes){(const uint8_t *)file.at, (const uint8_t *)file.at + file.size};
    if (!(st = read_model(&m, bytes, err)) && !(st = read_config(&m, class, root, err)))
        st = write_text(text, &m, err);
    if (st) sp_context(err, "%s/tokenizer.model", folder);
done:
    sp_json_free(root);
    sp_gguf_token_list_release(&m.tokens);
    free(file.at);
    return st;
}
