/* Encoding and decoding of q4 blocks: see microscale.h for what the bytes mean. */
#include "quantize/microscale.h"

_Alignas(64) const int8_t sp_q4_codebooks[64] = {
    -127, -104, -77, -59, -44, -31, -19, -8, 3, 13, 24, 36, 48, 63, 79, 110,
    -110, -79, -63, -48, -36, -24, -13, -3, 8, 19, 31, 44, 59, 77, 104, 127,
    -98, -80, -65, -52, -41, -29, -18, -8, 2, 12, 22, 32, 43, 56, 69, 84,
    -84, -69, -56, -43, -32, -22, -12, -2, 8, 18, 29, 41, 52, 65, 80, 98,
};
