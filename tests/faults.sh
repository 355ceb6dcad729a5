#!/bin/bash
# Failing calls: every command runs with one call of its process failing, or killed there, by
# tests/support/fault_preload.c, and must end with the right status, without a leak, and with no
# file but a whole one under the output's name.
#
# usage: faults.sh SPECTOOL PRELOAD memory|files|kill [SAMPLES]    SAMPLES: calls of each command;
#                                                                  default 12, 0: all of them
set -u
program=$(realpath "$1") preload=$(realpath "$2") kind=$3 samples=${4:-12}
tiny=$(realpath "$(dirname "$0")/../testdata/tiny")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
export LC_ALL=C HOME=$scratch XDG_STATE_HOME=$scratch
failed=0 n_runs=0

problem() {
    echo "$name, call $at of $n_calls: $1"
    sed 's/^/    /' err | tail -3
    failed=1
}

# attempt AT: runs the command in an empty folder, or one with an older output, as out/
attempt() {
    rm -rf out report
    mkdir out
    case $name in replace | quantize_in_place) cp base.bin out/x.bin ;; esac
    (
        FAULT_CALLS=$calls FAULT_AT=$1 FAULT_ERRNO=$errno FAULT_REPORT=report LD_PRELOAD=$preload \
            "$program" "${command[@]}" >text 2>err </dev/null
        exit $?
    ) 2>/dev/null # the shell's word about a killed process
    status=$?
    n_runs=$((n_runs + 1))
}

# The folder has what it had before the command, or what the clean run made.
check_output() {
    case $name in
    replace | quantize_in_place)
        cmp -s out/x.bin clean/x.bin || cmp -s out/x.bin base.bin || problem 'the old file is damaged'
        ;;
    *)
        [ -z "$(ls -A out)" ] || diff -r out clean >/dev/null || problem 'its output is not whole'
        ;;
    esac
}

leftovers() {
    find out -name '*.tmp' | grep -q .
}

check_failure() {
    case $status in
    0)
        diff -r out clean >/dev/null || problem 'it succeeds without its output'
        cmp -s text clean_text || problem 'it succeeds with another text'
        ;;
    "$expected") check_output ;;
    3) grep -q 'is a folder, expected a file' err || problem 'status 3' ;; # stat failed
    *) problem "status $status, expected $expected" ;;
    esac
    read -r _ blocks <report 2>/dev/null || blocks=0
    [ "$blocks" -le "$clean_blocks" ] || problem "$((blocks - clean_blocks)) blocks of memory leak"
}

# Killed between the two names of a file that is replaced, or while a folder is filled, a temporary
# stays (create(1), export(1)).
check_kill() {
    [ "$status" -eq 137 ] || [ "$status" -eq 0 ] || problem "status $status"
    if leftovers; then
        case $name in replace | quantize_in_place | export) rm -rf out/.*.tmp ;; esac
        ! leftovers || problem 'a temporary file stays'
    fi
    check_output
}

# faults NAME COMMAND...
faults() {
    name=$1
    shift
    command=("$@")
    at=0 n_calls=0
    attempt 0
    read -r n_calls clean_blocks <report
    [ "$status" -eq 0 ] || problem "status $status without a failing call"
    rm -rf clean
    mv out clean
    mv text clean_text
    step=1
    if [ "$samples" -gt 0 ] && [ "$n_calls" -gt "$samples" ]; then step=$((n_calls / samples)); fi
    for ((at = 1; at <= n_calls; at += step)); do
        attempt "$at"
        if [ "$kind" = kill ]; then check_kill; else check_failure; fi
    done
}

case $kind in
memory) calls=memory errno=12 expected=6 ;;
files) calls=files errno=5 expected=5 ;;
kill) calls=files errno=0 expected=137 ;;
*) exit 2 ;;
esac
"$program" create -f "$tiny/Modelfile.ar" -o base.bin >text 2>err || exit 2
faults create create -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1
faults replace create -q q8 -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1 --force
faults quantize quantize --target q8 base.bin out/x.bin --threads 1
faults quantize_in_place quantize --target q8 out/x.bin --threads 1
faults export export base.bin out/x --threads 1
if [ "$kind" != kill ]; then
    faults run run --threads 1 --num-predict 4 --ids 1,2,3 base.bin
    faults show show --json base.bin
    faults verify verify base.bin
    faults lossless verify --lossless --threads 1 --num-predict 3 base.bin
    faults tokenize tokenize base.bin 'hi there'
fi
[ $failed -eq 0 ] || exit 1
