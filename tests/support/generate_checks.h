/* Packed files opened, run greedily or with a draft, and their answers compared: tests that
 * drafting changes nothing. All failures fail the test. */
#ifndef SP_TESTS_SUPPORT_GENERATE_CHECKS_H
#define SP_TESTS_SUPPORT_GENERATE_CHECKS_H

#include "runtime/spectool.h"

struct generate_fixture {
    struct sp_package *package;
    struct sp_session *session;
};

/* kernels: NULL for the best. One thread reads the mapped file, more of them a copy: the results
 * must be the same. */
struct generate_fixture generate_open(const char *path, const char *kernels, unsigned n_threads,
                                      const struct sp_session_options *options);
void generate_close(struct generate_fixture *g);

/* One thread or two for a run among many: `place` adds up where it stands in each list (kernel
 * sets, depths, seeds ...), so that neighbours in any list differ and all meet both, at half the
 * runs. What that leaves out cannot fail alone: a kernel set sees the rows and panels of a call,
 * and test_kernels has each number of rows in every set; a pool hands out panels, whichever the
 * set. */
unsigned generate_threads(size_t place);

enum { PLAIN = -2 }; /* as a depth: no draft at all */

/* max_tokens ids, fewer where the end of the text counts, with a digest of the logits. */
struct sp_result generate_run(struct sp_session *session, const uint32_t *prompt, size_t n,
                              size_t max_tokens, int draft_len, bool ignore_eos);

/* The same ids, text, end, and logits to the bit. */
void generate_assert_same(const struct sp_result *a, const struct sp_result *b);

/* Behind ids[0..n-1] and the anchor ids[n] both sessions propose the same, to the bit: n_steps rows
 * of `width` logits. */
void generate_assert_same_proposal(struct sp_session *used, struct sp_session *fresh,
                                   const uint32_t *ids, size_t n, size_t n_steps, size_t width);

#endif
