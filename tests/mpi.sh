#!/bin/sh
# Under mpirun, several ranks give the bits of one process, over shared memory and over TCP; what cannot be is refused,
# and a rank that dies ends the job.
#
# usage: tests/mpi.sh SPECTOOL [all]    all: ranks are killed at fifty instants; MPIRUN: mpirun of Open MPI or of MPICH
set -u
spectool=$(realpath "$1") scope=${2:-sample}
mpirun=${MPIRUN:-mpirun}
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0
say() { printf 'mpi: %s\n' "$1"; bad=1; }
# Containers run as root, and on fewer processors than ranks. The variables are those of Open MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
case $("$mpirun" --version) in
*'Open MPI'*) tcp='--mca btl tcp,self --mca btl_tcp_if_include lo' ;;
*) tcp='-genv MPIR_CVAR_NOLOCAL 1' ;; # the network module of MPICH between processes of one machine, too
esac
# Open MPI leaves memory allocated at the end; tests/ranks.sh finds leaks of our own.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
job() { timeout 60 "$mpirun" "$@" 2>err; }

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
    got=$(digest timeout 60 "$mpirun" -n 2 "$spectool")
    [ "$got" = "$want" ] || say "$modelfile, 2 ranks: $got, expected $want"
    # shellcheck disable=SC2086 # options
    got=$(digest timeout 60 "$mpirun" -n 3 $tcp "$spectool")
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
# Another version is the same program with another number in it.
version=$("$spectool" --version | sed 's/.* //')
LC_ALL=C sed "s/${version%.*}\\.${version##*.}/${version%.*}.~/g" "$spectool" >other/spectool
chmod +x other/spectool
[ "$(other/spectool --version)" = "spectool ${version%.*}.~" ] || say 'no other version'
for module in "$(dirname "$spectool")"/spectool-mpi.so "$(dirname "$spectool")"/../lib/*/spectool/spectool-mpi.so; do
    [ ! -e "$module" ] || cp "$module" other/
done
refused 4 "rank 1 of 2: spectool ${version%.*}.~, expected $version as on rank 0" \
    -n 1 "$spectool" run packed.bin --ids 1 : -n 1 "$dir/other/spectool" run packed.bin --ids 1
refused 4 'one process is enough' -n 2 "$spectool" show packed.bin
refused 2 'under mpirun' -n 2 "$spectool" run packed.bin --ranks 2 --ids 1
refused 2 'unknown option' -n 2 "$spectool" run packed.bin --nonsense
refused 4 'ranks compute one model at a time' -n 2 "$spectool" eval packed.bin --text "$root/README.md" --against other/packed.bin

echo "FROM $root/testdata/embeddings/qwen3" >Modelfile
"$spectool" create -o embed.bin --force >log 2>&1 || say "$(cat log)"
"$spectool" embed embed.bin 'the cat sat' a >one
job -n 3 "$spectool" embed embed.bin 'the cat sat' a >two || say "embed: $(cat err)"
cmp one two || bad=1

# Ranks read their part of the file and no more: each has its own copy, of which nothing is in memory at first. The
# weights are zero; a pass reads all of them. A megabyte is for the directory, the vectors, and the pages where the 71 parts
# of a rank begin and end.
n=0 header=
tensor() {
    header="$header,\"$1\":{\"dtype\":\"BF16\",\"shape\":[$2],\"data_offsets\":[$n,$((n + $3 * 2))]}"
    n=$((n + $3 * 2))
}
hidden=512 inner=2048 vocab=4096 layers=10
tensor model.embed_tokens.weight $vocab,$hidden $((vocab * hidden))
tensor model.norm.weight $hidden $hidden
for layer in $(seq 0 $((layers - 1))); do
    at=model.layers.$layer
    tensor $at.input_layernorm.weight $hidden $hidden
    tensor $at.post_attention_layernorm.weight $hidden $hidden
    for name in q k v o; do tensor $at.self_attn.${name}_proj.weight $hidden,$hidden $((hidden * hidden)); done
    for name in gate up; do tensor $at.mlp.${name}_proj.weight $inner,$hidden $((hidden * inner)); done
    tensor $at.mlp.down_proj.weight $hidden,$inner $((hidden * inner))
done
header="{${header#,}}"
mkdir zeros first second
size=$(printf %016x ${#header})
for byte in 14 12 10 8 6 4 2 0; do printf "\\$(printf %o $((0x$(echo "$size" | cut -c$((byte + 1))-$((byte + 2))))))"; done >zeros/model.safetensors
printf %s "$header" >>zeros/model.safetensors
truncate -s $((8 + ${#header} + n)) zeros/model.safetensors
echo "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": $hidden,
    \"intermediate_size\": $inner, \"num_hidden_layers\": $layers, \"num_attention_heads\": 8,
    \"num_key_value_heads\": 8, \"vocab_size\": $vocab, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0,
    \"max_position_embeddings\": 256, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true,
    \"torch_dtype\": \"bfloat16\", \"bos_token_id\": 1, \"eos_token_id\": 2}" >zeros/config.json
echo 'FROM zeros' >Modelfile
"$spectool" create --quantize q8 -o first/zeros.bin --force >log 2>&1 || say "$(cat log)"
cp first/zeros.bin second/zeros.bin
# cached FILE: bytes of it in memory
cached() { fincore -nrbo RES "$1" 2>/dev/null; }
sync
for at in first second; do dd if=$at/zeros.bin iflag=nocache count=0 2>/dev/null; done
if [ "$(cached first/zeros.bin)$(cached second/zeros.bin)" = 00 ]; then
    job -n 1 -wdir "$dir/first" "$spectool" run zeros.bin --ids 1,2,3 --num-predict 4 --ignore-eos --threads 1 --no-cache : \
        -n 1 -wdir "$dir/second" "$spectool" run zeros.bin >out || say "zeros: $(cat err)"
    size=$(stat -c %s first/zeros.bin)
    for at in first second; do
        [ "$(cached $at/zeros.bin)" -le $((size / 2 + (1 << 20))) ] || say "the $at of two ranks read $(cached $at/zeros.bin) of $size bytes"
    done
else
    echo 'mpi: what ranks read was not tested, as the file system does not say it'
fi

# ends_with_rank COMMAND...: rank $victim of a running job is killed after $delay seconds. mpirun says so, and after
# five seconds no process is left.
ends_with_rank() {
    # shellcheck disable=SC2016 # the shell of each rank expands it
    "$mpirun" -n 2 sh -c 'echo $$ >pid${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$@"' sh "$spectool" "$@" >out 2>err <input &
    job=$!
    tries=0
    until [ -s pid0 ] && [ -s pid1 ]; do
        [ $((tries += 1)) -le 300 ] || { say "$1 does not start: $(cat err)"; kill $job; return; }
        sleep .1
    done
    sleep "$delay"
    killed=yes
    kill -KILL "$(cat pid$victim)" || killed=no
    wait $job
    [ $? -ne 0 ] || [ $killed = no ] || say "rank $victim of $1 was killed after $delay s, and the status is 0"
    [ $killed = no ] || grep -qi "rank $victim.*signal 9\|KILLED BY SIGNAL: 9\|EXIT CODE: 9" out err ||
        say "rank $victim of $1 was killed after $delay s: $(cat err)"
    for pid in 0 1; do
        tries=0
        while grep -q '^State:[[:blank:]]*[^ZX[:blank:]]' "/proc/$(cat pid$pid)/status" 2>/dev/null; do
            [ $((tries += 1)) -le 50 ] || { say "rank $pid is left after rank $victim of $1 was killed"; break; }
            sleep .1
        done
    done
    rm pid0 pid1
}
: >input
for _ in $(seq 20000); do echo '"What is 1 plus 2?"'; done >prompts
instants=1
[ "$scope" = sample ] || instants=$(seq 0.5 0.04 1.5)
for delay in $instants; do
    for victim in 0 1; do
        ends_with_rank bench packed.bin --repeat 1000 --ids 1,2
        [ "$scope" = all ] || continue
        ends_with_rank serve packed.bin --port 0
        ends_with_rank run packed.bin --ids 1,2,3 --num-predict 100000 --ignore-eos --no-cache
        cp prompts input
        ends_with_rank run packed.bin --batch --num-predict 50 --no-cache
        : >input
    done
done
exit $bad
