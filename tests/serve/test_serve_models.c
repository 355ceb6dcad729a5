/* Tests a server of several models: their lists, which answers they give when clients alternate
 * between them, and when they are closed. */
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/served_model.h"
#include "tests/support/unit_test.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_MODELS = 2, N_SEEDS = 3 };

#define PROMPT "Tell me a story about a lonely owl."

/* Two files of one checkpoint, whose answers differ: the second one is quantized. */
static const char *names[N_MODELS] = {"exact", "coarse"};
static char folder[256], files[N_MODELS][320];
static char *answers[N_MODELS][N_SEEDS]; /* of `run` */

static void add_model(size_t i, const char *packed)
{
    char options[256];

    snprintf(files[i], sizeof files[i], "%s/%s.bin", folder, names[i]);
    assert_int_equal(link(packed, files[i]), 0);
    for (int seed = 0; seed < N_SEEDS; seed++) {
        snprintf(options, sizeof options,
                 "'" PROMPT "' --num-predict 40 --temperature 1.5 --seed %d --kv-type f32", seed);
        answers[i][seed] = served_run(files[i], options);
    }
}

static int setup(void **state)
{
    char other[320];

    if (served_setup(state)) return 1;
    snprintf(folder, sizeof folder, "%s", packed_path("models"));
    assert_int_equal(mkdir(folder, 0700), 0);
    add_model(0, served_file);
    add_model(1, packed_file(packed_modelfile(TESTDATA "/tiny/target", TESTDATA "/tiny/dflash"),
                             SP_Q4, SP_DTYPE_NONE));
    assert_string_not_equal(answers[0][0], answers[1][0]);
    /* Only packed files count. */
    snprintf(other, sizeof other, "%s/README", folder);
    FILE *f = fopen(other, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    snprintf(other, sizeof other, "%s/dangling", folder);
    assert_int_equal(symlink("nowhere", other), 0);
    snprintf(other, sizeof other, "%s/fifo", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    return 0;
}

static void await_open(const struct server *s, size_t n)
{
    for (int i = 0; i < 6000 && served_count_open(s) != n; i++)
        nap(0.01);
    assert_int_equal(served_count_open(s), n);
}

/* Sends {"model": NAME, MEMBERS} to /api/generate. */
static struct sp_json *generate(const struct server *s, const char *name, const char *members)
{
    return server_post(s, "/api/generate",
                       keep_format("{'model': '%s', 'stream': false%s}", name, members), 200);
}

static void check_name(struct sp_json *json, const char *path, const char *name)
{
    assert_string_equal(json_text(json, path), name);
}

/* All lists have all models of the folder, in the order of their names, before any is open. */
TEST(test_lists)
{
    struct server s = server_start(folder, NULL);

    assert_int_equal(served_count_open(&s), 0);
    struct sp_json *json = server_get(&s, "/v1/models", 200);
    assert_int_equal(sp_json_len(json_at(json, "data")), N_MODELS);
    check_name(json, "data.1.id", "exact");
    check_name(server_get(&s, "/v1/models/exact", 200), "id", "exact");
    json = server_get(&s, "/api/tags", 200);
    assert_string_equal(json_text(json, "models.0.details.quantization_level"), "q4");
    assert_string_not_equal(json_text(json, "models.0.digest"), json_text(json, "models.1.digest"));
    check_name(json, "models.0.name", "coarse");
    json = http_reply_json(
        server_request_with(&s, "anthropic-version: 2023-06-01\r\n", "GET", "/v1/models", NULL),
        200);
    assert_string_equal(json_text(json, "last_id"), "exact");
    check_name(json, "data.0.id", "coarse");
    server_post(&s, "/api/show", "{'model': 'exact'}", 200);
    server_get(&s, "/slots?model=exact", 200);
    assert_int_equal(served_count_open(&s), 0);
    check_name(server_get(&s, "/props?model=exact", 200), "model_alias", "exact");
    assert_int_equal(served_count_open(&s), 1);
}

/* A request has to name one of the models. */
TEST(test_names)
{
    static const char body[] = "{'model': 'other', 'prompt': 'a'}";
    struct server s = server_start(files[0], (const char *const[]){files[1], NULL});

    check_name(server_post(&s, "/v1/completions", "{'prompt': 'a'}", 400), "error.message",
               "model is missing, this server has 'exact', 'coarse'");
    check_name(server_post(&s, "/v1/completions", body, 404), "error.message",
               "model 'other' not found, this server has 'exact', 'coarse'");
    check_name(server_post(&s, "/api/generate", body, 404), "error",
               "model 'other' not found, this server has 'exact', 'coarse'");
    check_name(server_post(&s, "/v1/messages", "{'model': 'other'}", 404), "error.type",
               "not_found_error");
    check_name(server_post(&s, "/api/generate", "{'model': 'exact', 'keep_alive': '5x'}", 400),
               "error", "keep_alive: expected seconds or a duration such as \"5m\"");
    check_name(server_post(&s, "/api/generate", "{'model': 'exact', 'keep_alive': 1e300}", 400),
               "error", "keep_alive: expected seconds or a duration such as \"5m\"");
    assert_int_equal(served_count_open(&s), 0);
}

/* Begins a request for the answer that `run` gave with a seed. */
static int begin(const struct server *s, size_t model, size_t seed)
{
    char body[512];

    snprintf(body, sizeof body,
             "{'model': '%s', 'messages': [{'role': 'user', 'content': '" PROMPT
             "'}], 'max_tokens': 40, 'temperature': 1.5, 'seed': %zu}",
             names[model], seed);
    return server_begin_request(s, "/v1/chat/completions", body);
}

static void check_answer(int fd, size_t model, size_t seed)
{
    struct sp_json *json = http_reply_json(client_receive(fd), 200);

    assert_string_equal(json_text(json, "model"), names[model]);
    check_name(json, "choices.0.message.content", answers[model][seed]);
}

/* Returns the resident memory of the server in kB. */
static long memory_kb(const struct server *s)
{
    long pages = 0;

    FILE *f = fopen(keep_format("/proc/%ld/statm", (long)s->pid), "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Clients that alternate between the models get the answers of `run`. */
static void alternate(const struct server *s, size_t n_rounds)
{
    enum { N_CLIENTS = 6 };
    int fds[N_CLIENTS];

    for (size_t round = 0; round < n_rounds; round++) {
        for (size_t i = 0; i < N_CLIENTS; i++)
            fds[i] = begin(s, (i + round) % N_MODELS, i % N_SEEDS);
        for (size_t i = 0; i < N_CLIENTS; i++)
            check_answer(fds[i], (i + round) % N_MODELS, i % N_SEEDS);
    }
}

/* Closes all models. Returns the memory that is left in use, in kB. */
static long close_all(const struct server *s)
{
    for (size_t i = 0; i < N_MODELS; i++)
        generate(s, names[i], ", 'keep_alive': 0");
    await_open(s, 0);
    return memory_kb(s);
}

TEST(test_answers)
{
    static const char *const max_models[] = {"1", "2"};
    struct http_reply r;

    for (size_t i = 0; i < 2; i++) {
        const char *const options[] = {"--kv-type",    "f32",         "--threads", "2",
                                       "--max-models", max_models[i], NULL};
        struct server s = server_start(folder, options);
        size_t n_files = server_count_files(&s);
        long before, grown = 8192;

        alternate(&s, IS_SANITIZED ? 1 : 5);
        assert_int_equal(served_count_open(&s), i + 1);
        /* The allocator may need more once, for threads that meet, but not again and again. */
        for (int k = 0; k < 4 && grown >= 8192; k++) {
            before = close_all(&s);
            alternate(&s, IS_SANITIZED ? 2 : 10);
            grown = close_all(&s) - before; /* an open model holds its file */
            if (IS_SANITIZED) grown = 0;
        }
        assert_true(grown < 8192);
        server_await_files(&s, n_files);
        if (i == 0) assert_true(server_count_log(&s, "opened exact") > (IS_SANITIZED ? 1 : 3));
        r = server_request(&s, "GET", "/metrics", NULL);
        assert_non_null(strstr(r.body, "\nspectool_answers_total{model=\"exact\"} "));
        assert_non_null(strstr(r.body, "\nspectool_answers_total{model=\"coarse\"} "));
        assert_int_equal(server_stop(&s), 0);
    }
}

/* keep_alive of a request, or --keep-alive, says how long its model stays open. */
TEST(test_keep_alive)
{
    struct server s = server_start(folder, (const char *const[]){"--keep-alive", "0.3s", NULL});

    do { /* on a busy machine its time may be over before it is seen */
        check_name(generate(&s, "exact", ""), "done_reason", "load");
    } while (served_count_open(&s) != 1);
    await_open(&s, 0);
    check_name(generate(&s, "exact", ", 'keep_alive': -1"), "done_reason", "load");
    check_name(generate(&s, "coarse:latest", ", 'keep_alive': '1h'"), "done_reason", "load");
    nap(0.5);
    struct sp_json *json = server_get(&s, "/api/ps", 200);
    assert_int_equal(sp_json_len(json_at(json, "models")), 2);
    assert_string_equal(json_text(json, "models.1.expires_at"), "2262-01-01T00:00:00Z");
    assert_string_not_equal(json_text(json, "models.0.expires_at"), "2262-01-01T00:00:00Z");
    check_name(generate(&s, "exact", ", 'keep_alive': 0"), "done_reason", "unload");
    assert_int_equal(served_count_open(&s), 1);
    generate(&s, "coarse", ", 'prompt': 'a', 'options': {'num_predict': 1}, 'keep_alive': '0s'");
    await_open(&s, 0);
}

/* A single model is open from the start, and can be closed, too. */
TEST(test_single)
{
    struct server s = server_start(files[0], NULL);

    assert_int_equal(served_count_open(&s), 1);
    server_post(&s, "/api/generate", "{'keep_alive': 0}", 200);
    assert_int_equal(served_count_open(&s), 0);
    server_get(&s, "/slots", 200);
    server_post(&s, "/v1/completions", "{'prompt': 'a', 'max_tokens': 1}", 200);
    assert_int_equal(served_count_open(&s), 1);
}

/* A file that is replaced is described as it is after its model was opened again. */
TEST(test_replaced_file)
{
    char path[320], digest[32];

    snprintf(path, sizeof path, "%s", packed_path("replaced.bin"));
    assert_int_equal(link(files[0], path), 0);
    struct server s = server_start(path, NULL);
    struct sp_json *json = server_get(&s, "/api/tags", 200);
    snprintf(digest, sizeof digest, "%s", json_text(json, "models.0.digest"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(files[1], path), 0);
    server_post(&s, "/api/generate", "{'keep_alive': 0}", 200);
    server_post(&s, "/api/generate", "{}", 200);
    json = server_get(&s, "/api/tags", 200);
    assert_string_not_equal(json_text(json, "models.0.digest"), digest);
    assert_int_equal(unlink(path), 0);
    server_post(&s, "/api/generate", "{'keep_alive': 0}", 200);
    json = server_post(&s, "/api/generate", "{}", 500);
    assert_non_null(strstr(json_text(json, "error"), "No such file or directory"));
}

/* Copies the first packed file. */
static void copy_file(const char *to)
{
    assert_int_equal(system(keep_format("cp '%s' '%s'", files[0], to)), 0);
}

static void cut_file(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 3), 0);
}

/* The number of files that keep what was learned of drafting. */
static size_t count_statistics(const char *cache)
{
    glob_t found;

    size_t n = glob(keep_format("%s/spectool/drafting/*.json", cache), 0, NULL, &found)
                   ? 0
                   : found.gl_pathc;
    globfree(&found);
    return n;
}

/* A file that is cut short while its model is open ends neither the server nor the other model.
 * What was learned of drafting with it is not kept. */
TEST(test_file_cut_short)
{
    static const char
        cut[] = "{'model': 'cut', " GOLDEN_PROMPT "}",
        other[] = "{'model': 'exact', " GOLDEN_PROMPT "}",
        tokenize[] = "{'model': 'cut', 'content': 'owl'}",
        long_[] =
            "{'model': 'cut', 'prompt': 'Once upon a time', 'max_tokens': 240, 'ignore_eos': true}",
        close[] = "{'model': 'cut', 'keep_alive': 0}";
    char path[320], copy[320], cache[320];

    snprintf(path, sizeof path, "%s", packed_path("cut.bin"));
    snprintf(copy, sizeof copy, "%s", packed_path("copy.bin"));
    copy_file(path);
    copy_file(copy);
    snprintf(cache, sizeof cache, "%s", packed_path("cache"));
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
    struct server s =
        server_start(path, (const char *const[]){files[0], "--draft-depth", "4", NULL});
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0);
    server_post(&s, "/v1/completions", long_, 200);
    cut_file(path);
    struct sp_json *json = server_post(&s, "/v1/completions", cut, 500);
    assert_non_null(strstr(json_text(json, "error.message"), "cut.bin: was changed while"));
    server_post(&s, "/v1/completions", other, 200);
    for (int i = 0; i < 2; i++) {
        json = server_post(&s, i ? "/tokenize" : "/v1/completions", i ? tokenize : cut, 500);
        assert_non_null(strstr(json_text(json, "error.message"), "cut.bin"));
    }
    assert_int_equal(rename(copy, path), 0);
    server_post(&s, "/v1/completions", long_, 200);
    assert_int_equal(count_statistics(cache), 0);
    for (int i = 0; i < 20 && count_statistics(cache) == 0; i++) { /* drafting must seem to pay */
        server_post(&s, "/v1/completions", long_, 200);
        server_post(&s, "/api/generate", close, 200);
    }
    assert_int_equal(count_statistics(cache), 1);
}

/* A rank that misses a part of the file does not end; the model is refused. */
TEST(test_file_of_ranks_cut_short)
{
    const char *path = packed_path("ranks.bin");

    copy_file(path);
    struct server s = server_start(path, (const char *const[]){"--ranks", "2", NULL});
    server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT "}", 200);
    cut_file(path);
    struct sp_json *json = server_post(&s, "/v1/completions", "{" GOLDEN_PROMPT "}", 500);
    assert_non_null(strstr(json_text(json, "error.message"), "ranks.bin: was changed while"));
}

GROUP_FIXTURE(setup, served_teardown);
