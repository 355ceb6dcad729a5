/* Tests what types of KV caches cost, as files state it: the choice of types, and reading. */
#include "format/weights/cache_divergence.h"
#include "tests/support/unit_test.h"

#include <math.h>
#include <stdlib.h>

/* Bytes of a token in each type: the same for all layers but the last, whose are four times. */
static const double sizes[4][SP_N_LAYER_CACHES] = {
    {256, 140, 104, 76}, {256, 140, 104, 76}, {256, 140, 104, 76}, {1024, 560, 416, 304}};

static struct sp_cache_divergences read_text(const char *text, const char *expected)
{
    struct sp_cache_divergences all = {0};
    struct sp_json *json = NULL;
    struct sp_err err = {0};

    assert_int_equal(sp_json_parse(&json, text, strlen(text), SP_JSON_STRICT, &err), SP_OK);
    assert_int_equal(sp_cache_divergences_read(&all, json, &err), expected ? SP_E_INPUT : SP_OK);
    if (expected) assert_string_equal(err.text, expected);
    sp_json_free(json);
    return all;
}

static void check(const char *text, double most, const char *expected, double sum)
{
    static const char letters[] = "fqvk"; /* f16, q8, values of 4 bits, keys too */
    struct sp_cache_divergences all = read_text(text, NULL);
    char made[5] = {0};

    assert_int_equal(all.n, 4);
    double got = sp_cache_divergences_choose(&all, sizes, most);
    for (size_t i = 0; i < all.n; i++)
        made[i] = letters[all.layers[i].chosen];
    assert_string_equal(made, expected);
    assert_true(fabs(got - sum) < 1e-12);
    sp_cache_divergences_release(&all);
}

/* Each case was chosen by hand: the steps by bytes saved per divergence, those that fit. */
TEST(test_choice)
{
    static const char text[] = "{\"f16\":[0,0,0,0],\"q8\":[0.001,0.001,0.002,0.001],"
                               "\"q8:q4\":[0.002,0.011,0.02,0.003],\"q4\":[0.1,0.2,0.3,0.4]}";
    /* Steps by gain, in bytes per 0.001: layer 3 to q8 464 (at once to q8:q4: 203), layers 0 and 1
     * to q8 116, layer 3 from there to q8:q4 72, layer 2 to q8 58, layer 0 to q8:q4 36. */
    check(text, 0, "ffff", 0);
    check(text, 0.001, "fffq", 0.001);
    check(text, 0.0035, "qqfq", 0.003);
    check(text, 0.0045, "vqfq", 0.004);
    check(text, 0.0065, "vqfv", 0.006);
    check(text, 0.0085, "vqqv", 0.008);
    check(text, 10, "kkkk", 1);
}

/* Layers that are not measured keep f16; the divergence of f16 is that of any change. */
TEST(test_unmeasured_and_common)
{
    check("{\"f16\":[0.5,null,0.5,0.5],\"q8\":[0.5,null,0.4,0.501],\"q8:q4\":[0.501,null,0.6,0.7],"
          "\"q4\":[0.6,null,0.7,0.9]}",
          0.0015, "qfqq", 0.001);
    check("{\"f16\":[0.5,null,0.5,0.5],\"q8\":[0.5,null,0.4,0.501],\"q8:q4\":[0.501,null,0.6,0.7],"
          "\"q4\":[0.6,null,0.7,0.9]}",
          0.0021, "vfqq", 0.002);
}

#define MEASURED "{\"f16\":[0,null],\"q8\":[1e-05,null],\"q8:q4\":[0.25,null],\"q4\":[2,null]"

TEST(test_reading)
{
    struct sp_cache_divergences all = {0};
    struct sp_json_out out = {0};
    static const char text[] =
        MEASURED ",\"chosen\":[\"q8:q4\",\"f16\"],\"divergence\":0.003,\"error\":0.0001}";

    all = read_text(MEASURED "}", NULL);
    assert_true(all.n == 2 && !all.has_choice);
    sp_cache_divergences_release(&all);
    all = read_text(text, NULL);
    assert_true(all.has_choice && all.nats == 0.003 && all.error == 0.0001);
    assert_true(all.layers[0].chosen == SP_LAYER_Q8_Q4 && all.layers[1].chosen == SP_LAYER_F16);
    assert_true(all.layers[0].nats[SP_LAYER_Q8_Q4] == 0.25 && all.layers[1].nats[SP_LAYER_Q4] < 0);
    sp_cache_divergences_print(&out, &all);
    assert_int_equal(out.text.len, strlen(text));
    assert_memory_equal(out.text.at, text, strlen(text));
    sp_strbuf_release(&out.text);
    sp_cache_divergences_release(&all);
    read_text("{\"f16\":[0,0],\"q8\":[0],\"q8:q4\":[0,0],\"q4\":[0,0]}",
              "caches: q8 is not an array of 2 layers");
    read_text("{\"f16\":[0],\"q8\":[0],\"q8:q4\":[-1],\"q4\":[0]}",
              "caches: q8:q4[0] is not a divergence");
    read_text("{\"f16\":[0],\"q8\":[0],\"q8:q4\":[0],\"q4\":[\"0\"]}",
              "caches: q4[0] is not a divergence");
    read_text("[]", "caches: f16 is not an array of 0 layers");
    read_text(MEASURED ",\"chosen\":[\"q8\"]}", "caches: chosen is not an array of 2 layers");
    read_text(MEASURED ",\"chosen\":[\"q8\",\"q8\"]}", "caches: chosen[1] is not a measured type");
    read_text(MEASURED ",\"chosen\":[\"q5\",\"f16\"]}", "caches: chosen[0] is not a measured type");
    read_text(MEASURED ",\"chosen\":[\"q8\",\"f16\"],\"error\":-1}",
              "error is -1, expected a number 0..1e+06");
    assert_int_equal(sp_cache_divergences_read(&all, NULL, NULL), SP_OK);
    assert_int_equal(all.n, 0);
}
