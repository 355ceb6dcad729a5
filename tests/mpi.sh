#!/bin/sh
# Under mpirun, several ranks give the bits of one process, over shared memory and over TCP; what cannot be is refused,
# and a rank that dies ends the job. usage: tests/mpi.sh SPECTOOL
set -u
spectool=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
say() { printf 'mpi: %s\n' "$1"; bad=1; }
# Containers run as root, and on fewer processors than ranks. The variables are those of Open MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
# Open MPI leaves memory allocated at the end; tests/ranks.sh finds leaks of our own.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
job() { timeout 60 mpirun "$@" 2>err; }

# digest COMMAND...: of the logits of a generation
digest() {
    "$@" run packed.bin --json --logits-digest --num-predict 16 --ignore-eos --threads 1 --ids 1,2,3,4,5 2>err |
        grep -o '"logits_xxh3": "[0-9a-f]*"' || cat err
}
i=0
for modelfile in "$root"/testdata/tiny/Modelfile "$root"/testdata/speculators/*/Modelfile \
    "$root"/../shared/oracle/drafts/*/Modelfile; do
    [ -e "$modelfile" ] || continue
    i=$((i + 1))
    [ $i -eq 1 ] || [ $((i % 8)) -eq 0 ] || continue
    "$spectool" create -f "$modelfile" --force >log 2>&1 || { say "$(cat log)"; continue; }
    want=$(digest "$spectool")
    got=$(digest timeout 60 mpirun -n 2 "$spectool")
    [ "$got" = "$want" ] || say "$modelfile, 2 ranks: $got, expected $want"
    got=$(digest timeout 60 mpirun -n 3 --mca btl tcp,self --mca btl_tcp_if_include lo "$spectool")
    [ "$got" = "$want" ] || say "$modelfile, 3 ranks over TCP: $got, expected $want"
done

"$spectool" create -f "$root/testdata/tiny/Modelfile" --quantize q8 --force >log 2>&1 || exit 1
"$spectool" logits packed.bin --ids 1,2,3 -o one.npy
job -n 2 "$spectool" logits packed.bin --ids 1,2,3 -o two.npy || say "logits: $(cat err)"
cmp one.npy two.npy || bad=1
job -n 2 "$spectool" verify --lossless packed.bin --ids 1,2,3 --sessions 2 >out || say "verify: $(cat out err)"
"$spectool" eval packed.bin --text "$root/README.md" --context 64 --json 2>/dev/null | grep -o '"perplexity": [^,]*' >one
job -n 2 "$spectool" eval packed.bin --text "$root/README.md" --context 64 --json | grep -o '"perplexity": [^,]*' >two
cmp one two || bad=1

# refused STATUS SENTENCE OPTION...: rank 0 says it once, and the job ends
refused() {
    status=$1 sentence=$2
    shift 2
    job "$@" >out
    got=$?
    [ $got -eq "$status" ] && [ "$(grep -c "^spectool.*$sentence" err)" -eq 1 ] || say "$*: status $got: $(cat out err)"
}
mkdir other
"$spectool" create -f "$root/testdata/tiny/Modelfile" --quantize q4 -o other/packed.bin >log 2>&1
refused 3 'rank 1 of 2: packed.bin is another file than on rank 0' \
    -n 1 "$spectool" run packed.bin --ids 1 : -n 1 -wdir "$dir/other" "$spectool" run packed.bin --ids 1
mkdir empty
refused 5 'rank 1 of 2: packed.bin: No such file' \
    -n 1 "$spectool" run packed.bin --ids 1 : -n 1 -wdir "$dir/empty" "$spectool" run packed.bin --ids 1
refused 4 'one process is enough' -n 2 "$spectool" show packed.bin
refused 2 'under mpirun' -n 2 "$spectool" run packed.bin --ranks 2 --ids 1
refused 2 'unknown option' -n 2 "$spectool" run packed.bin --nonsense
refused 4 'ranks compute one model at a time' -n 2 "$spectool" eval packed.bin --text "$root/README.md" --against other/packed.bin

# Each rank of a running job is killed in turn. mpirun says which, and after five seconds no process is left.
for victim in 0 1; do
    mpirun -n 2 sh -c 'echo $$ >pid$OMPI_COMM_WORLD_RANK; exec "$@"' sh "$spectool" bench packed.bin --repeat 1000 --ids 1,2 \
        >out 2>err &
    job=$!
    sleep 1
    kill -KILL "$(cat pid$victim)"
    wait $job
    [ $? -ne 0 ] && grep -qi "rank $victim.*signal 9" err || say "rank $victim was killed: $(cat err)"
    for pid in 0 1; do
        tries=0
        while grep -q '^State:[[:blank:]]*[^ZX[:blank:]]' "/proc/$(cat pid$pid)/status" 2>/dev/null; do
            [ $((tries += 1)) -le 50 ] || { say "rank $pid is left after rank $victim was killed"; break; }
            sleep .1
        done
    done
    rm pid0 pid1
done
exit $bad
