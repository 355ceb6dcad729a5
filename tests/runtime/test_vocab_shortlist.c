/* Tests the logits of a shortlist against those of the whole head: tokens that are listed have the
 * same logits, bit for bit, and all others none. */
#include "runtime/backend/logits.h"
#include "runtime/model/workspace.h"
#include "tests/support/unit_test.h"

enum { ROWS = 70007, LD = (ROWS + 63) / 64 * 64, N = 3 };

struct fixture {
    struct sp_backend backend;
    struct sp_acts acts;
    float *weights; /* [ROWS], padded to panels: one column */
    struct sp_matrix head;
    struct sp_vocab_shortlist *list;
    float *whole, *y;       /* [N][LD] */
    bool *listed;           /* [ROWS] expected */
    struct sp_arena memory; /* of the list */
};

static void open_fixture(struct fixture *f)
{
    size_t n_panels = (ROWS + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    struct sp_product product = {.w = &f->head, .ldy = LD};

    memset(f, 0, sizeof *f);
    assert_ok(sp_backend_init(&f->backend, NULL, 2, why));
    assert_ok(sp_acts_init(&f->acts, N, 1, why));
    f->weights = calloc(n_panels, 64);
    f->whole = aligned_alloc(64, N * LD * sizeof *f->whole);
    f->y = aligned_alloc(64, N * LD * sizeof *f->y);
    f->listed = calloc(ROWS, sizeof *f->listed);
    assert_true(f->weights && f->whole && f->y && f->listed);
    for (size_t i = 0; i < ROWS; i++)
        f->weights[i] = (float)i - 30000.5f;
    for (size_t i = 0; i < SP_SHORTLIST_FREQUENT; i++)
        f->listed[i] = true;
    for (size_t t = 0; t < N; t++)
        f->acts.x[t * f->acts.ld] = (float)(t + 1);
    f->head = (struct sp_matrix){SP_F32, ROWS, 1, n_panels, 64, (const uint8_t *)f->weights};
    product.y = f->whole;
    sp_backend_multiply(&f->backend, &product, 1, &f->acts, N);
    f->list = sp_vocab_shortlist_new(&f->memory, &f->head);
    assert_non_null(f->list);
}

static void close_fixture(struct fixture *f)
{
    sp_arena_release(&f->memory);
    sp_acts_release(&f->acts);
    sp_backend_release(&f->backend);
    free(f->weights);
    free(f->whole);
    free(f->y);
    free(f->listed);
}

static void expect_panel(struct fixture *f, uint32_t id, bool listed)
{
    for (size_t i = id / 16 * 16; i < id / 16 * 16 + 16 && i < ROWS; i++)
        f->listed[i] = listed;
}

static void add(struct fixture *f, uint32_t id)
{
    sp_vocab_shortlist_add(f->list, &id, 1);
    expect_panel(f, id, true);
}

static void add_frequent(struct fixture *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(f, 7);
}

static void check(struct fixture *f, size_t n_products)
{
    struct sp_product products[2] = {{.w = &f->head, .y = f->y, .ldy = LD}};

    assert_int_equal(sp_vocab_shortlist_products(f->list, products), n_products);
    for (size_t i = 0; i < N * LD; i++)
        f->y[i] = 12345;
    sp_backend_multiply(&f->backend, products, n_products, &f->acts, N);
    for (size_t t = 0; t < N; t++) {
        size_t n_wrong = 0;
        const float *logits = f->y + t * LD;
        sp_vocab_shortlist_spread(f->list, f->y + t * LD);
        for (size_t i = 0; i < ROWS; i++)
            n_wrong += logits[i] != (f->listed[i] ? f->whole[t * LD + i] : SP_NEVER);
        assert_int_equal(n_wrong, 0);
    }
}

TEST(frequent_and_recent_tokens_are_scored)
{
    struct fixture f;

    open_fixture(&f);
    check(&f, 1);
    add_frequent(&f, 40);
    add(&f, SP_SHORTLIST_FREQUENT);
    add(&f, 50001);
    add(&f, 50002); /* of the same panel */
    check(&f, 2);
    add_frequent(&f, 40);
    add(&f, ROWS - 1); /* of a panel that the head fills in part */
    check(&f, 2);
    close_fixture(&f);
}

TEST(a_text_of_rare_tokens_gets_the_whole_head)
{
    struct sp_product products[2] = {{0}};
    struct fixture f;

    open_fixture(&f);
    for (uint32_t i = 0; i < 8; i++)
        add(&f, 40000 + 100 * i);
    assert_int_equal(sp_vocab_shortlist_products(f.list, products), 0);
    add_frequent(&f, 60);
    check(&f, 2);
    add(&f, 40000); /* is not rare any more */
    check(&f, 2);
    close_fixture(&f);
}

TEST(the_oldest_panel_makes_way)
{
    struct fixture f;

    open_fixture(&f);
    for (uint32_t i = 0; i < SP_SHORTLIST_RECENT; i++)
        add(&f, 40000 + 16 * i);
    add_frequent(&f, 200);
    check(&f, 2);
    add(&f, 60000);
    add_frequent(&f, 40);
    expect_panel(&f, 40000, false);
    check(&f, 2);
    add(&f, 40000);
    add_frequent(&f, 40);
    expect_panel(&f, 40016, false);
    check(&f, 2);
    close_fixture(&f);
}

TEST(ids_without_a_row_are_ignored)
{
    struct fixture f;

    open_fixture(&f);
    add_frequent(&f, 20);
    sp_vocab_shortlist_add(f.list, (const uint32_t[]){ROWS + 100, UINT32_MAX}, 2);
    check(&f, 1);
    close_fixture(&f);
}

TEST(small_heads_have_no_shortlist)
{
    struct sp_matrix head = {SP_F32, 2 * SP_SHORTLIST_FREQUENT - 1, 1, 4096, 64, NULL};
    struct sp_arena memory = {0};

    assert_null(sp_vocab_shortlist_new(&memory, &head));
    assert_ok(sp_arena_check(&memory, NULL));
}
