/* The tile registers of AMX, emulated. A source that includes this file after <immintrin.h> calls
 * these functions instead of the instructions. What makes an instruction fault ends the test:
 * Intel's manual, volume 2, LDTILECFG, TDPBSUD, TILELOADD, TILERELEASE, TILESTORED, TILEZERO. */
#ifndef SP_TESTS_QUANTIZE_EMULATED_AMX_H
#define SP_TESTS_QUANTIZE_EMULATED_AMX_H

#include <stddef.h>
#include <stdint.h>

struct sp_kernels;
extern const struct sp_kernels emulated_amx;

void emulated_loadconfig(const void *config);
void emulated_release(void);
void emulated_zero(unsigned tile);
void emulated_load(unsigned tile, const void *from, size_t stride);
void emulated_store(unsigned tile, void *to, size_t stride);
/* The rows of `sums` += those of signed bytes times the columns of unsigned ones. */
void emulated_dot(unsigned sums, unsigned signed_bytes, unsigned unsigned_bytes);
/* Number of products of tiles so far. */
size_t emulated_dots(void);

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#define _tile_loadconfig emulated_loadconfig
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbsud emulated_dot

#endif
