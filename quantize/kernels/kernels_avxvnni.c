/* Matrix products with AVX-VNNI, for CPUs without AVX-512 (Alder Lake and later). */
#define DPBUSD _mm256_dpbusd_avx_epi32
#define KERNELS sp_kernels_avxvnni
#define KERNELS_GROUPWISE sp_groupwise_avxvnni
#define KERNELS_PEAK sp_peak_avxvnni
#define KERNELS_NAME "avxvnni"
#include "quantize/kernels/kernels_vnni256.h"
