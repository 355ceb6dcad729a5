/* Fuzzes pages of prompts: one is refused with a note, or generation continues from it. The input
 * is a list of changes to the second page of a prompt, whose digest is corrected: four bytes each,
 * three for the offset (little-endian, from the end of the head) and one for the new value. */
#include "format/base/bytes.h"
#include "format/base/hash.h"
#include "convert/create/create.h"
#include "runtime/session/session.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

enum { HEAD = 16, N_CONTEXT = 540, N_PROMPT = 520 };

static char folder[64] = "/tmp/fuzz-prompt-cache.XXXXXX", pages[80], page[400];
static bool noted;
static struct sp_package *package;
static uint8_t *good, *changed;
static size_t good_size;

static void check(enum sp_status st, const struct sp_err *err)
{
    if (st == SP_OK) return;
    fprintf(stderr, "%s\n", err->text);
    abort();
}

static void note(void *context, const char *sentence)
{
    (void)context;
    if (*sentence == '\0') abort();
    noted = true;
}

static struct sp_prompt_cache *open_cache(void)
{
    const struct sp_prompt_cache_options options = {
        .size = sizeof options, .folder = pages, .note = note};
    struct sp_prompt_cache *cache = NULL;
    struct sp_err err = {0};

    check(sp_prompt_cache_open(&cache, &options, &err), &err);
    return cache;
}

static struct sp_session *open_session(struct sp_prompt_cache *cache)
{
    struct sp_session *session = NULL;
    struct sp_err err = {0};

    check(sp_session_open(&session, package,
                          &(struct sp_session_options){.size = sizeof(struct sp_session_options),
                                                       .n_context = N_CONTEXT,
                                                       .draft_by = SP_DRAFT_BY_BOTH,
                                                       .prompt_cache = cache},
                          &err),
          &err);
    return session;
}

/* Generates a few tokens after the prompt in a new session. Returns the number of reused tokens. */
static size_t answer(void)
{
    struct sp_prompt_cache *cache = open_cache();
    struct sp_session *session = open_session(cache);
    uint32_t prompt[N_PROMPT];
    struct sp_request request = {.size = sizeof request,
                                 .prompt = prompt,
                                 .n_prompt = N_PROMPT,
                                 .max_tokens = 6,
                                 .draft_len = 4};
    struct sp_result result = SP_RESULT_INIT;

    for (size_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (uint32_t)(i * 7 % 61);
    enum sp_status st = sp_session_generate(session, &request, &result, NULL);
    if (st != SP_OK && st != SP_E_INPUT) abort();
    size_t n_reused = result.n_reused;
    sp_result_release(&result);
    sp_session_close(session);
    sp_prompt_cache_close(cache);
    return n_reused;
}

/* Sets `page` to the largest page, which has the most tokens. */
static void find_page(void)
{
    DIR *files = opendir(pages);
    off_t largest = 0;

    if (files == NULL) abort();
    for (const struct dirent *e; (e = readdir(files)) != NULL;) {
        char path[sizeof page];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", pages, e->d_name);
        if (stat(path, &info) || !S_ISREG(info.st_mode) || info.st_size <= largest) continue;
        largest = info.st_size;
        memcpy(page, path, sizeof page);
    }
    closedir(files);
}

static void read_original(void)
{
    FILE *f = fopen(page, "rb");

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
    char command[100];

    sp_package_close(package);
    free(good);
    free(changed);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command)) abort();
}

static void begin(void)
{
    char modelfile[80], path[80];
    struct sp_create_options options = {.modelfile = modelfile, .output = path};
    struct sp_err err = {0};

    if (mkdtemp(folder) == NULL || atexit(close_at_exit)) abort();
    snprintf(modelfile, sizeof modelfile, "%s/Modelfile", folder);
    snprintf(path, sizeof path, "%s/packed", folder);
    snprintf(pages, sizeof pages, "%s/pages", folder);
    FILE *f = fopen(modelfile, "w");
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
    package->target->config.max_positions = N_CONTEXT; /* more than the small models state */
    package->draft->config.max_positions = N_CONTEXT;
    if (answer() != 0 || answer() != 512) abort();
    find_page();
    read_original();
}

static void write_changed(const uint8_t *data, size_t size)
{
    size_t room = good_size - HEAD - 8;

    memcpy(changed, good, good_size);
    for (; size >= 4; data += 4, size -= 4)
        changed[HEAD + (sp_get32(data) & 0xffffff) % room] = data[3];
    sp_put64(changed + good_size - 8, sp_hash64(changed + HEAD, room));
    FILE *f = fopen(page, "wb");
    if (f == NULL || fwrite(changed, 1, good_size, f) != good_size || fclose(f)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (package == NULL) begin();
    write_changed(data, size);
    noted = false;
    size_t n_reused = answer();
    if (noted ? n_reused >= 512 : n_reused != 512 && n_reused != 0) abort();
    return 0;
}
