#!/bin/bash
# Soak of losslessness: verify --lossless with random options over small packed files with and
# without drafts, until SECONDS have passed (default: SOAK_SECONDS, else an hour). Ends with a line of
# what was done; prints each command that finds a difference or fails without a reason.
#
# usage: lossless.sh SPECTOOL [SECONDS]        SEED=n repeats a run's choices
set -u
program=$(realpath "$1")
end=$((SECONDS + ${2:-${SOAK_SECONDS:-3600}}))
testdata=$(realpath "$(dirname "$0")/../../testdata")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
RANDOM=${SEED:=$(date +%s)}
n=0 n_refused=0 failed=0

one_of() {
    shift $((RANDOM % $#))
    echo "$1"
}

for modelfile in "$testdata"/tiny/Modelfile "$testdata"/tiny/Modelfile.ar "$testdata"/speculators/*/Modelfile; do
    for type in none q8 q4; do
        file=$(echo "${modelfile#"$testdata/"}" | tr / -)-$type.bin
        quantize=
        [ $type = none ] || quantize="-q $type --quantize-draft $(one_of q8 q4)"
        # shellcheck disable=SC2086 # options
        "$program" create -f "$modelfile" $quantize -o "$file" 2>/dev/null
    done
done
while [ $SECONDS -lt $end ]; do
    options="--num-predict $((1 + RANDOM % 90)) --threads $((1 + RANDOM % 3))"
    options="$options --draft-depth $(one_of auto 1 2 3 5 8 15) --kv-type $(one_of f32 f16 q8)"
    options="$options --draft-by $(one_of model lookup both) --kernels $(one_of auto scalar avx2 avxvnni avx512)"
    [ $((RANDOM % 3)) -gt 0 ] || options="$options --sessions $((2 + RANDOM % 6))"
    [ $((RANDOM % 4)) -gt 0 ] || options="$options --format json"
    ids=$((RANDOM % 60))
    for ((i = RANDOM % 40; i > 0; i--)); do ids=$ids,$((RANDOM % 60)); done
    # shellcheck disable=SC2086,SC2012 # options, and names without blanks
    set -- verify --lossless $options --ids $ids "$(one_of $(ls ./*.bin))"
    "$program" "$@" >text 2>err
    status=$?
    n=$((n + 1))
    case $status in
    0) ;;
    2 | 4) n_refused=$((n_refused + 1)) ;; # an option that the file or the CPU does not allow
    *)
        echo "status $status: spectool $* (SEED=$SEED)"
        cat text err
        failed=1
        ;;
    esac
done
echo "$n commands, $n_refused refused, $([ $failed -eq 0 ] && echo none || echo some) differing"
exit $failed
