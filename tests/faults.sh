#!/bin/bash
# Failing calls: every command runs with one call of its process failing, or killed there, by
# tests/support/fault_preload.c, and must end with the right status, without a leak, and with no
# file but a whole one under the output's name.
#
# usage: faults.sh SPECTOOL PRELOAD memory|files|threads|network|kill [SAMPLES]    SAMPLES: calls of each command;
#                                                                  default 12, 0: all of them
set -u
program=$(realpath "$1") preload=$(realpath "$2") kind=$3 samples=${4:-12}
tiny=$(realpath "$(dirname "$0")/../testdata/tiny")
adapters=$(realpath "$(dirname "$0")/../testdata/adapters")
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
    input=/dev/null
    case $name in
    replace | quantize_in_place) cp base.bin out/x.bin ;;
    batch) input=lines && cp kept out/x ;;
    calibrate_again) cp measured out/x.bin.sensitivity ;;
    esac
    (
        FAULT_CALLS=$calls FAULT_AT=$1 FAULT_ERRNO=$errno FAULT_REPORT=report LD_PRELOAD=$preload \
            "$program" "${command[@]}" >text 2>err <$input
        exit $?
    ) 2>/dev/null # the shell's word about a killed process
    status=$?
    n_runs=$((n_runs + 1))
    [ "$name" != batch ] || sed -i 's/, "prompt_seconds": .*//' out/x # without times
}

# The folder has what it had before the command, or what the clean run made.
check_output() {
    case $name in
    replace | quantize_in_place)
        cmp -s out/x.bin clean/x.bin || cmp -s out/x.bin base.bin || problem 'the old file is damaged'
        ;;
    batch)
        ! grep -vxF -f clean/x -f kept out/x | grep -v '"error": ' || problem 'an answer is another one'
        [ "$(head -1 out/x)" = "$(head -1 kept)" ] || problem 'a kept answer is lost'
        ;;
    *)
        [ ! -e out/x.bin.sensitivity ] || continue_measurement
        [ -z "$(ls -A out)" ] || diff -r out clean >/dev/null || problem 'its output is not whole'
        ;;
    esac
}

# What was measured is kept, and the same command makes the same file from it.
continue_measurement() {
    if [ -e out/x.bin ]; then rm out/x.bin.sensitivity; else "$program" "${command[@]}" 2>err; fi
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
        case $name in replace | quantize_in_place | export | calibrate*) rm -rf out/.*.tmp ;; esac
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

# The bodies that serve answers while one of its calls fails.
requests() {
    local message='"messages": [{"role": "user", "content": "What is 7 plus 8?"}], "max_tokens": 6'
    local schema='{"type": "object", "properties": {"a": {"enum": ["b", 1]}}}'
    request /v1/chat/completions "{$message, \"logprobs\": true, \"top_logprobs\": 2}"
    request /v1/chat/completions "{$message, \"stream\": true, \"response_format\":
        {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": $schema}}}"
    request /v1/completions '{"prompt": ["one", "two"], "n": 2, "max_tokens": 3, "echo": true, "logprobs": 1}'
    request /v1/messages "{$message, \"model\": \"base\", \"temperature\": 0, \"stop_sequences\": [\"owl\"]}"
    request /v1/responses '{"input": "What?", "max_output_tokens": 3}'
    request /api/chat "{$message, \"options\": {\"num_predict\": 3, \"dry_multiplier\": 1}}"
    request /tokenize '{"content": "hi there", "with_pieces": true}'
    request /apply-template "{$message}"
    request /api/show '{"model": "base"}'
    request /api/ps
    request /metrics
}

# A request whose response has many headers.
health() {
    request /health
}

# request PATH [BODY]: writes a line "PATH STATUS HEADERS TEXTS"; STATUS is 0 if the connection ended
# without a response.
request() {
    local method=GET body=${2-} reply headers
    [ -z "$body" ] || method=POST
    reply=$(
        exec 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$port" || exit
        printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
            $method "$1" ${#body} "$body" >&3
        timeout 20 cat <&3 | tr -d '\0'
    )
    local code=${reply#HTTP/1.1 }
    [ -n "$reply" ] || code=0
    headers=$(sed -nE '/^\r?$/q; s/^([A-Za-z-]+): .*/\1/p' <<<"$reply" | grep -v X-Prompt-Seconds | sort | tr '\n' ' ')
    echo "$1 ${code%% *} $headers$(grep -oE '"(content|text|delta|error)": ?"[^"]*"' <<<"$reply" | tr -d '\n')" >>replies
}

# Requests to two models of which one is open at a time.
reload() {
    for model in base second base; do
        request /v1/completions "{\"model\": \"$model\", \"prompt\": \"one\", \"max_tokens\": 2}"
        request /v1/completions "{\"model\": \"$model\", \"prompt\": \"two\", \"max_tokens\": 3, \"stream\": true}"
    done
}

# Requests to a model and to adapters of it.
adapted() {
    for model in base attention mlp; do
        request /v1/completions "{\"model\": \"$model\", \"prompt\": \"one\", \"max_tokens\": 2}"
    done
    request /v1/models
}

# serve_attempt AT REQUESTS: starts a server, sends the requests of a function and ends it.
serve_attempt() {
    local pid models=base.bin
    [ "$2" != reload ] || models='base.bin second.bin --max-models 1'
    [ "$2" != adapted ] || models="base.bin --adapter attention=$adapters/tiny_attention --adapter mlp=$adapters/tiny_mlp"
    rm -f report replies err
    FAULT_CALLS=$calls FAULT_AT=$1 FAULT_ERRNO=$errno FAULT_REPORT=report LD_PRELOAD=$preload \
        "$program" serve --port 0 --threads 1 --sessions 2 --sandbox off --cors '*' $models >text 2>err </dev/null &
    pid=$!
    while ! port=$(grep -om1 "http://127.0.0.1:[0-9]*" err 2>/dev/null) && kill -0 $pid 2>/dev/null; do sleep 0.01; done
    port=${port##*:}
    touch replies
    [ -z "$port" ] || "$2"
    kill $pid 2>/dev/null
    wait $pid
    status=$?
    n_runs=$((n_runs + 1))
}

# A server that has started lives, answers as it does without the failure or with an error of its
# own, and ends with status 0.
check_serve() {
    if [ -z "$port" ]; then
        [ "$status" -eq "$expected" ] || problem "status $status, expected $expected"
        return
    fi
    [ "$status" -eq 0 ] || problem "status $status of a server that had started"
    while read -r path code texts; do
        case $code in
        0 | 500 | 503) ;;
        200) [[ $texts == *'"error"'* ]] || grep -qF -- "$path $code $texts" clean_replies || problem "another answer: $path $texts" ;;
        *) problem "$path: $code $texts" ;;
        esac
    done <replies
    read -r _ blocks <report 2>/dev/null || blocks=0
    [ "$blocks" -le "$clean_blocks" ] || problem "$((blocks - clean_blocks)) blocks of memory leak"
}

# faults_serve NAME REQUESTS FIRST SAMPLES: calls from number FIRST on fail, SAMPLES of them or all.
faults_serve() {
    name=$1 at=0 n_calls=0
    serve_attempt 0 "$2"
    read -r n_calls clean_blocks <report
    mv replies clean_replies
    [ "$status" -eq 0 ] && ! grep -v ' 200 ' clean_replies || problem "status $status without a failing call"
    step=1
    if [ "$4" -gt 0 ] && [ "$n_calls" -gt "$4" ]; then step=$((n_calls / $4)); fi
    for ((at = $3; at <= n_calls; at += step)); do
        serve_attempt "$at" "$2"
        check_serve
    done
}

case $kind in
memory) calls=memory errno=12 expected=6 ;;
files) calls=files errno=5 expected=5 ;;
threads) calls=threads errno=11 expected=6 ;;
network) calls=network errno=5 expected=5 ;;
kill) calls=files errno=0 expected=137 ;;
*) exit 2 ;;
esac
"$program" create -f "$tiny/Modelfile.ar" -o base.bin >text 2>err || exit 2
cp base.bin second.bin
if [ "$kind" = network ]; then
    faults_serve serve requests 1 "$samples"
    faults_serve serve_reload reload 1 "$samples"
    [ $failed -eq 0 ]
    exit
fi
echo 'What is 7 plus 8? The owl knows.' >words
calibrate=(calibrate --sensitivity base.bin words --threads 1)
"$program" "${calibrate[@]}" -o calibration.bin 2>err || exit 2
(
    FAULT_CALLS=renameat FAULT_AT=4 FAULT_ERRNO=0 LD_PRELOAD=$preload "$program" "${calibrate[@]}" -o killed
    exit $?
) 2>/dev/null
mv killed.sensitivity measured || exit 2 # what an interrupted measurement leaves
faults create create -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1
faults replace create -q q8 -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1 --force
faults quantize quantize --target q8 base.bin out/x.bin --threads 1
faults quantize_in_place quantize --target q8 out/x.bin --threads 1
faults create_calibrated create -q q4 --calibration calibration.bin -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1
faults calibrate "${calibrate[@]}" -o out/x.bin
faults calibrate_again "${calibrate[@]}" -o out/x.bin
cmp calibration.bin clean/x.bin || failed=1
faults export export base.bin out/x --threads 1
if [ "$kind" = kill ]; then
    calls=linkat errno=-1 # after the new file was named
    faults create_named create -f "$tiny/Modelfile.ar" -o out/x.bin --threads 1
else
    faults run run --threads 1 --num-predict 4 --ids 1,2,3 base.bin
    faults run_adapter run --threads 1 --num-predict 4 --ids 1,2,3 --adapter "$adapters/tiny_mlp" base.bin
    faults show show --json base.bin
    faults verify verify base.bin
    faults lossless verify --lossless --threads 1 --num-predict 3 base.bin
    faults tokenize tokenize base.bin 'hi there'
fi
if [ "$kind" = files ] || [ "$kind" = threads ]; then
    faults_serve serve requests 1 "$samples"
    faults_serve serve_reload reload 1 "$samples"
fi
if [ "$kind" = memory ]; then
    faults_serve serve_adapters adapted 1 "$samples"
    faults_serve serve_reload reload 1 "$samples"
    printf '"one"\n{"custom_id": "b", "prompt": "two", "dry_multiplier": 1}\n%s\n' \
        '{"messages": [{"role": "user", "content": "three"}], "format": "json"}' >lines
    printf '{"ids": [1], "text": "kept", "stop": "end"}\n{"custom_id": "b", "ids": [1' >kept
    faults batch run --batch -o out/x --threads 1 --sessions 1 --num-predict 4 base.bin
    faults_serve serve requests 1 "$samples"
    serve_attempt 0 : # the calls after its last one belong to the request and its response
    read -r n_start _ <report
    faults_serve headers health "$n_start" 0
fi
[ $failed -eq 0 ] || exit 1
