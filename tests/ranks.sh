#!/bin/sh
# Several ranks give the bits of one process: digests of logits, with a draft and without, for the models of
# testdata and, if it is there, of the oracle. A rank that dies ends the program with one sentence; no process is left.
#
# usage: tests/ranks.sh SPECTOOL [all]    all: every number of ranks and threads for every model and type
set -u
spectool=$1 scope=${2:-sample}
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0 n_models=0 n_runs=0 n_embedders=0
say() { printf 'ranks: %s\n' "$1"; bad=1; }

# digest OPTION...: of a generation from the packed file, or the message of a failure
digest() {
    timeout 100 "$spectool" run --json --logits-digest --num-predict 12 --ignore-eos --temperature 0 \
        --ids 1,2,3,4,5,6,7,8,9,10,11,12 "$@" "$dir/p.bin" 2>&1 |
        grep -o '"logits_xxh3": "[0-9a-f]*"\|^spectool.*'
}

# compare NAME OPTION...: `ways` (ranks x threads) against one process
compare() {
    name=$1
    shift
    want=$(digest --threads 1 "$@")
    case $want in
    *logits_xxh3*) ;;
    *'q8 cache: heads of'*) ;; # refused with any number of ranks
    *) say "$name $*: $want" ;;
    esac
    for way in $ways; do
        n_runs=$((n_runs + 1))
        set -- "$@" --ranks "${way%x*}" --threads "${way#*x}" # later options replace earlier ones
        got=$(digest "$@")
        [ "$got" = "$want" ] || say "$name $*: $got, expected $want"
    done
}

# check NAME MODELFILE TYPE
check() {
    options=
    [ "$3" = none ] || options="--quantize $3"
    [ "$3" = none ] || ! grep -qi '^draft' "$2" || options="$options --quantize-draft $3"
    # shellcheck disable=SC2086 # options
    "$spectool" create -f "$2" $options -o "$dir/p.bin" --force >"$dir/log" 2>&1 || {
        [ "$3" != none ] || say "$1: $(cat "$dir/log")"
        return # blocks of 32 do not fit every tiny model
    }
    n_models=$((n_models + 1))
    if [ "$scope" = all ]; then
        ways='2x1 2x2 3x1 3x2 4x1 4x2'
        compare "$1 $3" --kv-type f32
        compare "$1 $3" --no-draft
        ways='2x1 3x2'
        compare "$1 $3" --kv-type q8
        compare "$1 $3" --kernels scalar
        return
    fi
    case $((n_models % 4)) in 0) ways=2x1 ;; 1) ways=3x1 ;; 2) ways=2x2 ;; 3) ways=3x2 ;; esac
    if [ $((n_models % 3)) -eq 0 ]; then compare "$1 $3" --no-draft; else compare "$1 $3"; fi
}

each_type() {
    if [ "$scope" = all ]; then types='none q8 q4'; else types=$3; fi
    for type in $types; do check "$1" "$2" "$type"; done
}

i=0
for at in "$root"/testdata/tiny/Modelfile "$root"/testdata/speculators/*/Modelfile "$root"/testdata/families/*/ \
    "$root"/../shared/oracle/drafts/*/Modelfile "$root"/../shared/oracle/targets/*/; do
    [ -e "$at" ] || continue
    i=$((i + 1))
    name=${at#"$root/"}
    case $((i % 3)) in 0) type=none ;; *) type=q4 ;; esac
    if [ -d "$at" ]; then
        [ -e "$at/model.safetensors" ] || continue
        echo "FROM $at" >"$dir/Modelfile"
        at=$dir/Modelfile
    fi
    each_type "$name" "$at" $type
done

# Commands that share the engine: sessions together, scores, files of logits.
check tiny "$root/testdata/tiny/Modelfile" q8
for ranks in 1 3; do
    "$spectool" logits --ranks $ranks --ids 1,2,3,4,5,6,7 -o "$dir/$ranks.npy" "$dir/p.bin" || bad=1
    "$spectool" logits --ranks $ranks --draft --ids 1,2,3,4,5,6,7 -o "$dir/draft$ranks.npy" "$dir/p.bin" || bad=1
    echo 'What is 7 plus 8? What is 9 plus 2?' | "$spectool" eval --ranks $ranks --text - --json "$dir/p.bin" \
        2>&1 | grep -v seconds >"$dir/eval$ranks"
done
cmp "$dir/1.npy" "$dir/3.npy" && cmp "$dir/draft1.npy" "$dir/draft3.npy" && cmp "$dir/eval1" "$dir/eval3" || bad=1
"$spectool" verify --lossless --sessions 3 --ids 1,2,3 --ranks 2 "$dir/p.bin" >"$dir/log" 2>&1 || say "$(cat "$dir/log")"
for i in 1 2 3 4 5; do echo "\"What is $i plus 2?\""; done >"$dir/prompts"
for ranks in 1 2; do
    "$spectool" run --ranks $ranks --batch --num-predict 9 --logits-digest "$dir/p.bin" <"$dir/prompts" |
        grep -o '"logits_xxh3": "[0-9a-f]*"' >"$dir/batch$ranks"
done
[ "$(wc -l <"$dir/batch1")" -eq 5 ] && cmp "$dir/batch1" "$dir/batch2" || say 'a batch differs'

# Caches of several kv heads are divided: sessions together, prompts of several passes that are longer than a window, and
# pages of the prompt cache that another number of ranks continues.
mkdir "$dir/long"
cp "$root"/testdata/families/exaone4/* "$dir/long"
sed 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 1024/' "$root/testdata/families/exaone4/config.json" >"$dir/long/config.json"
echo "FROM $dir/long" >"$dir/Modelfile"
"$spectool" create -f "$dir/Modelfile" -o "$dir/heads.bin" >"$dir/log" 2>&1 || say "$(cat "$dir/log")"
"$spectool" verify --lossless --sessions 3 --ids 1,2,3 --ranks 2 "$dir/heads.bin" >"$dir/log" 2>&1 || say "$(cat "$dir/log")"
ids=$(seq -s, 1 120),$(seq -s, 2 121),$(seq -s, 3 122)
continue_prompt() {
    "$spectool" run --json --logits-digest --num-predict 40 --ignore-eos --temperature 0 --threads 1 "$@" \
        "$dir/heads.bin" 2>&1 | grep -o '"logits_xxh3": "[0-9a-f]*"\|^spectool.*'
}
for type in f16 f32; do
    want=$(continue_prompt --kv-type $type --ids "$ids")
    more=$(continue_prompt --kv-type $type --ids "$ids,9,8,7")
    case "$want $more" in *xxh3*xxh3*) ;; *) say "$want $more" ;; esac
    for ranks in 2 1 3; do # each continues from the file of the one before it
        got=$(continue_prompt --kv-type $type --ids "$ids" --ranks $ranks --cache-dir "$dir/prompt$type")
        [ "$got" = "$want" ] || say "$ranks ranks, $type: $got, expected $want"
        got=$(continue_prompt --kv-type $type --ids "$ids,9,8,7" --ranks $ranks --cache-dir "$dir/prompt$type")
        [ "$got" = "$more" ] || say "$ranks ranks, $type, longer: $got, expected $more"
    done
done

# Embeddings, and the scores of rerankers and classifiers.
for at in "$root"/testdata/embeddings/*/; do
    name=$(basename "$at")
    [ "$name" != qwen3_reranker ] || continue
    echo "FROM $at" >"$dir/Modelfile"
    for type in none q8; do
        [ $type = none ] && options='' || options="--quantize $type"
        # shellcheck disable=SC2086 # options
        "$spectool" create -f "$dir/Modelfile" $options -o "$dir/embed.bin" --force >"$dir/log" 2>&1 || continue
        for way in 1x1 2x1 3x2; do
            "$spectool" embed --ranks "${way%x*}" --threads "${way#*x}" "$dir/embed.bin" 'the cat sat' a 'seven eight nine ten' \
                >"$dir/embed$way" 2>&1 || say "embeddings of $name $type over $way: $(cat "$dir/embed$way")"
        done
        n_embedders=$((n_embedders + 1))
        cmp "$dir/embed1x1" "$dir/embed2x1" && cmp "$dir/embed1x1" "$dir/embed3x2" || say "embeddings of $name $type differ"
    done
done
[ $n_embedders -ge 10 ] || say "$n_embedders files gave embeddings"

# port_of LOG: waits until the server says its port, and sets it
port_of() {
    tries=0
    until port=$(sed -n 's|.*http://[^ ]*:\([0-9][0-9]*\).*|\1|p' "$1" 2>/dev/null | head -n 1) && [ -n "$port" ]; do
        [ $((tries += 1)) -le 600 ] || return 1
        sleep 0.1
    done
}

# serve_over RANKS FILE: sets server and port
serve_over() {
    rm -f "$dir/serve.log" # else the port of the server before may be read
    "$spectool" serve --ranks "$1" --threads 1 --port 0 "$2" >"$dir/serve.log" 2>&1 &
    server=$!
    port_of "$dir/serve.log" || say "serve does not start: $(cat "$dir/serve.log")"
}
end_serve() {
    kill "$server"
    wait "$server" || say "serve over $ranks ranks: $(cat "$dir/serve.log")"
}
# post PATH BODY
post() { curl -s --max-time 60 "http://127.0.0.1:$port$1" -H 'Content-Type: application/json' -d "$2"; }

# Answers of serve, to two requests at once, where curl is at hand.
complete() {
    post /v1/completions "{\"prompt\": \"What is $1 plus 2?\", \"max_tokens\": 12, \"temperature\": 0}" |
        grep -o '"text": *"[^"]*"' >"$2"
}
servers='1 2 3'
command -v curl >/dev/null || servers=
for ranks in $servers; do
    serve_over $ranks "$dir/p.bin"
    complete 3 "$dir/first$ranks" &
    client=$!
    complete 8 "$dir/second$ranks"
    wait $client
    end_serve
    [ -s "$dir/first$ranks" ] && cmp "$dir/first1" "$dir/first$ranks" && cmp "$dir/second1" "$dir/second$ranks" ||
        say "serve over $ranks ranks differs"
done
for name in embeddings/qwen3 embeddings/qwen3_reranker classifiers/bert classifiers/qwen3; do
    case $name in
    embeddings/qwen3) path=/v1/embeddings body='"input": ["the cat", "a dog ran"]' ;;
    *) path=/v1/rerank body='"query": "the cat", "documents": ["a dog ran over the hill", "The cat sat on the mat."]' ;;
    esac
    echo "FROM $root/testdata/$name" >"$dir/Modelfile"
    "$spectool" create -f "$dir/Modelfile" -o "$dir/embed.bin" --force >"$dir/log" 2>&1 || say "$name: $(cat "$dir/log")"
    for ranks in $servers; do
        serve_over $ranks "$dir/embed.bin"
        post $path "{\"model\": \"embed\", $body}" | grep -o '"embedding".*\|"results".*' >"$dir/answer$ranks"
        end_serve
        [ -s "$dir/answer$ranks" ] && cmp "$dir/answer1" "$dir/answer$ranks" || say "$path of $name over $ranks ranks differs"
    done
done

# The messages and bytes of a pass of one row, computed from the shapes: a message has a head, a description of the products
# and of the rows, and the codes and scales of a row; each part is rounded up to 64 bytes. An answer has floats, or
# codes and scales for the gated rows of an MLP; that of the logits has the largest one and its place, as bench reads no more. Rank 1 of 2 has the second half of the blocks of 32 rows. If there are
# several kv heads, the message of q, k and v is one of attention: a head, a description of the sequence, a range, a
# rotation, the second half of the biases, and the message of the products; its answer is the codes of the second half of
# the attended row.
up() { echo $((($1 + 63) / 64 * 64)); }
half() { echo $(($1 - ($1 + 31) / 32 / 2 * 32)); }
sent() { echo $((64 + $(up $((56 * $2))) + 64 + $(up "$1") + $(up $(($1 / 8))))); }
floats() { up $((4 * $(half "$1"))); }
codes() { echo $(($(up "$(half "$1")") + $(up $(($(half "$1") / 8))))); }
# exchanges MODEL LAYERS HIDDEN Q KV KV_HEADS ROTATED INNER: the one with several kv heads has biases
exchanges() {
    echo "FROM $root/testdata/$1" >"$dir/Modelfile"
    layers=$2 hidden=$3 q=$4 kv=$5 rotated=$7 inner=$8
    heads=$(sent $hidden 3) made=$(($(floats $q) + 2 * $(floats $kv)))
    if [ "$6" -gt 1 ]; then
        heads=$((heads + 2 * 64 + $(up 24) + $(up 16) + 2 * $(up $((2 * rotated))) + $(up $((2 * q))) + 2 * $(up $((2 * kv)))))
        made=$(codes $q)
    fi
    "$spectool" create -f "$dir/Modelfile" --quantize q8 -o "$dir/target.bin" --force >"$dir/log" 2>&1 || say "$(cat "$dir/log")"
    "$spectool" bench --ranks 2 --threads 1 --json --ids 1,2,3 --num-predict 2 --repeat 1 --depths 4 "$dir/target.bin" \
        >"$dir/bench" 2>&1 || say "$(cat "$dir/bench")"
    want="\"messages\": $((4 * layers + 1)), \"sent_bytes\": $((layers * (heads + $(sent $q 1) + $(sent $hidden 2) +
        $(sent $inner 1)) + $(sent $hidden 1))), \"received_bytes\": $((layers * (made + $(floats $hidden) +
        $(codes $inner) + $(floats $hidden)) + 64)),"
    grep -q "$want" "$dir/bench" || say "$1: exchange: $(grep -o '"exchange".*"share"' "$dir/bench"), expected $want"
    [ "$(grep -o '"network"' "$dir/bench" | wc -l)" -eq 3 ] || say 'bench predicts nothing'
}
exchanges tiny/target 6 192 192 64 1 64 512
exchanges families/glm 3 32 64 32 2 8 64

# Ranks need little address space. The memory of sanitizers exceeds the limit without them.
if (ulimit -v 8000000 && "$spectool" --version) >/dev/null 2>&1; then
    (ulimit -v 8000000 && "$spectool" run --ranks 4 --threads 1 --num-predict 2 --ids 1 "$dir/p.bin") >"$dir/log" 2>&1 ||
        say "limited address space: $(cat "$dir/log")"
fi
"$spectool" run --ranks 2 --huge-pages "$dir/p.bin" x >"$dir/log" 2>&1
[ $? -eq 4 ] || say "huge pages: $(cat "$dir/log")"

# gone PID...: true if none of the processes runs; a container may lack an init that reaps
gone() {
    for pid; do ! grep -q '^State:[[:blank:]]*[^ZX[:blank:]]' "/proc/$pid/status" 2>/dev/null || return 1; done
}

# start COMMAND: in the background with three ranks; it works until it is ended
start() {
    : >"$dir/err"
    case $1 in
    bench) "$spectool" bench --ranks 3 --threads 1 --repeat 1000 --ids 1,2,3 "$dir/p.bin" >/dev/null 2>"$dir/err" & ;;
    run)
        "$spectool" run --ranks 3 --threads 1 --ids 1,2,3 --num-predict 2000 --ignore-eos --no-cache "$dir/p.bin" \
            >/dev/null 2>"$dir/err" &
        ;;
    batch)
        yes '"What is 1 plus 2?"' | "$spectool" run --batch --ranks 3 --threads 1 --num-predict 50 --no-cache "$dir/p.bin" \
            >/dev/null 2>"$dir/err" &
        ;;
    serve | busy) "$spectool" serve --ranks 3 --threads 1 --port 0 "$dir/p.bin" >/dev/null 2>"$dir/err" & ;;
    esac
    first=$!
    [ "$1" != busy ] || keep_busy &
}

# Sends requests to the server until it is gone.
keep_busy() {
    port_of "$dir/err" || return
    while kill -0 $first 2>/dev/null; do
        post /v1/completions '{"prompt": "What is 1 plus 2?", "max_tokens": 200, "temperature": 5}' >/dev/null
    done
}

# ends_with_rank COMMAND: kills rank 0 or another, by $role, $delay after the start; all processes must end
ends_with_rank() {
    start "$1"
    command=$1
    for try in $(seq 600); do
        # shellcheck disable=SC2046 # numbers
        set -- $(cat "/proc/$first/task/$first/children" 2>/dev/null)
        [ $# -lt 2 ] || break
        sleep 0.1
    done
    if [ $# -ne 2 ]; then
        say "a running $command has $# other ranks: $(cat "$dir/err")"
        return
    fi
    sleep "0.$delay"
    victim=$2
    [ "$role" = other ] || victim=$first
    killed=yes
    kill -KILL "$victim" 2>/dev/null || killed=no
    wait $first 2>/dev/null
    status=$?
    for try in $(seq 300); do
        gone "$1" "$2" && break
        sleep 0.1
    done
    gone "$1" "$2" || say "processes are left after rank $role of $command was killed"
    [ "$role" = first ] || [ $command$killed$status = runno0 ] || # it was at its end
        { [ $status -eq 5 ] && grep -q '^spectool: rank [12] of 3 was ended by signal 9$' "$dir/err"; } ||
        say "rank $role of $command was killed, status $status: $(cat "$dir/err")"
}
[ "$scope" = all ] && instants=$(seq 10 7 360) || instants='05 3'
commands='run batch serve busy bench'
[ -n "$servers" ] || commands='run batch serve bench'
for command in $commands; do
    for delay in $instants; do
        for role in other first; do ends_with_rank $command; done
    done
done
[ "$scope" = sample ] || echo "$n_models models, $n_runs runs"
exit $bad
