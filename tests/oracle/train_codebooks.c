/* Train the codebooks of q4 (quantize/microscale.c) and print them:
 *
 *   cc -O3 -march=native -o train train_codebooks.c -lm && ./train
 *
 * Simulated annealing over whole entries. A state is codebooks 0 and 2 (1 and 3 are their mirror
 * images); its cost is the squared error that is left of rows of 1024 weights when every half block
 * of 16 takes the best of all scale bytes (scale b, codebook b & 3) against the row's scale as it
 * is stored. Half of the rows are Gaussian, half have the heavier tails of real matrices (Student's
 * t, 5 degrees of freedom: trained on Gaussian rows alone the codebooks gain 0.5 % there and
 * lose 1.5 % on the rows of a real model). A step moves an entry, two, or a run of them, by one;
 * entries stay ascending, within -64..64, and none is 0, which the encoder divides by.
 *
 * Runs end in different places whose errors are within 1 % of each other. Of nine the one was kept
 * that left the least error of the matrices of three real models (SmolLM2-135M, Qwen2.5-Coder-0.5B,
 * Gemma 3 270M); a run begins there. Fixed number of steps, about ten minutes; `./train SEED` takes
 * other rows and other steps. The errors printed are of rows that were not trained on. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 1024, HALF = 16, LIMIT = 64, ROWS = 128, N_HALVES = ROWS * COLS / HALF };
enum { STEPS = 7000, FRESH = 4 };

static const double LARGEST = 49 * 255; /* of a row, in units of its scale: microscale.c */
static const double HOT = 1e-3, COLD = 1e-5;

struct books {
    int entries[2][16]; /* codebooks 0 and 2 */
};

struct rows {
    float w[N_HALVES][HALF];
    double squares;
};

static uint64_t state;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double heavy(void)
{
    double chi = 0;

    for (int i = 0; i < 5; i++)
        chi += pow(gaussian(), 2);
    return gaussian() / sqrt(chi / 5);
}

/* The first n_gaussian rows Gaussian, the others heavy; all as large as LARGEST. */
static void fill(struct rows *rows, int n_gaussian)
{
    float *w = rows->w[0];

    rows->squares = 0;
    for (int r = 0; r < ROWS; r++, w += COLS) {
        float max = 0;

        for (int k = 0; k < COLS; k++) {
            w[k] = (float)(r < n_gaussian ? gaussian() : heavy());
            max = fmaxf(max, fabsf(w[k]));
        }
        for (int k = 0; k < COLS; k++) {
            w[k] *= (float)LARGEST / max;
            rows->squares += (double)w[k] * (double)w[k];
        }
    }
}

/* A codebook as the encoder sees it. */
struct book {
    float entry[16], middle[15];
};

static struct book book_of(const int *entries, bool mirrored)
{
    struct book b;

    for (int i = 0; i < 16; i++)
        b.entry[i] = (float)(mirrored ? -entries[15 - i] : entries[i]);
    for (int i = 0; i < 15; i++)
        b.middle[i] = (b.entry[i] + b.entry[i + 1]) / 2;
    return b;
}

static float error_at(const float *w, const struct book *book, float scale)
{
    float near[HALF], error[HALF], sum = 0;

    for (int k = 0; k < HALF; k++)
        near[k] = book->entry[0];
    for (int i = 0; i < 15; i++)
        for (int k = 0; k < HALF; k++)
            near[k] = w[k] > book->middle[i] * scale ? book->entry[i + 1] : near[k];
    for (int k = 0; k < HALF; k++)
        error[k] = (w[k] - scale * near[k]) * (w[k] - scale * near[k]);
    for (int k = 0; k < HALF; k++)
        sum += error[k];
    return sum;
}

/* left[i]: the least error of half block i with codebooks 2 * pair and 2 * pair + 1. Tried are the
 * scales that put its largest weight between 0.62 and 1.45 of the limit, and the next few. */
static void least_errors(float *left, const struct rows *rows, const int *entries, int pair)
{
    const struct book books[2] = {book_of(entries, false), book_of(entries, true)};

    for (int i = 0; i < N_HALVES; i++) {
        float max = 0;
        int first, last;

        for (int k = 0; k < HALF; k++)
            max = fmaxf(max, fabsf(rows->w[i][k]));
        first = (int)(max / (1.45f * LIMIT)), last = (int)(max / (0.62f * LIMIT)) + 4;
        left[i] = INFINITY;
        for (int b = first < 1 ? 1 : first; b <= last && b <= 255; b++)
            if ((b & 3) / 2 == pair)
                left[i] = fminf(left[i], error_at(rows->w[i], &books[b & 1], (float)b));
    }
}

static double total(const float *a, const float *b)
{
    double sum = 0;

    for (int i = 0; i < N_HALVES; i++)
        sum += (double)fminf(a[i], b[i]);
    return sum;
}

static void step(int *entries)
{
    int i = (int)(uniform() * 16), j = (int)(uniform() * 16), by = uniform() < 0.5 ? -1 : 1;
    double kind = uniform();

    entries[i] += by;
    if (kind < 0.6) return;
    if (kind < 0.85) {
        entries[j] += uniform() < 0.5 ? -1 : 1;
        return;
    }
    for (int n = i < j ? i + 1 : j; n < (i < j ? j + 1 : i); n++)
        entries[n] += by;
}

static bool allowed(const int *entries)
{
    for (int i = 0; i < 16; i++) {
        if (entries[i] == 0 || abs(entries[i]) > LIMIT) return false;
        if (i > 0 && entries[i] <= entries[i - 1]) return false;
    }
    return true;
}

static struct books anneal(const struct rows *rows)
{
    struct books now = {{{-64, -46, -37, -29, -22, -16, -10, -4, 1, 6, 12, 18, 24, 31, 39, 48},
                         {-57, -48, -38, -29, -22, -16, -11, -6, -1, 3, 7, 12, 17, 23, 30, 42}}};
    struct books best = now;
    static float left[3][N_HALVES];
    float *kept[2] = {left[0], left[1]}, *tried = left[2];
    double cost, least;

    least_errors(kept[0], rows, now.entries[0], 0);
    least_errors(kept[1], rows, now.entries[1], 1);
    cost = least = total(kept[0], kept[1]);
    for (int n = 0; n < STEPS;) {
        double heat = cost * HOT * pow(COLD / HOT, (double)n / STEPS), new;
        int pair = uniform() < 0.5, entries[16];

        memcpy(entries, now.entries[pair], sizeof entries);
        step(entries);
        if (!allowed(entries)) continue;
        n++;
        least_errors(tried, rows, entries, pair);
        new = total(tried, kept[!pair]);
        if (new > cost && uniform() > exp((cost - new) / heat)) continue;
        float *old = kept[pair];
        kept[pair] = tried;
        tried = old;
        memcpy(now.entries[pair], entries, sizeof entries);
        cost = new;
        if (cost < least) {
            least = cost;
            best = now;
        }
    }
    return best;
}

/* Mean over FRESH sets of rows. */
static double relative_rms(struct books books, int n_gaussian)
{
    static struct rows rows;
    static float left[2][N_HALVES];
    double sum = 0;

    for (int i = 0; i < FRESH; i++) {
        fill(&rows, n_gaussian);
        least_errors(left[0], &rows, books.entries[0], 0);
        least_errors(left[1], &rows, books.entries[1], 1);
        sum += sqrt(total(left[0], left[1]) / rows.squares);
    }
    return sum / FRESH;
}

int main(int argc, char **argv)
{
    static struct rows rows;
    struct books books;

    state = 20240607 + (argc > 1 ? strtoull(argv[1], NULL, 10) : 0);
    fill(&rows, ROWS / 2);
    books = anneal(&rows);
    for (int t = 0; t < 4; t++) {
        const struct book book = book_of(books.entries[t / 2], t % 2);

        printf("   ");
        for (int i = 0; i < 16; i++)
            printf(" %d,", (int)book.entry[i]);
        printf("\n");
    }
    state = 1;
    printf("relative rms error of fresh rows: %.5f Gaussian, ", relative_rms(books, ROWS));
    printf("%.5f heavy-tailed\n", relative_rms(books, 0));
    return 0;
}
