/* Recomputes the digests of packed files that a fuzzer has changed; the reader would refuse them
 * otherwise. */
#ifndef SP_TESTS_SUPPORT_REPAIR_DIGESTS_H
#define SP_TESTS_SUPPORT_REPAIR_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

/* Corrects the digests of tensors, sections, directory and header at the offsets that the header
 * gives. */
void repair_digests(uint8_t *bytes, size_t size);

#endif
