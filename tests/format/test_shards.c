/* Tests checkpoints with more shards than files may be open at once, written and read. */
#include "format/base/file.h"
#include "format/safetensors_write.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <sys/resource.h>
#include <sys/stat.h>

enum { N = 170, WIDTH = 40, MOST_OPEN = 150 };

static char names[N][16];
static struct sp_safetensor tensors[N];

static int begin(void **state)
{
    const struct rlimit few = {MOST_OPEN, MOST_OPEN};

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "t.%03d", i);
        tensors[i] = (struct sp_safetensor){
            .name = names[i], .dtype = SP_U8, .rank = 1, .shape = {i == 7 ? 0 : WIDTH}};
    }
    return setrlimit(RLIMIT_NOFILE, &few) != 0;
}

static uint8_t byte_of(size_t tensor, size_t at)
{
    return (uint8_t)(tensor * 31 + at);
}

/* Writes one tensor per shard. Tensor 7 is empty and shares the shard of the next tensor. */
static struct sp_safetensors_writer *write_shards(size_t n_put)
{
    struct sp_safetensors_writer *w = NULL;
    uint8_t bytes[WIDTH];

    assert_ok(sp_safetensors_writer_open(&w, scratch_folder(), tensors, N, WIDTH, why));
    for (size_t i = 0; i < n_put; i++) {
        for (size_t k = 0; k < WIDTH; k++)
            bytes[k] = byte_of(i, k);
        /* Writes the tensor in two pieces, the second one first. */
        for (size_t half = 2; i != 7 && half-- > 0;) {
            size_t at = half * WIDTH / 2;
            assert_case_ok(names[i],
                           sp_safetensors_writer_put(w, i, at, bytes + at, WIDTH / 2, why));
        }
    }
    return w;
}

static void read_back(const struct sp_safetensors *c)
{
    size_t n;
    const struct sp_safetensor *all = sp_safetensors_tensors(c, &n);

    assert_int_equal(n, N);
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[WIDTH] = {0};
        assert_string_equal(all[i].name, names[i]);
        assert_ok(sp_safetensors_read(&all[i], 0, (size_t)all[i].size, bytes, why));
        for (size_t k = 0; k < all[i].size; k++)
            assert_int_equal(bytes[k], byte_of(i, k));
    }
}

TEST(many_shards)
{
    struct sp_safetensors_writer *w = write_shards(N);
    struct sp_safetensors *c = NULL;
    char *warnings = NULL;

    assert_ok(sp_safetensors_writer_finish(w, NULL));
    sp_safetensors_writer_close(w);
    assert_ok(sp_safetensors_open(&c, scratch_folder(), &warnings, why));
    assert_null(warnings);
    assert_int_equal(sp_safetensors_n_shards(c), N - 1);
    read_back(c);
    sp_safetensors_close(c);
    scratch_remove();
}

/* An abandoned checkpoint leaves no files, not even complete shards. */
TEST(abandoned_checkpoint_leaves_nothing)
{
    sp_safetensors_writer_close(write_shards(N / 2));
    assert_false(sp_file_exists(scratch_path("model-00001-of-00169.safetensors")));
    assert_int_equal(remove(scratch_folder()), 0);
    scratch_remove();
}

/* A file whose descriptor sp_file_rest closed is reopened. Another file that replaced it is
 * refused. */
TEST(replaced_file_is_refused)
{
    struct sp_file *file = NULL;
    char bytes[4] = "", path[512];

    snprintf(path, sizeof path, "%s", scratch_write("a", "abc", 3));
    assert_ok(sp_file_open(&file, path, NULL));
    sp_file_rest(file);
    assert_ok(sp_file_read_at(file, 1, bytes, 2, NULL));
    assert_string_equal(bytes, "bc");
    assert_int_equal(rename(scratch_write("b", "abc", 3), path), 0);
    assert_fails(sp_file_read_at(file, 1, bytes, 2, why), SP_E_IO,
                 "was replaced after it was opened");
    sp_file_close(file);
    scratch_remove();
}

GROUP_FIXTURE(begin, NULL);
