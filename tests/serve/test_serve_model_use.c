/* Tests which models the server opens and closes, with models that only count. */
#include "cli/serve/jobs/serve_model.h"
#include "tests/support/unit_test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { N = 4 };

struct fixture {
    struct sp_serve_models *models;
    struct sp_serve_model all[N];
    const char *names[N];
    atomic_int n_opened[N], n_closed[N], n_trimmed[N];
    int n_trims[N];        /* how often a model can be trimmed */
    enum sp_status status; /* of opening */
};

static enum sp_status count_open(void *context, struct sp_serve_model *model, struct sp_err *err)
{
    struct fixture *f = context;

    if (f->status) return sp_fail(err, f->status, "it does not open");
    f->n_opened[model->number]++;
    return SP_OK;
}

static void count_close(void *context, struct sp_serve_model *model)
{
    ((struct fixture *)context)->n_closed[model->number]++;
}

static bool count_trim(void *context, struct sp_serve_model *model)
{
    struct fixture *f = context;

    if (f->n_trimmed[model->number] == f->n_trims[model->number]) return false;
    f->n_trimmed[model->number]++;
    return true;
}

static void set_up(struct fixture *f, size_t max_open)
{
    static const char *const names[N] = {"a", "b", "c", "d"};
    const struct sp_serve_models_options options = {
        .models = f->all,
        .n_models = N,
        .max_open = max_open,
        .max_waiting = 2,
        .open = count_open,
        .close = count_close,
        .trim = count_trim,
        .context = f,
    };

    *f = (struct fixture){.status = SP_OK};
    for (size_t i = 0; i < N; i++) {
        f->names[i] = names[i];
        f->all[i].names = &f->names[i];
        f->all[i].n_names = 1;
        f->all[i].number = i;
    }
    assert_ok(sp_serve_models_new(&f->models, &options, NULL));
}

static void acquire(struct fixture *f, size_t i, double keep_alive)
{
    assert_fails(sp_serve_models_acquire(f->models, &f->all[i], keep_alive, NULL, why), 0, "");
}

static void use(struct fixture *f, size_t i, double keep_alive)
{
    acquire(f, i, keep_alive);
    sp_serve_models_release(f->models, &f->all[i]);
}

static bool is_open(struct fixture *f, size_t i)
{
    sp_serve_models_lock(f->models);
    bool open = f->all[i].use.is_open;
    sp_serve_models_unlock(f->models);
    return open;
}

static void nap(double seconds)
{
    const struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};

    nanosleep(&time, NULL);
}

/* Waits until a model is closed, for at most a minute. */
static void await_closed(struct fixture *f, size_t i)
{
    for (int k = 0; k < 6000 && is_open(f, i); k++)
        nap(0.01);
    assert_false(is_open(f, i));
}

TEST(names_are_found)
{
    struct fixture f;

    set_up(&f, 1);
    assert_ptr_equal(sp_serve_models_find(f.models, "b"), &f.all[1]);
    assert_ptr_equal(sp_serve_models_find(f.models, "c:latest"), &f.all[2]);
    assert_null(sp_serve_models_find(f.models, "e"));
    assert_null(sp_serve_models_find(f.models, "a:7b"));
    sp_serve_models_free(f.models);
}

/* The place of the least recently used model is taken, but never that of one in use. */
TEST(the_oldest_makes_way)
{
    struct fixture f;

    set_up(&f, 2);
    use(&f, 0, -1);
    use(&f, 1, -1);
    use(&f, 0, -1);
    use(&f, 2, -1);
    assert_true(is_open(&f, 0));
    assert_false(is_open(&f, 1));
    acquire(&f, 0, -1);
    use(&f, 2, -1);
    use(&f, 3, -1);
    assert_true(is_open(&f, 0));
    assert_false(is_open(&f, 2));
    assert_int_equal(f.n_opened[0], 1);
    sp_serve_models_release(f.models, &f.all[0]);
    assert_true(sp_serve_models_unload_idle(f.models));
    assert_false(is_open(&f, 3));
    sp_serve_models_free(f.models);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(f.n_opened[i], f.n_closed[i]);
}

/* Memory is freed by closing idle models first, then by trimming those in use, the least recently
 * used one first. */
TEST(memory_is_reclaimed)
{
    struct fixture f;

    set_up(&f, N);
    f.n_trims[0] = 1;
    f.n_trims[1] = 2;
    acquire(&f, 1, -1);
    acquire(&f, 0, -1);
    use(&f, 3, -1);
    use(&f, 2, -1);
    assert_true(sp_serve_models_reclaim(f.models));
    assert_false(is_open(&f, 3));
    assert_true(sp_serve_models_reclaim(f.models));
    assert_false(is_open(&f, 2));
    for (int i = 1; i <= 2; i++) {
        assert_true(sp_serve_models_reclaim(f.models));
        assert_int_equal(f.n_trimmed[1], i);
    }
    assert_true(sp_serve_models_reclaim(f.models));
    assert_int_equal(f.n_trimmed[0], 1);
    assert_false(sp_serve_models_reclaim(f.models));
    assert_true(is_open(&f, 0));
    assert_true(is_open(&f, 1));
    sp_serve_models_release(f.models, &f.all[0]);
    sp_serve_models_release(f.models, &f.all[1]);
    sp_serve_models_free(f.models);
}

TEST(idle_models_are_closed)
{
    struct fixture f;

    set_up(&f, N);
    use(&f, 0, 0);
    await_closed(&f, 0);
    use(&f, 1, 0.1);
    acquire(&f, 2, 0);
    await_closed(&f, 1);
    sp_serve_models_lock(f.models);
    assert_true(sp_serve_models_expires_in(&f.all[2]) == 0);
    sp_serve_models_unlock(f.models);
    assert_true(is_open(&f, 2)); /* it is in use */
    sp_serve_models_release(f.models, &f.all[2]);
    await_closed(&f, 2);
    use(&f, 3, 3600);
    use(&f, 0, -1);
    nap(0.1);
    sp_serve_models_lock(f.models);
    assert_true(sp_serve_models_expires_in(&f.all[3]) > 3500);
    assert_true(isinf(sp_serve_models_expires_in(&f.all[0])));
    sp_serve_models_unlock(f.models);
    sp_serve_models_unload(f.models, &f.all[3]);
    assert_false(is_open(&f, 3));
    acquire(&f, 0, -1);
    sp_serve_models_unload(f.models, &f.all[0]);
    assert_true(is_open(&f, 0));
    sp_serve_models_release(f.models, &f.all[0]);
    await_closed(&f, 0);
    sp_serve_models_free(f.models);
}

/* Looking at a model neither opens it nor prolongs its time. */
TEST(a_look_is_no_use)
{
    struct fixture f;

    set_up(&f, 1);
    assert_false(sp_serve_models_hold(f.models, &f.all[0]));
    do { /* on a busy machine its time may be over before it is held */
        use(&f, 0, 0.2);
    } while (!sp_serve_models_hold(f.models, &f.all[0]));
    nap(0.3);
    assert_true(is_open(&f, 0));
    sp_serve_models_let_go(f.models, &f.all[0]);
    await_closed(&f, 0);
    sp_serve_models_free(f.models);
}

TEST(failures)
{
    struct fixture f;

    set_up(&f, 1);
    f.status = SP_E_IO;
    assert_fails_as(sp_serve_models_acquire(f.models, &f.all[0], -1, NULL, why), 500,
                    "it does not open");
    assert_false(is_open(&f, 0));
    f.status = SP_E_NOMEM; /* which may pass */
    assert_fails(sp_serve_models_acquire(f.models, &f.all[0], -1, NULL, why), 503, "");
    f.status = SP_OK;
    use(&f, 1, -1); /* the place is free again */
    sp_serve_models_stop(f.models);
    assert_fails(sp_serve_models_acquire(f.models, &f.all[1], -1, NULL, why), 503, "");
    sp_serve_models_free(f.models);
}

/* A request for a model, made by another thread. */
struct request {
    struct fixture *f;
    size_t model;
    atomic_int *order; /* number of requests served */
    int place;         /* of this request among them, from 1 */
    int status;
    pthread_t thread;
    char task[64]; /* the folder of the thread in /proc */
    atomic_bool begun;
};

static void *run_request(void *context)
{
    struct request *r = context;
    struct sp_err err = {0};

    (void)!readlink("/proc/thread-self", r->task, sizeof r->task - 1);
    r->begun = true;
    r->status = sp_serve_models_acquire(r->f->models, &r->f->all[r->model], -1, NULL, &err);
    if (r->status) return NULL;
    r->place = ++*r->order;
    sp_serve_models_release(r->f->models, &r->f->all[r->model]);
    return NULL;
}

static bool is_blocked(const struct request *r)
{
    char path[128], stat[256] = "";

    snprintf(path, sizeof path, "/proc/%s/stat", r->task);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(stat, sizeof stat, f));
    fclose(f);
    return strstr(stat, ") S ") != NULL;
}

/* Begins a request that must wait. */
static void begin(struct request *r, struct fixture *f, size_t model, atomic_int *order)
{
    *r = (struct request){.f = f, .model = model, .order = order};
    assert_int_equal(pthread_create(&r->thread, NULL, run_request, r), 0);
    while (!r->begun || !is_blocked(r))
        nap(0.01);
}

/* A request whose model needs the place of one in use is served before later requests for the model
 * in use, which could otherwise keep it out for ever. */
TEST(requests_are_served_in_order)
{
    struct request other, same;
    atomic_int order = 0;
    struct fixture f;

    set_up(&f, 1);
    acquire(&f, 0, -1);
    begin(&other, &f, 1, &order);
    begin(&same, &f, 0, &order);
    assert_int_equal(order, 0);
    assert_int_equal(f.n_opened[1], 0);
    assert_fails(sp_serve_models_acquire(f.models, &f.all[0], -1, NULL, why), 503, "");
    sp_serve_models_release(f.models, &f.all[0]);
    pthread_join(other.thread, NULL);
    pthread_join(same.thread, NULL);
    assert_int_equal(other.place, 1);
    assert_int_equal(same.place, 2);
    assert_int_equal(f.n_opened[0], 2);
    acquire(&f, 0, -1);
    begin(&other, &f, 1, &order);
    sp_serve_models_stop(f.models);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.status, 503);
    sp_serve_models_release(f.models, &f.all[0]);
    sp_serve_models_free(f.models);
}
