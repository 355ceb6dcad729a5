# Cross-builds for 64-bit ARM on Debian; ctest runs the programs under QEMU's user emulation:
#
#   ./setup arm64
#   cmake -S . -B build/arm64 --toolchain tests/aarch64.cmake -DARM64_ROOT=$PWD/build/arm64-root
#
# ARM64_ROOT: where the arm64 libraries lie. / for those that were installed beside the machine's own
# (apt-get install libzstd-dev:arm64 ...). QEMU_CPU in the environment is the CPU to emulate, say
# cortex-a53, which has no dot products. Tests that hand the program to a script need QEMU
# registered with the kernel (binfmt_misc).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(ARM64_ROOT / CACHE PATH "Root of the arm64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ARM64_ROOT)

if(NOT CMAKE_C_COMPILER)
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
endif()
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu) # for clang
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${ARM64_ROOT})

set(CMAKE_FIND_ROOT_PATH ${ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(arm64_libs ${ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${arm64_libs}/pkgconfig:${arm64_libs}/openblas-serial/pkgconfig)
if(NOT ARM64_ROOT STREQUAL "/")
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${ARM64_ROOT})
  set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${arm64_libs}:${ARM64_ROOT}/lib/aarch64-linux-gnu)
endif()
