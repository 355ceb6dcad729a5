/* Tests the order in which the server's queue gives out the answers of waiting requests, and the
 * end of their responses. */
#include "cli/serve/jobs/serve.h"
#include "tests/support/unit_test.h"

#include <math.h>

static struct sp_serve_queue *queue_of(size_t n_threads)
{
    struct sp_serve_queue *q = NULL;

    assert_ok(sp_serve_queue_new(&q, 8, n_threads, NULL));
    return q;
}

static void put(struct sp_serve_queue *q, struct sp_serve_job *job, size_t n_answers)
{
    *job = (struct sp_serve_job){.n_answers = n_answers};
    assert_int_equal(sp_serve_queue_put(q, job), SP_SERVE_IN);
}

/* Takes the next answer and checks which one it is. */
static void take(struct sp_serve_queue *q, const struct sp_serve_job *job, size_t answer)
{
    size_t taken = SIZE_MAX;

    assert_ptr_equal(sp_serve_queue_take(q, &taken), job);
    assert_int_equal(taken, answer);
}

/* One answer of each request in turn; a request that arrives later waits for one answer only. */
TEST(answers_are_taken_in_turn)
{
    struct sp_serve_queue *q = queue_of(1);
    struct sp_serve_job many, few, one;

    put(q, &many, 4);
    put(q, &few, 2);
    take(q, &many, 0);
    sp_serve_queue_end(q, &many, NULL);
    put(q, &one, 1);
    take(q, &few, 0);
    sp_serve_queue_end(q, &few, NULL);
    take(q, &many, 1);
    sp_serve_queue_end(q, &many, NULL);
    take(q, &one, 0);
    sp_serve_queue_end(q, &one, NULL);
    take(q, &few, 1);
    sp_serve_queue_end(q, &few, NULL);
    take(q, &many, 2);
    sp_serve_queue_end(q, &many, NULL);
    take(q, &many, 3);
    sp_serve_queue_end(q, &many, NULL);
    sp_serve_queue_free(q);
}

/* Requests for several answers leave one thread to requests for one answer. */
TEST(one_thread_is_kept_for_single_answers)
{
    struct sp_serve_queue *q = queue_of(3);
    struct sp_serve_job many, one;

    put(q, &many, 4);
    take(q, &many, 0);
    take(q, &many, 1);
    put(q, &one, 1);
    take(q, &one, 0);
    sp_serve_queue_end(q, &many, NULL);
    take(q, &many, 2);
    sp_serve_queue_end(q, &one, NULL);
    put(q, &one, 1);
    take(q, &one, 0);
    sp_serve_queue_end(q, &one, NULL);
    sp_serve_queue_end(q, &many, NULL);
    take(q, &many, 3);
    sp_serve_queue_end(q, &many, NULL);
    sp_serve_queue_end(q, &many, NULL);
    sp_serve_queue_free(q);
}

/* A response of which a piece is missing does not end as a whole one does. */
TEST(an_aborted_response_has_no_end)
{
    struct sp_serve_queue *q = queue_of(1);
    struct sp_serve_job job;
    char text[8], head[] = "ab", part[] = "c";

    put(q, &job, 1);
    job.polled_at = HUGE_VAL; /* there is no connection to poll */
    take(q, &job, 0);
    sp_serve_queue_write(q, &job, 200, &(struct sp_json_out){.text = {.at = head, .len = 2}});
    sp_serve_queue_write(q, &job, 0, &(struct sp_json_out){.text = {.at = part, .len = 1}});
    assert_int_equal(sp_serve_queue_read(q, &job, text, sizeof text), 3);
    assert_memory_equal(text, "abc", 3);
    assert_int_equal(job.out.len, 0); /* a stream does not grow with what was read */
    sp_serve_queue_write(q, &job, 0, &(struct sp_json_out){.no_memory = true});
    sp_serve_queue_end(q, &job, NULL);
    assert_int_equal(sp_serve_queue_read(q, &job, text, sizeof text), -1);
    sp_strbuf_release(&job.out);
    sp_serve_queue_free(q);
}
