#!/bin/sh
# Runs everything that a reviewer would run: format, lint, warnings of two compilers, tests plain, under
# sanitizers, with scalar kernels, and under valgrind. Ends with the seconds of each step and with "N passed,
# N failed". On Debian it first installs what the tests need and what is missing.
#
# usage: tests/check.sh [STEP...]    steps: format lint gcc clang asan tsan valgrind static (default: these)
#        tests/check.sh quick        format, lint, and the tests of gcc but for the slow ones: for each commit
#        tests/check.sh static       the static program of packaging/release, from sources that it downloads
#        tests/check.sh release      the same with the wheels: some five minutes
#        tests/check.sh portable     compiles and links spectool for macOS, with ziglang of PyPI
#        tests/check.sh debian       the Debian packages, and lintian on them
#        tests/check.sh long         faults soak fuzz reproducible release debian portable: hours; SOAK_SECONDS and FUZZ_SECONDS
#                                    (default: 3600) are the time of each soak and each fuzz target
#        tests/check.sh arm64        kernels for 64-bit ARM under QEMU, after ./setup arm64
set -u
cd "$(dirname "$0")/.." || exit 2
jobs=$(nproc)
passed=0 failed=0 seconds=
export CCACHE_DIR="${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-.}/.cache}/ccache}"
export XDG_CACHE_HOME=/dev/null # the user's cache folder stays as it is
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions='$PWD/tests/races.supp'"
steps=${*:-format lint gcc clang asan tsan valgrind static}

case $steps in
long) steps='faults soak fuzz reproducible release debian portable' ;;
quick) steps='format lint quick' ;;
esac

# report NAME STATUS
report() {
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}

# build NAME CMAKE-OPTIONS...: all targets, or those of $targets
build() {
    name=$1 build_began=$(date +%s)
    shift
    # shellcheck disable=SC2086 # targets
    cmake -S . -B "build/$name" -DWERROR=ON -DCMAKE_C_COMPILER_LAUNCHER="$(command -v ccache)" "$@" >"build/$name.log" 2>&1 &&
        cmake --build "build/$name" -j "$jobs" ${targets:+--target $targets} >>"build/$name.log" 2>&1
    status=$?
    built=$(($(date +%s) - build_began))
    [ $status -eq 0 ] || tail -40 "build/$name.log"
    report "build $name" $status
    return $status
}

# tests NAME [CTEST-OPTIONS...]: adds the result of each test
tests() {
    name=$1
    shift
    # one more than cores, since tests wait for the disk
    ctest --test-dir "build/$name" -j $((jobs + 1)) --output-on-failure --no-tests=error --timeout 900 "$@" \
        >"build/$name.tests" 2>&1
    status=$?
    cat "build/$name.tests"
    ok=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* (Passed|\*\*\*Skipped)' "build/$name.tests")
    bad=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Failed|Timeout|Exception|Not Run)' "build/$name.tests")
    passed=$((passed + ok)) failed=$((failed + bad))
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || failed=$((failed + 1))
}

if command -v apt-get >/dev/null && ! ./setup tests; then
    echo 'check.sh: not all packages for the tests could be installed'
fi
mkdir -p build
for step in $steps; do
    echo "== $step"
    began=$(date +%s) built= targets=
    case $step in
    format)
        git ls-files '*.c' '*.h' | xargs -P "$jobs" -n 50 clang-format --dry-run -Werror
        report format $?
        ;;
    lint)
        tests/lint.sh
        report lint $?
        ;;
    gcc)
        build gcc -DCMAKE_C_COMPILER=gcc && {
            tests gcc
            tests/lint.sh --symbols build/gcc/libspectool.a
            report symbols $?
        }
        ;;
    quick)
        build gcc -DCMAKE_C_COMPILER=gcc && tests gcc -LE slow
        ;;
    clang) # the tests whose results a compiler could change
        targets='quantize_tests model_tests session_tests json_memory_tests fault_preload spectool'
        build clang -DCMAKE_C_COMPILER=clang -DFEW_LENGTHS=ON &&
            tests clang -E speculate_types -R 'kernels|vector|codec|gptq|microscale|fmath|attention|speculate|logits'
        ;;
    asan) # without the tests that run the same code again
        build asan -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSANITIZE=address,undefined &&
            tests asan -E '^(ranks|mpi|cli_bench|golden_.*|tokenizer_keys|test_fmath|test_draft_replay|man_options)$'
        ;;
    tsan) # the tests of threads
        targets='format_tests convert_tests model_tests session_tests serve_tests spectool terminal'
        build tsan -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSANITIZE=thread &&
            tests tsan -E markdown -R \
                '^(test_(pool|prompt_pages|batching|create.*|speculate|attention|session_pool|serve.*)|cli_(serve.*|run_batch|verify))$'
        ;;
    valgrind)
        build gcc -DCMAKE_C_COMPILER=gcc && {
            grind() {
                valgrind -q --error-exitcode=1 --leak-check=full build/gcc/spectool "$@" >build/valgrind.log
                report "valgrind spectool $1" $?
            }
            grind create -f testdata/tiny/Modelfile -q q4 -o build/valgrind.bin --force
            grind run --num-predict 24 --threads 2 build/valgrind.bin 'What is 7 plus 8?'
            grind verify build/valgrind.bin
        }
        ;;
    faults)
        build gcc -DCMAKE_C_COMPILER=gcc && for kind in memory files threads network kill; do
            tests/faults.sh build/gcc/spectool build/gcc/tests/libfault_preload.so $kind 0
            report "every call failing: $kind" $?
        done
        ;;
    soak)
        build gcc -DCMAKE_C_COMPILER=gcc && {
            build/gcc/spectool create -f testdata/tiny/Modelfile.ar -q q4 -o build/soak.bin --force >/dev/null 2>&1
            build/gcc/spectool create -f testdata/tiny/Modelfile -q q8 -o build/soak_q8.bin --force >/dev/null 2>&1
            python3 tests/soak/serve.py build/gcc/spectool build/soak.bin build/soak_q8.bin
            report 'soak of serve' $?
            tests/soak/lossless.sh build/gcc/spectool
            report 'soak of verify --lossless' $?
            tests/ranks.sh build/gcc/spectool all
            report 'every model over ranks' $?
        }
        ;;
    fuzz)
        build fuzz -DCMAKE_C_COMPILER=clang -DFUZZ=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
            -DSANITIZE=fuzzer-no-link,address,undefined && for target in build/fuzz/tests/fuzz_*; do
            [ -f "$target" ] && [ -x "$target" ] || continue
            name=${target##*/fuzz_}
            found=build/corpus/$name # kept from run to run, and minimized after each
            mkdir -p "$found" "$found.all"
            "$target" -max_total_time="${FUZZ_SECONDS:-3600}" -timeout=25 -print_final_stats=1 \
                -artifact_prefix="build/corpus/$name-" "$found.all" "$found" "testdata/corpus/$name" \
                >"build/fuzz_$name.log" 2>&1
            status=$?
            grep 'number_of_executed_units' "build/fuzz_$name.log"
            report "fuzz_$name (build/fuzz_$name.log)" $status
            "$target" -merge=1 "$found" "$found.all" >/dev/null 2>&1 && rm -r "$found.all"
        done
        ;;
    static | release)
        wheels= dynamic=gcc
        [ $step = static ] || { ./setup release; wheels=wheels dynamic=dynamic; }
        build $dynamic -DCMAKE_C_COMPILER=gcc ${wheels:+-DBUILD_TESTING=OFF} && {
            # shellcheck disable=SC2086
            CCACHE=$(command -v ccache) packaging/release x86_64 $wheels >build/release.log
            status=$?
            if [ $status -eq 100 ] && [ $step = static ]; then
                echo 'static: skipped, since packages or sources are missing'
            else
                report 'packaging/release' $status
                [ $status -eq 0 ] && tests/release.sh build/release build/$dynamic/spectool
                report 'the static program' $?
            fi
        }
        ;;
    portable)
        ./setup release
        python3 -m venv build/zig && build/zig/bin/pip install -q ziglang==0.17.1 &&
            CCACHE='' ZIG="$PWD/build/zig/bin/python -m ziglang" packaging/release macos >build/portable.log
        report 'compiled and linked for macOS' $?
        ;;
    debian)
        version=$(sed -n 's/^#define SPECTOOL_VERSION_[A-Z]* \([0-9]*\)$/\1/p' runtime/spectool.h | paste -sd.)
        rm -rf build/debian
        mkdir -p "build/debian/spectool-$version"
        git ls-files -z | grep -zv '^testdata/' | xargs -0 cp --parents -t "build/debian/spectool-$version"
        cp -r packaging/debian "build/debian/spectool-$version"
        (
            cd "build/debian/spectool-$version" && DEB_BUILD_OPTIONS=parallel=$jobs dpkg-buildpackage -us -uc -b >../log 2>&1 &&
                lintian --fail-on error --suppress-tags bad-distribution-in-changes-file ../*.changes
        )
        report 'Debian packages' $?
        tests/debian.sh build/debian
        report 'Debian packages are installed and removed' $?
        ;;
    reproducible)
        rm -rf build/here build/elsewhere
        mkdir -p build/elsewhere/source/build
        git ls-files -z | grep -zv '^testdata/' | xargs -0 cp --parents -t build/elsewhere/source
        for type in Release RelWithDebInfo; do
            CCACHE_DISABLE=1 build here -DCMAKE_C_COMPILER=gcc -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=$type
            (
                cd build/elsewhere/source &&
                    CCACHE_DISABLE=1 build other -DCMAKE_C_COMPILER=gcc -DBUILD_TESTING=OFF -DCMAKE_BUILD_TYPE=$type
            )
            for file in spectool libspectool.a libspectool.so; do
                cmp build/here/$file build/elsewhere/source/build/other/$file
                report "$type: the same bytes in two folders: $file" $?
            done
        done
        ./setup release
        SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
        export SOURCE_DATE_EPOCH
        rm -rf build/release-work
        packaging/release x86_64 wheels >build/release.log && (cd build/elsewhere/source && packaging/release x86_64 wheels >build/release.log) &&
            cmp build/release/SHA256SUMS build/elsewhere/source/build/release/SHA256SUMS
        report 'the same release in two folders' $?
        ;;
    arm64)
        for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
            command -v $tool >/dev/null && continue
            echo "arm64: $tool is missing; ./setup arm64 installs it"
            exit 2
        done
        root=/
        [ ! -d build/arm64-root ] || root=$PWD/build/arm64-root
        build gcc -DCMAKE_C_COMPILER=gcc &&
            build arm64 --toolchain tests/aarch64.cmake -DARM64_ROOT="$root" && {
            tests arm64 -R 'kernels|vector|kv|attention|blas|fmath|rope|codec|microscale|gptq'
            export QEMU_CPU=cortex-a53 # no dot products: the scalar kernels are left
            tests arm64 -R 'kernels|vector'
            unset QEMU_CPU
            emulated() { qemu-aarch64-static -L "$root" build/arm64/spectool "$@"; }
            digest() { "$@" run --json --logits-digest --num-predict 24 --ignore-eos build/arm64.bin 'What is 7 plus 8?' |
                grep -o '"logits_xxh3": "[0-9a-f]*"'; }
            build/gcc/spectool create -f testdata/tiny/Modelfile -q q4 -o build/native.bin --force >/dev/null
            emulated create -f testdata/tiny/Modelfile -q q4 -o build/arm64.bin --force >/dev/null
            cmp build/native.bin build/arm64.bin
            report "the same packed file on arm64" $?
            native=$(digest build/gcc/spectool) && [ "$native" = "$(digest emulated)" ]
            report "the same logits on arm64" $?
        }
        ;;
    *)
        echo "unknown step $step"
        exit 2
        ;;
    esac
    seconds="$seconds${seconds:+, }$step $(($(date +%s) - began))${built:+ (build $built)}"
done
echo "seconds: $seconds"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
