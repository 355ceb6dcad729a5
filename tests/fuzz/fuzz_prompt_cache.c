/* Fuzzes prompt caches: a file is refused with a message, or generation continues from it. The
 * input is a list of changes to a cache that a session wrote, whose digest is corrected: four bytes
 * each, three for the offset (little-endian, from the end of the head) and one for the new value.
 */
#include "format/base/bytes.h"
#include "format/base/hash.h"
#include "convert/create/create.h"
#include "runtime/spectool.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD = 16, N_CONTEXT = 128, N_PROMPT = 100, N_COMMON = 90 };

static char folder[64] = "/tmp/fuzz-prompt-cache.XXXXXX", cache[80];
static struct sp_package *package;
static uint8_t *good, *changed;
static size_t good_size;

static void check(enum sp_status st, const struct sp_err *err)
{
    if (st == SP_OK) return;
    fprintf(stderr, "%s\n", err->text);
    abort();
}

static struct sp_session *open_session(void)
{
    struct sp_session *session = NULL;
    struct sp_err err = {0};

    check(sp_session_open(&session, package,
                          &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                       .n_context = N_CONTEXT,
                                                       .draft_by = SP_DRAFT_BY_BOTH},
                          &err),
          &err);
    return session;
}

/* Generates a few tokens after a prompt whose token at index `turn` differs. */
static enum sp_status answer(struct sp_session *session, size_t at_change, struct sp_err *err)
{
    uint32_t prompt[N_PROMPT];
    struct sp_request request = {.size = sizeof request,
                                 .prompt = prompt,
                                 .n_prompt = N_PROMPT,
                                 .max_tokens = 6,
                                 .draft_len = 4};
    struct sp_result result = SP_RESULT_INIT;
    enum sp_status st;

    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (uint32_t)(i * 7 % 61 + (i == at_change));
    st = sp_session_generate(session, &request, &result, err);
    sp_result_release(&result);
    return st;
}

static void read_original(void)
{
    FILE *f = fopen(cache, "rb");

    if (f == NULL || fseek(f, 0, SEEK_END)) abort();
    good_size = (size_t)ftell(f);
    good = malloc(good_size);
    changed = malloc(good_size);
    rewind(f);
    if (good == NULL || changed == NULL || fread(good, 1, good_size, f) != good_size) abort();
    fclose(f);
}

static void close_at_exit(void)
{
    sp_package_close(package);
    free(good);
    free(changed);
    unlink(cache);
    rmdir(folder);
}

static void begin(void)
{
    char modelfile[80], path[80];
    struct sp_create_options options = {.modelfile = modelfile, .output = path};
    struct sp_session *session;
    struct sp_err err = {0};
    FILE *f;

    if (mkdtemp(folder) == NULL || atexit(close_at_exit)) abort();
    snprintf(modelfile, sizeof modelfile, "%s/Modelfile", folder);
    snprintf(path, sizeof path, "%s/packed", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    f = fopen(modelfile, "w");
    if (f == NULL) abort();
    fputs("FROM " TESTDATA "/speculators/target\nDRAFT " TESTDATA "/speculators/peagle\n", f);
    fclose(f);
    check(sp_create(NULL, &options, &err), &err);
    check(sp_package_open(&package, path,
                          &(struct sp_package_options){.size = sizeof(struct sp_package_options),
                                                       .n_threads = 1},
                          &err),
          &err);
    unlink(modelfile);
    unlink(path);
    session = open_session();
    check(answer(session, 0, &err), &err);
    check(sp_session_save(session, cache, &err), &err);
    sp_session_close(session);
    read_original();
}

static void write_changed(const uint8_t *data, size_t size)
{
    size_t room = good_size - HEAD - 8;
    FILE *f;

    memcpy(changed, good, good_size);
    for (; size >= 4; data += 4, size -= 4)
        changed[HEAD + (sp_get32(data) & 0xffffff) % room] = data[3];
    sp_put64(changed + good_size - 8, sp_hash64(changed + HEAD, room));
    f = fopen(cache, "wb");
    if (f == NULL || fwrite(changed, 1, good_size, f) != good_size || fclose(f)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_session *session;
    struct sp_err err = {0};

    if (package == NULL) begin();
    write_changed(data, size);
    session = open_session();
    if (sp_session_load(session, cache, &err) != SP_OK && err.text[0] == '\0') abort();
    for (size_t at_change = N_PROMPT; at_change >= N_COMMON; at_change -= N_PROMPT - N_COMMON) {
        enum sp_status st = answer(session, at_change, &err);
        if (st != SP_OK && st != SP_E_INPUT) abort();
    }
    sp_session_close(session);
    return 0;
}
