/* The kernel set of AMX over emulated tiles. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <unistd.h>

#include "tests/quantize/emulated_amx.h"
#define syscall(...) 0 /* the kernel gives tile registers */
#define sp_kernels_amx emulated_amx
#define sp_groupwise_amx emulated_groupwise_amx
#include "quantize/kernels/kernels_amx.c"
