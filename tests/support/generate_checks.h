/* Opens packed files, generates from them with and without a draft, and compares the results.
 * Every failure fails the test. */
#ifndef SP_TESTS_SUPPORT_GENERATE_CHECKS_H
#define SP_TESTS_SUPPORT_GENERATE_CHECKS_H

#include "runtime/spectool.h"

struct sp_kernels;

/* Whether a few draft lengths and numbers of rows suffice: neither memory errors nor the compiler
 * depend on them. */
#ifdef SP_FEW_LENGTHS
enum { FEW_LENGTHS = 1 };
#else
enum { FEW_LENGTHS = 0 };
#endif
/* Whether only races are looked for (ThreadSanitizer). */
#ifdef SP_RACES_ONLY
enum { RACES_ONLY = 1 };
#else
enum { RACES_ONLY = 0 };
#endif

/* Open a packed file and a session, and generate. All is kept (keep.h): closed or released when the
 * test ends. */
struct sp_package *keep_package(const char *path, const struct sp_package_options *options);
/* The same with these kernels, NULL: the best, and threads, 0: the default. */
struct sp_package *keep_package_with(const char *path, const char *kernels, unsigned n_threads);
struct sp_session *keep_session(struct sp_package *package,
                                const struct sp_session_options *options);
struct sp_session *keep_shared_session(const struct sp_session *shared_with);
/* The first members of a request. */
#define ANSWER_TO(ids, n, max)                                                                     \
    .size = sizeof(struct sp_request), .prompt = (ids), .n_prompt = (n), .max_tokens = (max)
struct sp_result keep_answer(struct sp_session *session, const struct sp_request *request);

/* Return the logits of sp_session_logits and sp_session_draft_logits; kept. */
struct logit_rows {
    float *values; /* [n][width] */
    size_t n, width;
};
struct logit_rows keep_logits(struct sp_session *session, const uint32_t *ids, size_t n);
struct logit_rows keep_draft_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                    size_t n_steps);

/* Writes pseudo-random token ids below n_vocab. */
void generate_ids(uint32_t *ids, size_t n, uint32_t seed, size_t n_vocab);

struct generate_fixture {
    struct sp_package *package;
    struct sp_session *session;
};

/* kernels: name of the kernel set; NULL: the best one. One thread reads the mapped file and
 * several threads read a copy; both must give the same results. Kept. */
struct generate_fixture generate_open(const char *path, const char *kernels, unsigned n_threads,
                                      const struct sp_session_options *options);

/* Chooses one thread or two for a run in nested loops. `place` is the sum of the run's indices in
 * all lists (kernel sets, draft lengths, seeds), so neighbors in a list get different counts and
 * every element is tested with both, in half the runs. The omitted combinations add nothing: a
 * kernel set sees only the rows and panels of a call, test_kernels tests each number of rows with
 * every set, and a pool distributes panels independently of the set. */
unsigned generate_threads(size_t place);

/* The kernel set of what is compared with all others: the scalar one; with sanitizers, which make
 * it slow, NULL, the best one. */
extern const char *const generate_reference;
/* Whether whole models are tested with this kernel set: if this CPU can run it, and with sanitizers
 * if it is the best one. There test_kernels, test_vector, test_attention and their like call every
 * function of every set with all types and shapes, and a model calls no other. */
bool generate_tests_set(const struct sp_kernels *kernels);

enum { PLAIN = -2 }; /* as a draft length: no draft */

/* Generates max_tokens tokens, or fewer if the end of the text counts, with a digest of the
 * logits. Kept. */
struct sp_result generate_run(struct sp_session *session, const uint32_t *prompt, size_t n,
                              size_t max_tokens, int draft_len, bool ignore_eos);

/* Fails the test unless ids, text, finish reason and the bits of the logits are equal. */
void generate_assert_same(const struct sp_result *a, const struct sp_result *b);

/* Fails the test unless both sessions propose the same after ids[0..n-1] and the anchor ids[n]:
 * n_steps rows of `width` logits, compared bit by bit. */
void generate_assert_same_proposal(struct sp_session *used, struct sp_session *fresh,
                                   const uint32_t *ids, size_t n, size_t n_steps, size_t width);

#endif
