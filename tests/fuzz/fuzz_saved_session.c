/* Fuzzes saved sessions: a file is refused with a message and leaves the session as it was, or it
 * replaces the session, which is then saved and loaded again without a change. */
#include "cli/chat/repl.h"
#include "tests/support/packed_models.h"
#include "tests/fuzz/fuzz.h"

static struct sp_settings settings;
static struct sp_loaded_model loaded = {.settings = &settings};
static const char *input, *saved;

static void check(enum sp_status st, const struct sp_err *err)
{
    if (st == SP_OK) return;
    fprintf(stderr, "%s\n", err->text);
    abort();
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(bytes, 1, size, f) != size || fclose(f)) abort();
}

/* Returns the session as a saved file, NUL-terminated; owned (free). */
static char *save(void)
{
    struct sp_err err = {0};
    char *text;
    long size;

    check(sp_saved_session_write(saved, &loaded, &err), &err);
    FILE *f = fopen(saved, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0) abort();
    rewind(f);
    if ((text = calloc((size_t)size + 1, 1)) == NULL) abort();
    if (fread(text, 1, (size_t)size, f) != (size_t)size) abort();
    fclose(f);
    return text;
}

static void end(void)
{
    sp_loaded_model_close(&loaded);
    packed_teardown(NULL);
}

static void begin(void)
{
    struct sp_conversation *c = &loaded.conversation;
    struct sp_file_settings *file = NULL;
    struct sp_err err = {0};

    if (packed_setup(NULL) || atexit(end)) abort();
    input = packed_path("input");
    saved = packed_path("saved");
    loaded.name = loaded.path =
        packed_file(TESTDATA "/tiny/Modelfile.ar", SP_DTYPE_NONE, SP_DTYPE_NONE);
    loaded.backend = (struct sp_backend_opts){.n_threads = 1, .n_context = 64};
    loaded.no_draft = true;
    check(sp_file_settings_open(&file, loaded.path, &err), &err);
    check(sp_conversation_open(c, file, loaded.path, false, "Be brief.", &err), &err);
    sp_file_settings_close(file);
    check(sp_backend_open_package(&loaded.package, loaded.path, &loaded.backend, &err), &err);
    check(sp_conversation_attach(c, loaded.package, &err), &err);
    c->settings = &settings;
}

/* Restores the session that every input finds. */
static void reset(void)
{
    struct sp_conversation *c = &loaded.conversation;
    struct sp_err err = {0};

    sp_settings_release(&settings);
    settings = (struct sp_settings)SP_SETTINGS_DEFAULTS;
    settings.seed = 1;
    settings.n_context = 64;
    check(sp_settings_set(&settings, "stop", "owl", &err), &err);
    check(sp_settings_set(&settings, "dry_sequence_breakers", ".", &err), &err);
    if (loaded.session == NULL || loaded.backend.n_context != 64)
        check(sp_loaded_model_set_context(&loaded, 64, &err), &err);
    c->thinking = (struct sp_thinking){.mode = SP_THINK_DEFAULT};
    sp_conversation_clear(c);
    check(sp_conversation_set_system(c, "Be brief.", &err), &err);
    check(sp_conversation_add_user(c, "What is 7 plus 8?", 17, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct sp_conversation *c = &loaded.conversation;
    struct sp_err err = {0};
    char *before, *after, *model = NULL;

    if (loaded.package == NULL) begin();
    reset();
    before = save();
    write_file(input, data, size);
    enum sp_status st = sp_saved_session_read(input, &loaded, &model, &err);
    if (st != SP_OK && (err.text[0] == '\0' || strchr(err.text, '\n'))) abort();
    for (size_t i = 0; i < c->n_turns; i++)
        if (c->turns[i].role == NULL || c->turns[i].content == NULL) abort();
    after = save();
    if (st != SP_OK && strcmp(before, after) != 0) abort();
    free(before);
    before = after;
    free(model);
    model = NULL;
    reset();
    err = (struct sp_err){0};
    write_file(input, before, strlen(before));
    check(sp_saved_session_read(input, &loaded, &model, &err), &err);
    after = save();
    if (strcmp(before, after) != 0) abort();
    free(before);
    free(after);
    free(model);
    return 0;
}
