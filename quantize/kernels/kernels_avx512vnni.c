/* Matrix products with AVX-512 VNNI alone, for CPUs without VBMI (Cascade Lake, Cooper Lake): their
 * byte lookups are those of AVX2. */
#define DPBUSD _mm256_dpbusd_epi32
#define KERNELS sp_kernels_avx512vnni
#define KERNELS_GROUPWISE sp_groupwise_avx512vnni
#define KERNELS_PEAK sp_peak_avx512vnni
#define KERNELS_NAME "avx512vnni"
#include "quantize/kernels/kernels_vnni256.h"
