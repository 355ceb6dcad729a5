/* Packed files whose bytes a fuzzer has changed: with their digests made right, or it would never
 * get past them. */
#ifndef SP_TESTS_SUPPORT_REPAIR_DIGESTS_H
#define SP_TESTS_SUPPORT_REPAIR_DIGESTS_H

#include <stddef.h>
#include <stdint.h>

/* Digests of tensors, sections, directory and header, wherever the header leads. */
void repair_digests(uint8_t *bytes, size_t size);

#endif
