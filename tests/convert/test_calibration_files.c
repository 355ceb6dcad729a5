/* Tests that calibration files whose contents were not measured are refused, each with a sentence
 * that names what is wrong. */
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/gptq.h"
#include "tests/support/calibration_files.h"
#include "tests/support/create_files.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <math.h>

/* The factors of an input of 192 columns. */
enum { N_NUMBERS = 12 + 16 * (192 + 176 + 160 + 144 + 128 + 112 + 96 + 80 + 64 + 48 + 32 + 16) };

/* Writes a calibration file with one input. */
static const char *write_tensor(const char *record, struct sp_pack_tensor t, const void *numbers,
                                size_t size)
{
    const char *path = create_path("handmade.bin");
    struct sp_pack_writer *w = NULL;

    assert_ok(sp_pack_writer_open(&w, path, true, &t, 1, NULL));
    assert_ok(sp_pack_writer_section(w, SP_PART_FILE, SP_SECTION_CALIBRATION, record,
                                     strlen(record), NULL));
    assert_ok(sp_pack_writer_put(w, 0, numbers, size, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    return path;
}

/* n factors, of which the last is `number`. */
static const char *write_calibration(const char *record, const char *names, enum sp_part part,
                                     float number, size_t n)
{
    struct sp_pack_tensor t = {
        .name = names, .part = part, .dtype = SP_BF16, .layout = SP_PLAIN, .rank = 1, .shape = {n}};
    uint8_t *numbers = keep(calloc(n, 2));

    assert_non_null(numbers);
    for (size_t g = 0; g < sp_gptq_n_groups(sp_gptq_cols(n)); g++)
        sp_write_bf16(numbers + 2 * g, &(float){(float)g}, 1);
    sp_write_bf16(numbers + 2 * (n - 1), &number, 1);
    return write_tensor(record, t, numbers, 2 * n);
}

/* Squares for a stack of n matrices of `cols` columns, of which the last is `number`. */
static const char *write_squares(const char *record, const char *names, size_t n, size_t cols,
                                 float number)
{
    struct sp_pack_tensor t = {.name = names,
                               .part = SP_PART_TARGET,
                               .dtype = SP_F32,
                               .layout = SP_PLAIN,
                               .rank = 2,
                               .shape = {n, cols}};
    float *numbers = keep(calloc(n * cols, sizeof *numbers));

    assert_non_null(numbers);
    numbers[n * cols - 1] = number;
    return write_tensor(record, t, numbers, n * cols * sizeof *numbers);
}

TEST(test_malformed_squares_are_refused)
{
    static const char record[] = "{\"block\":1024}",
                      name[] = "layers.0.mlp.experts.down_proj.weight";
    static const char smoothing[] = "{\"block\":1024,\"smoothing\":{\"layers.0.post_attention_"
                                    "layernorm.weight\":\"iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii\"}}";
    const char *file = create_path("experts.bin");

    create_pack(create_modelfile("FROM @/../experts\n"), file, SP_F32, SP_DTYPE_NONE, 2);
    write_squares(record, name, 4, 64, 1);
    assert_ok(calibration_requantize(file, create_path("out.bin"), create_path("handmade.bin"),
                                     SP_Q4, 1, why));
    calibration_assert_refused(file, write_squares(record, name, 4, 64, -0.5f), SP_Q4, SP_E_INPUT,
                               "out of its range");
    calibration_assert_refused(file, write_squares(record, name, 4, 64, 1.5f), SP_Q4, SP_E_INPUT,
                               "out of its range");
    calibration_assert_refused(file, write_squares(record, name, 4, 64, NAN), SP_Q4, SP_E_INPUT,
                               "out of its range");
    calibration_assert_refused(file, write_squares(record, name, 3, 64, 1), SP_Q4, SP_E_INPUT,
                               "down_proj.weight do not suit the shape in");
    calibration_assert_refused(file,
                               write_squares(record, "layers.0.self_attn.q_proj.weight", 4, 64, 1),
                               SP_Q4, SP_E_INPUT, "q_proj.weight do not suit the shape in");
    calibration_assert_refused(
        file, write_squares(smoothing, "layers.0.mlp.experts.up_proj.weight", 4, 32, 1), SP_Q5,
        SP_E_INPUT, "so that squares do not suffice");
}

TEST(test_malformed_smoothing_is_refused)
{
    static const struct {
        const char *smoothing, *part;
    } cases[] = {
        {"[1]", "smoothing is not an object"},
        {"{\"layers.0.input_layernorm.weight\":7}", "expected a norm, and a text of the letters"},
        {"{\"layers.0.input_layernorm.weight\":\"hhp\"}", "expected a norm, and a text"},
        {"{\"layers.0.mlp.up_proj.weight\":\"h\"}", "expected a norm, and a text of the letters"},
        {"{\"layers.0.input_layernorm.weight\":\"hhh\"}", "has no layers.0.input_layernorm"},
        {"{\"layers.99.input_layernorm.weight\":\"hhh\"}", "made for another model"},
    };
    const char *file = calibration_target();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calibration_assert_refused(
            file,
            write_calibration(keep_format("{\"block\":1024,\"smoothing\":%s}", cases[i].smoothing),
                              "layers.0.self_attn.q_proj.weight", SP_PART_TARGET, 1, N_NUMBERS),
            SP_Q8, SP_E_INPUT, cases[i].part);
    }
}

TEST(test_malformed_files_are_refused)
{
    static const char record[] = "{\"block\":1024,\"tokens\":1}",
                      name[] = "layers.0.self_attn.q_proj.weight";
    const char *file = calibration_target();

    write_calibration(record, name, SP_PART_TARGET, 1, N_NUMBERS);
    assert_ok(calibration_requantize(file, create_path("out.bin"), create_path("handmade.bin"),
                                     SP_Q4, 1, why));
    calibration_assert_refused(
        file, write_calibration(record, name, SP_PART_TARGET, NAN, N_NUMBERS), SP_Q4, SP_E_INPUT,
        "q_proj.weight: it contains a number that is not finite or out of its range");
    calibration_assert_refused(
        file, write_calibration(record, name, SP_PART_DRAFT, 1, N_NUMBERS), SP_Q4, SP_E_USAGE,
        "has no effect, because it does not state what types of KV caches cost, "
        "no matrix that it has statistics of");
    calibration_assert_refused(
        file, write_calibration(record, name, SP_PART_TARGET, 1, 2 + 16 * (32 + 16)), SP_Q4,
        SP_E_INPUT, "q_proj.weight do not suit the shape in");
    calibration_assert_refused(
        file, write_calibration(record, name, SP_PART_TARGET, 1, N_NUMBERS - 16), SP_Q4, SP_E_INPUT,
        "q_proj.weight: 19964 numbers are not the factors");
    calibration_assert_refused(
        file,
        write_calibration(record, "layers.9.mlp.up_proj.weight", SP_PART_TARGET, 1, N_NUMBERS),
        SP_Q4, SP_E_INPUT, "has no matrix layers.9.mlp.up_proj.weight");
    calibration_assert_refused(
        file, write_calibration(record, "norm.weight", SP_PART_TARGET, 1, N_NUMBERS), SP_Q4,
        SP_E_INPUT, "has no matrix norm.weight");
    calibration_assert_refused(file,
                               write_calibration(record, "a,b,a", SP_PART_TARGET, 1, N_NUMBERS),
                               SP_Q4, SP_E_INPUT, "matrix a occurs twice");
    calibration_assert_refused(file, write_calibration(record, "a,", SP_PART_TARGET, 1, N_NUMBERS),
                               SP_Q4, SP_E_INPUT, "has no matrix ");
    calibration_assert_refused(
        file, write_calibration("{\"block\":128}", name, SP_PART_TARGET, 1, N_NUMBERS), SP_Q4,
        SP_E_UNSUPPORTED, "it has blocks of 128 columns");
    calibration_assert_refused(file, write_calibration("[", name, SP_PART_TARGET, 1, N_NUMBERS),
                               SP_Q4, SP_E_INPUT, "section calibration");
    calibration_assert_refused(
        file,
        write_calibration("{\"block\":1024,\"check\":[7,-1]}", name, SP_PART_TARGET, 1, N_NUMBERS),
        SP_Q4, SP_E_INPUT, "check[1] is not a token ID");
}

TEST_FIXTURE(create_setup, create_teardown);
