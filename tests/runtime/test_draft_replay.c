/* Replays the draft length controller on recorded proposals of real pairs of models
 * (testdata/drafting, written by tests/bench/record_drafts.c). A record states for every position
 * of a response how many draft tokens would be accepted, and the draft's confidence in each. Times
 * are drawn from measured costs with a noisy clock. The measure is the regret against the best
 * fixed draft length in hindsight, which no controller can know. */
#include "runtime/speculate/draft_length.h"
#include "format/base/file.h"
#include "runtime/vector/rng.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { LENGTH = 15, MAX_PROMPTS = 16, MAX_TOKENS = 256, N_SEEDS = 12, AUTO = -1 };

struct position {
    unsigned char n_right, n;
    double confidence[LENGTH];
};

/* n_prompt: tokens that the draft reads before its first proposal; 0: not recorded */
struct answer {
    size_t n, n_prompt;
    struct position at[MAX_TOKENS];
};

struct record {
    bool stepwise;
    double draft;              /* seconds of a draft token, or of a block */
    double reading;            /* seconds that the draft takes for a token of a prompt */
    double verify[LENGTH + 1]; /* [i]: seconds of a pass with i draft tokens */
    size_t n_answers;
    struct answer answers[MAX_PROMPTS];
};

/* Disturbances of the clock: noise alone; another process that takes half of the machine in every
 * other stretch of 50 plain steps; a draft whose first pass reads its weights from the disk. */
enum disturbance { NOISE, NEIGHBOUR, COLD_FILE };

struct clock {
    uint64_t seed, n;
    double seconds, plain;
    enum disturbance by;
};

static unsigned digits(const char *text, size_t n)
{
    char copy[3] = {0};

    memcpy(copy, text, n);
    return (unsigned)strtoul(copy, NULL, 16);
}

static void read_position(struct position *p, const char *line)
{
    p->n_right = (unsigned char)digits(line, 1);
    for (line++; p->n < LENGTH && line[0] && line[1] && line[0] != '\n'; line += 2)
        p->confidence[p->n++] = 1 / (1 + exp((128 - (double)digits(line, 2)) / 8));
}

static void read_costs(struct record *r, const char *line)
{
    char *end;

    r->stepwise = strncmp(line, "stepwise", 8) == 0;
    r->draft = strtod(strchr(line, ' '), &end);
    for (size_t i = 0; i <= LENGTH; i++)
        r->verify[i] = strtod(end, &end);
    assert_true(r->verify[LENGTH] > 0);
    r->reading = strtod(end, NULL);
}

static struct record *read_record(const char *name)
{
    char path[256], *line, *next;
    struct sp_text text;
    struct record *r = calloc(1, sizeof *r);

    assert_non_null(r);
    snprintf(path, sizeof path, "%s/drafting/%s.txt", TESTDATA, name);
    assert_ok(sp_file_read_text(&text, path, 1 << 20, why));
    for (line = text.at; *line; line = next) {
        struct answer *a = &r->answers[r->n_answers ? r->n_answers - 1 : 0];
        next = strchr(line, '\n') + 1;
        if (line[0] == '#') continue;
        if (strncmp(line, "prompt", 6) == 0) {
            assert_true(r->n_answers < MAX_PROMPTS);
            (void)sscanf(line, "prompt %*u %zu", &r->answers[r->n_answers++].n_prompt);
        } else if (r->n_answers == 0) {
            read_costs(r, line);
        } else {
            assert_true(a->n < MAX_TOKENS);
            read_position(&a->at[a->n++], line);
        }
    }
    free(text.at);
    return r;
}

static double uniform(struct clock *c)
{
    return sp_rng_uniform(c->seed, c->n++);
}

/* Advances the clock by about this many seconds, and returns the measured time. */
static double pass(struct clock *c, double seconds)
{
    double normal = uniform(c) + uniform(c) + uniform(c) - 1.5;

    seconds *= exp(.16 * normal);
    if (uniform(c) < .02) seconds *= 3;
    if (c->by == NEIGHBOUR && fmod(c->seconds, 100 * c->plain) > 50 * c->plain) seconds *= 2;
    c->seconds += seconds;
    return seconds;
}

/* Plays one round at a position of the response, and returns the number of emitted tokens. */
static size_t play(struct sp_draft_length *d, const struct record *r, const struct position *p,
                   int length, struct clock *c, struct sp_draft_outlook *outlook)
{
    struct sp_round round = {0};
    bool more = true;

    round.asked = length == AUTO ? sp_draft_length_choose(d, p->n, outlook) : (size_t)length;
    if (round.asked > p->n) round.asked = p->n;
    if (round.asked && outlook->n_unread > 0) {
        round.n_caught_up = outlook->n_unread;
        round.catch_up_seconds = pass(c, r->reading * (double)outlook->n_unread);
    }
    if (round.asked && !r->stepwise) round.draft_seconds = pass(c, r->draft);
    while (more && round.made < round.asked) {
        if (r->stepwise) round.draft_seconds += pass(c, r->draft);
        if (length == AUTO) more = sp_draft_length_consider(d, p->confidence[round.made]);
        round.made++;
    }
    if (c->by == COLD_FILE && round.made) {
        round.draft_seconds *=
            20; /* does not count, since every draft length reads the weights once */
        c->by = NOISE;
    }
    round.drafted = length == AUTO && round.asked ? d->n_verify : round.made;
    round.accepted = p->n_right < round.drafted ? p->n_right : round.drafted;
    round.emitted = round.accepted + 1;
    round.verify_seconds = pass(c, r->verify[round.drafted]);
    round.draft_cost = round.draft_seconds;
    round.pass = d->pass + 1;
    sp_draft_length_record(d, &round);
    outlook->n_unread = round.asked || r->reading <= 0 ? 0 : outlook->n_unread + 1;
    outlook->n_written += round.emitted;
    return round.emitted;
}

/* Returns the tokens per second of one response with a new controller, averaged over several
 * clocks. */
static double speed(const struct record *r, const struct answer *a, int length, enum disturbance by)
{
    double sum = 0;

    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        struct clock c = {.seed = seed, .plain = r->verify[0], .by = by};
        struct sp_draft_outlook outlook = {
            .n_unread = a->n_prompt, .n_left = SIZE_MAX, .row_seconds = r->reading};
        struct sp_drafting_controller batch;
        struct sp_draft_length d;
        size_t pos = 0;
        sp_drafting_controller_init(&batch, r->stepwise ? 32 : LENGTH, r->stepwise);
        sp_draft_length_init(&d, &batch);
        while (pos < a->n - 1) {
            struct position at = a->at[pos];
            size_t left = a->n - 1 - pos; /* nothing is drafted after the end */
            if (at.n > left) at.n = (unsigned char)left;
            pos += play(&d, r, &at, length, &c, &outlook);
        }
        sum += (double)pos / c.seconds;
    }
    return sum / (double)N_SEEDS;
}

struct bound {
    size_t shortest;           /* tokens of the shortest response that counts */
    double least, mean, plain; /* relative to the best fixed length: smallest and mean value of all
                                  responses; relative to plain decoding */
};

/* Short responses end before the controller has learned anything. */
static void check(const char *name, enum disturbance by, const struct bound *bound)
{
    struct record *r = read_record(name);
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < r->n_answers; i++) {
        const struct answer *a = &r->answers[i];
        double plain = speed(r, a, 0, by), best = plain, chosen;
        if (a->n < bound->shortest) continue;
        for (int length = 1; length <= LENGTH; length++)
            best = fmax(best, speed(r, a, length, by));
        chosen = speed(r, a, AUTO, by);
        print_message("%s %zu: %.3f of the best fixed length, %.2f of plain\n", name, i,
                      chosen / best, chosen / plain);
        assert_true(chosen > bound->least * best);
        assert_true(chosen > bound->plain * plain);
        sum += chosen / best;
        n++;
    }
    print_message("%s: mean %.3f\n", name, sum / (double)n);
    assert_true(sum > bound->mean * (double)n);
    free(r);
}

static const struct bound quiet = {.shortest = 64, .least = .94, .mean = .98, .plain = .98};
/* The least is that of a response of 124 tokens of which all draft tokens are right, which the
 * draft does not know. */
static const struct bound block = {.shortest = 64, .least = .84, .mean = .98, .plain = .98};
static const struct bound busy = {.shortest = 64, .least = .9, .mean = .97, .plain = .95};

/* Answers of 9 to 27 tokens, before which the draft reads prompts of 39 to 54. */
TEST(short_answers)
{
    static const struct bound bound = {.shortest = 1, .least = .95, .mean = .98, .plain = .95};

    check("qwen_short", NOISE, &bound);
}

TEST(qwen_q4)
{
    check("qwen_q4", NOISE, &quiet);
    check("qwen_q4", NEIGHBOUR, &busy);
    check("qwen_q4", COLD_FILE, &quiet);
}

TEST(qwen_q8)
{
    check("qwen_q8", NOISE, &quiet);
    check("qwen_q8", NEIGHBOUR, &busy);
}

TEST(smol)
{
    check("smol", NOISE, &quiet);
    check("smol", NEIGHBOUR, &busy);
}

/* A block draft pays for the whole block; the controller decides how much of it is verified. */
TEST(trained_dflash)
{
    check("trained_dflash", NOISE, &block);
    check("trained_dflash", NEIGHBOUR, &block);
}

TEST(trained_lm)
{
    check("trained_lm", NOISE, &block);
    check("trained_lm", NEIGHBOUR, &block);
}

/* ---- several sequences ---- */

enum { MOST_SEQUENCES = 8, TOKENS_EACH = 300 };

/* Sequences that are decoded in one batch, each with its own place in the recorded responses. */
struct batch {
    size_t n, pass;
    struct sp_drafting_controller common;
    struct sp_draft_length lengths[MOST_SEQUENCES];
    size_t answer[MOST_SEQUENCES], pos[MOST_SEQUENCES];
    struct sp_round rounds[MOST_SEQUENCES];
};

/* Seconds of a pass with this many rows beyond the first; the record ends at LENGTH. */
static double verify_rows(const struct record *r, size_t rows)
{
    double slope = (r->verify[LENGTH] - r->verify[LENGTH - 4]) / 4;

    if (rows <= LENGTH) return r->verify[rows];
    return r->verify[LENGTH] + slope * (double)(rows - LENGTH);
}

/* The next position of sequence i, in the next response where one has ended. */
static const struct position *next_position(struct batch *b, const struct record *r, size_t i)
{
    while (b->pos[i] >= r->answers[b->answer[i]].n) {
        b->answer[i] = (b->answer[i] + 1) % r->n_answers;
        b->pos[i] = 0;
    }
    return &r->answers[b->answer[i]].at[b->pos[i]];
}

/* Makes the proposal of sequence i. */
static void propose(struct batch *b, const struct position *p, size_t i, int length)
{
    struct sp_round *round = &b->rounds[i];
    bool more = true;

    *round = (struct sp_round){.n_others = b->n - 1};
    round->asked =
        length == AUTO ? sp_draft_length_choose(&b->lengths[i], p->n, NULL) : (size_t)length;
    if (round->asked > p->n) round->asked = p->n;
    for (; more && round->made < round->asked; round->made++)
        if (length == AUTO)
            more = sp_draft_length_consider(&b->lengths[i], p->confidence[round->made]);
    round->drafted = length == AUTO && round->asked ? b->lengths[i].n_verify : round->made;
    round->accepted = p->n_right < round->drafted ? p->n_right : round->drafted;
    round->emitted = round->accepted + 1;
}

/* Charges the passes of the draft, each of which all sequences share that get so far; a further
 * sequence adds a tenth to a pass. */
static void charge_drafting(struct batch *b, const struct record *r, struct clock *c)
{
    for (size_t step = 1; step <= LENGTH; step++) {
        size_t n = 0;
        double seconds;
        for (size_t i = 0; i < b->n; i++)
            n += b->rounds[i].made >= step;
        if (n == 0) return;
        seconds = pass(c, r->draft * (1 + .1 * (double)(n - 1)));
        for (size_t i = 0; i < b->n; i++) {
            if (b->rounds[i].made < step) continue;
            b->rounds[i].draft_seconds += seconds;
            b->rounds[i].draft_cost += seconds / (double)n;
        }
    }
}

/* One round of all sequences; returns the tokens that it emits. As in the scheduler, a sequence
 * records its pass and proposes for the next one before another sequence runs. */
static size_t play_batch(struct batch *b, const struct record *r, int length, struct clock *c)
{
    size_t rows = 0, emitted = 0;
    double verify;

    for (size_t i = 0; i < b->n; i++) {
        if (b->pass > 0) sp_draft_length_record(&b->lengths[i], &b->rounds[i]);
        propose(b, next_position(b, r, i), i, length);
        rows += 1 + b->rounds[i].drafted;
    }
    charge_drafting(b, r, c);
    verify = pass(c, verify_rows(r, rows - 1));
    b->pass++;
    for (size_t i = 0; i < b->n; i++) {
        struct sp_round *round = &b->rounds[i];
        round->pass = b->pass;
        round->verify_seconds = verify;
        round->other_rows = rows - 1 - round->drafted;
        b->pos[i] += round->emitted;
        emitted += round->emitted;
    }
    return emitted;
}

/* Tokens a second of n sequences, averaged over several clocks. */
static double batch_speed(const struct record *r, size_t n, int length)
{
    double sum = 0;

    for (uint64_t seed = 0; seed < N_SEEDS / 2; seed++) {
        struct clock c = {.seed = seed, .plain = r->verify[0]};
        struct batch b = {.n = n};
        size_t emitted = 0;
        sp_drafting_controller_init(&b.common, 32, r->stepwise);
        for (size_t i = 0; i < n; i++) {
            sp_draft_length_init(&b.lengths[i], &b.common);
            b.answer[i] = 3 * i % r->n_answers;
        }
        while (emitted < n * TOKENS_EACH)
            emitted += play_batch(&b, r, length, &c);
        sum += (double)emitted / c.seconds;
    }
    return sum / (N_SEEDS / 2);
}

TEST(several_sequences)
{
    static const char *const names[] = {"qwen_q4", "qwen_q8", "smol"};
    double sum = 0;

    for (size_t k = 0; k < 3; k++) {
        struct record *r = read_record(names[k]);
        for (size_t n = 2; n <= MOST_SEQUENCES; n *= 2) {
            double best = 0, chosen = batch_speed(r, n, AUTO);
            for (int length = 0; length <= 6; length++)
                best = fmax(best, batch_speed(r, n, length));
            print_message("%s, %zu sequences: %.3f of the best fixed length\n", names[k], n,
                          chosen / best);
            assert_true(chosen > .93 * best);
            sum += chosen / best;
        }
        free(r);
    }
    print_message("several sequences: mean %.3f\n", sum / 9);
    assert_true(sum > .97 * 9);
}
