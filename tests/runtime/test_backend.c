/* Tests the largest element of each row, found range by range during a product, against a scan of
 * the finished rows, and the products of groups of rows with matrices of a stack against sums. A
 * product of one column of weights with activations of 1 allows free choice of the result's
 * elements. */
#include "runtime/backend/backend.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { ROWS = 40003, LD = (ROWS + 63) / 64 * 64, N = 5 };

struct fixture {
    struct sp_backend backend;
    struct sp_acts acts;
    float *weights; /* [ROWS], padded to panels: one column */
    struct sp_matrix w;
    float *y; /* [N][LD] */
    atomic_uint_least64_t best[N];
};

static void open_fixture(struct fixture *f, unsigned n_threads)
{
    size_t n_panels = (ROWS + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;

    memset(f, 0, sizeof *f);
    assert_ok(sp_backend_init(&f->backend, NULL, n_threads, why));
    assert_ok(sp_acts_init(&f->acts, N, 1, why));
    f->weights = calloc(n_panels, 64);
    f->y = aligned_alloc(64, N * LD * sizeof *f->y);
    assert_non_null(f->weights);
    assert_non_null(f->y);
    f->w = (struct sp_matrix){SP_F32, ROWS, 1, n_panels, 64, (const uint8_t *)f->weights};
}

static void close_fixture(struct fixture *f)
{
    sp_acts_release(&f->acts);
    sp_backend_release(&f->backend);
    free(f->weights);
    free(f->y);
}

/* Row t of the product is the weights times factor(t). */
static float factor(size_t t)
{
    return (float)(t + 1);
}

static void multiply(struct fixture *f, float scale, float cap)
{
    struct sp_epilogue epilogue = {.scale = scale, .cap = cap, .argmax = f->best};
    struct sp_product product = {.w = &f->w, .y = f->y, .ldy = LD, .epilogue = &epilogue};

    for (size_t t = 0; t < N; t++)
        f->acts.x[t * f->acts.ld] = factor(t);
    sp_backend_multiply(&f->backend, &product, 1, &f->acts, N);
}

/* Returns the index of the largest element by a scan. */
static size_t find_best(const float *y)
{
    size_t best = 0;

    for (size_t i = 0; i < ROWS; i++) {
        if (!isfinite(y[i])) return SIZE_MAX;
        if (y[i] > y[best]) best = i;
    }
    return best;
}

static void check(struct fixture *f, float scale, float cap)
{
    const struct sp_vector *vector = f->backend.vector;
    float *whole = aligned_alloc(64, LD * sizeof *whole);
    size_t n_wrong = 0;

    assert_non_null(whole);
    multiply(f, scale, cap);
    for (size_t t = 0; t < N; t++) {
        const float *y = f->y + t * LD;
        for (size_t i = 0; i < ROWS; i++)
            whole[i] = f->weights[i] * factor(t) * scale;
        if (cap != 0) vector->softcap(whole, cap, ROWS);
        for (size_t i = 0; i < ROWS; i++)
            n_wrong += isfinite(whole[i]) && y[i] != whole[i];
        assert_int_equal(n_wrong, 0);
        assert_int_equal(sp_argmax_index(f->best[t]), find_best(whole));
    }
    free(whole);
}

static void fill(struct fixture *f, unsigned seed)
{
    srand(seed);
    for (size_t i = 0; i < ROWS; i++)
        f->weights[i] = (float)(rand() % 20001 - 10000) / 4096;
}

/* If several elements equal the largest, the lowest index wins, whichever thread finds it. */
TEST(lowest_index_wins)
{
    for (unsigned n_threads = 1; n_threads <= 4; n_threads++) {
        struct fixture f;
        open_fixture(&f, n_threads);
        for (unsigned seed = 0; seed < 8; seed++) {
            fill(&f, seed);
            check(&f, 1, 0);
            check(&f, -0.5f, 0);
        }
        for (size_t i = 0; i < ROWS; i++)
            f.weights[i] = -1.5f;
        check(&f, 1, 0);
        assert_int_equal(sp_argmax_index(f.best[0]), 0);
        f.weights[ROWS - 1] = 1;
        check(&f, 1, 0);
        assert_int_equal(sp_argmax_index(f.best[N - 1]), ROWS - 1);
        close_fixture(&f);
    }
}

/* Elements scaled to zeros of both signs are equal. */
TEST(zeros_of_both_signs_are_equal)
{
    struct fixture f;

    open_fixture(&f, 2);
    for (size_t i = 0; i < ROWS; i++)
        f.weights[i] = -1e30f;
    f.weights[100] = -1e-38f;
    f.weights[39000] = 1e-38f;
    check(&f, 1e-20f, 0);
    assert_true(signbit(f.y[100]) && !signbit(f.y[39000]) && f.y[100] == 0 && f.y[39000] == 0);
    assert_int_equal(sp_argmax_index(f.best[0]), 100);
    close_fixture(&f);
}

/* A soft cap makes different large elements equal. */
TEST(capped_elements_are_equal)
{
    struct fixture f;

    open_fixture(&f, 3);
    fill(&f, 1);
    f.weights[30000] = 3000;
    f.weights[20000] = 2999;
    check(&f, 1, 30);
    assert_int_equal(sp_argmax_index(f.best[0]), 20000);
    check(&f, 0.25f, 2);
    close_fixture(&f);
}

TEST(non_finite_elements)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t places[] = {0, 17, 25000, ROWS - 1};

    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct fixture f;
            open_fixture(&f, 2);
            fill(&f, 3);
            f.weights[places[k]] = bad[i];
            check(&f, 1, 0);
            assert_true(sp_argmax_index(f.best[1]) == SIZE_MAX);
            close_fixture(&f);
        }
    }
}

/* ---- groups ---- */

enum { STACK = 5, OUT = 40, PANELS = 3, COLS = 3, PLACES = 9, GROUP_LD = 64 };

struct stack {
    float weights[STACK][PANELS][COLS][SP_PANEL_ROWS];
    float bias[STACK * OUT];
    struct sp_matrix w;
    float y[PLACES][GROUP_LD];
};

/* Returns small whole numbers, whose sums are exact in any order. */
static float weight(size_t which, size_t matrix, size_t row, size_t col)
{
    return (float)((which * 5 + matrix * 7 + row * 3 + col * 11) % 13) - 6;
}

static void open_stack(struct stack *s, size_t which)
{
    memset(s, 0, sizeof *s);
    for (size_t m = 0; m < STACK; m++) {
        for (size_t row = 0; row < OUT; row++) {
            s->bias[m * OUT + row] = (float)(m * 100 + row);
            for (size_t k = 0; k < COLS; k++) {
                s->weights[m][row / SP_PANEL_ROWS][k][row % SP_PANEL_ROWS] =
                    weight(which, m, row, k);
            }
        }
    }
    s->w = (struct sp_matrix){
        SP_F32, OUT, COLS, PANELS, sizeof s->weights[0][0], (const uint8_t *)s->weights};
}

static float product_of(size_t which, size_t matrix, size_t row, const float *x)
{
    float sum = (float)(matrix * 100 + row);

    for (size_t k = 0; k < COLS; k++)
        sum += weight(which, matrix, row, k) * x[k];
    return sum;
}

/* The activation of gpt-oss: (clamp(up) + 1) gate sigmoid(1.702 gate), with gate at most 7. */
static double gated(double gate, double up)
{
    if (gate > 7) gate = 7;
    if (up > 7) up = 7;
    if (up < -7) up = -7;
    return (up + 1) * gate / (1 + exp(-1.702 * gate));
}

static void check_groups(const struct sp_backend *backend, struct sp_acts *acts,
                         struct stack stacks[3], const struct sp_row_group *groups, size_t n)
{
    struct sp_product products[3];

    for (size_t i = 0; i < 3; i++) {
        for (size_t t = 0; t < PLACES; t++)
            for (size_t j = 0; j < GROUP_LD; j++)
                stacks[i].y[t][j] = -1234;
        products[i] = (struct sp_product){
            .w = &stacks[i].w, .bias = stacks[i].bias, .y = stacks[i].y[0], .ldy = GROUP_LD};
    }
    products[1].gated = true;
    products[1].activation = SP_SWIGLU_CLAMPED;
    products[1].limit = 7;
    sp_backend_multiply_groups(backend, products, 3, acts, PLACES, groups, n);
    for (size_t g = 0; g < n; g++) {
        for (size_t t = 0; t < groups[g].n; t++) {
            const float *x = acts->x + (groups[g].from + t) * acts->ld;
            size_t m = groups[g].matrix, to = groups[g].to + t;
            for (size_t row = 0; row < OUT; row++) {
                double gate = product_of(1, m, row, x), up = product_of(2, m, row, x);
                assert_true(stacks[0].y[to][row] == product_of(0, m, row, x));
                assert_true(fabs(stacks[1].y[to][row] - gated(gate, up)) < 1e-4);
            }
        }
    }
}

TEST(groups_of_rows)
{
    static const struct sp_row_group by_matrix[] = {
        {0, 0, 0, 1}, {2, 1, 1, 3}, {3, 4, 4, 2}, {4, 6, 6, 3}};
    static const struct sp_row_group one_row[] = {{1, 4, 0, 1}, {2, 4, 1, 1}, {4, 4, 2, 1}};
    static const struct sp_row_group elsewhere[] = {{3, 5, 2, 4}, {0, 0, 7, 2}};
    static struct stack stacks[3];

    for (size_t i = 0; i < 3; i++)
        open_stack(&stacks[i], i);
    for (unsigned n_threads = 1; n_threads <= 3; n_threads++) {
        struct sp_backend backend = {0};
        struct sp_acts acts = {0};
        assert_ok(sp_backend_init(&backend, NULL, n_threads, why));
        assert_ok(sp_acts_init(&acts, PLACES, COLS, why));
        for (size_t t = 0; t < PLACES; t++)
            for (size_t k = 0; k < COLS; k++)
                acts.x[t * acts.ld + k] = (float)((t * 5 + k * 3) % 7) - 3;
        check_groups(&backend, &acts, stacks, by_matrix, 4);
        check_groups(&backend, &acts, stacks, one_row, 3);
        check_groups(&backend, &acts, stacks, elsewhere, 2);
        assert_true(stacks[0].y[0][0] == -1234 && stacks[0].y[6][OUT - 1] == -1234);
        sp_acts_release(&acts);
        sp_backend_release(&backend);
    }
}
