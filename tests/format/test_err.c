/* format/base/err.h: the first failure wins, context is put in front, and foreign bytes cannot
 * control a terminal. */
#include "format/base/err.h"
#include "tests/support/unit_test.h"

TEST(first_failure_wins)
{
    struct sp_err err = {0};

    assert_int_equal(sp_fail(&err, SP_E_IO, "disk %d", 7), SP_E_IO);
    assert_int_equal(sp_fail(&err, SP_E_INPUT, "later"), SP_E_INPUT);
    assert_int_equal(err.status, SP_E_IO);
    assert_string_equal(err.text, "disk 7");
    assert_int_equal(sp_fail(NULL, SP_E_NOMEM, "nobody listens"), SP_E_NOMEM);
}

TEST(context_goes_in_front)
{
    struct sp_err err = {0};

    sp_context(&err, "nothing recorded");
    assert_string_equal(err.text, "");
    (void)sp_fail(&err, SP_E_INPUT, "too short");
    sp_context(&err, "tensor %s", "x");
    sp_context(&err, "file");
    sp_context(NULL, "nobody");
    assert_string_equal(err.text, "file: tensor x: too short");
}

TEST(long_text_is_cut)
{
    struct sp_err err = {0};
    char text[3 * SP_ERR_TEXT];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)sp_fail(&err, SP_E_INPUT, "%s", text);
    assert_int_equal(strlen(err.text), SP_ERR_TEXT - 1);
    sp_context(&err, "%s", text);
    assert_int_equal(strlen(err.text), SP_ERR_TEXT - 1);
}

TEST(foreign_bytes_are_shown_as_question_marks)
{
    struct sp_err err = {0};

    (void)sp_fail(&err, SP_E_INPUT, "%s", "a\x1b[31m\nb\x7f \xff\xc3\xa9 \xc3");
    assert_string_equal(err.text, "a?[31m?b? ?\xc3\xa9 ?");
}
