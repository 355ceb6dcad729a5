# One server, one packed file with a draft, two adapters: each answer is the one that it is alone.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
a=$TESTDATA/adapters
cp -r "$a/tiny_mlp" double
sed 's/"lora_alpha": 12/"lora_alpha": 24/' "$a/tiny_mlp/adapter_config.json" >double/adapter_config.json
spectool serve packed.bin --port 0 --sessions 6 --no-cache --adapter "attention=$a/tiny_attention" \
    --adapter "mlp=$a/tiny_mlp" --adapter double=double --quiet --record log 2>first &
server=$!
for _ in $(seq 600); do
    grep -q http first 2>/dev/null && break
    sleep 0.05
done
url=$(sed -n 's/.*\(http:.*:[0-9]*\)$/\1/p' first)
prompts='1 2 3'
post() {
    curl -s "$url$1" -H 'Content-Type: application/json' -d "$2"
}
# ask MODEL PROMPT [LORA]: the text of a completion that EOS does not end, and its log-probabilities.
ask() {
    post /v1/completions "{\"model\": \"$1\", \"prompt\": \"The number $2 is\", \"max_tokens\": 24,
        \"lora\": [$3], \"temperature\": 0, \"logprobs\": 1, \"logit_bias\": {\"1598\": -100}}" |
        sed 's/"id": *"[^"]*"//; s/"created": *[0-9]*//; s/"model": *"[^"]*"//; s/"usage".*//'
}
text() {
    sed 's/.*"text": *\("\([^"\\]\|\\.\)*"\).*/\1/' "$@"
}
curl -s "$url/v1/models" | grep -o '"id": \?"[^"]*"'
curl -s "$url/api/tags" | grep -o '"model": \?"[^"]*"'
curl -s "$url/v1/models/mlp" | grep -o '"id": \?"[^"]*"'
echo '# interleaved'
for p in $prompts; do
    for m in packed attention mlp; do
        ask $m "$p" >"together.$m.$p" &
        echo $! >>pids
    done
done
for pid in $(cat pids); do wait "$pid"; done
echo '# one after another, and by run'
for p in $prompts; do
    for m in packed attention mlp; do
        ask $m "$p" >"alone.$m.$p"
        cmp "together.$m.$p" "alone.$m.$p" && test -s "alone.$m.$p" || echo "differs: $m $p"
        adapter=
        [ $m = packed ] || adapter="--adapter $a/tiny_$m"
        for draft in --no-draft '--draft-by model' '--draft-by lookup'; do
            # shellcheck disable=SC2086
            spectool run packed.bin $adapter $draft --raw --no-cache --json --num-predict 24 \
                --temperature 0 --logit-bias 1598=-100 --logits-digest "The number $p is" \
                2>/dev/null | tail -n 1 >"json.$m.$p"
            text "json.$m.$p" >"run.$m.$p"
            text "alone.$m.$p" >"text.$m.$p"
            grep -o '"logits_xxh3": *"[^"]*"' "json.$m.$p" >>"digests.$m.$p"
            cmp "run.$m.$p" "text.$m.$p"
        done
        sort -u "digests.$m.$p" | wc -l
    done
    cmp -s "digests.packed.$p" "digests.attention.$p" && echo 'the adapter changed nothing'
    cmp -s "digests.packed.$p" "digests.mlp.$p" && echo 'the adapter changed nothing'
done
echo '# by number and scale'
curl -s "$url/lora-adapters" | sed "s|$a/||g; s/}, *{/\n /g"
echo
for p in $prompts; do
    ask packed "$p" '{"id": 1, "scale": 2}' >"scaled.$p" &
    scaled=$!
    ask packed "$p" '{"id": 0, "scale": 0}, {"id": 1, "scale": 1}' | cmp - "alone.mlp.$p"
    ask packed "$p" '{"id": 1, "scale": 0}' | cmp - "alone.packed.$p"
    wait "$scaled"
    ask double "$p" | cmp - "scaled.$p"
    cmp -s "scaled.$p" "alone.mlp.$p" && echo 'the scale changed nothing'
done
echo '# refusals'
ask packed 1 '{"id": 1, "scale": 1}, {"id": 0, "scale": 0.5}'
echo
ask packed 1 '{"id": 3, "scale": 1}'
echo
ask packed 1 '{"id": 0, "scale": 1e9}'
echo
ask mlp 1 '{"id": 0, "scale": 1}'
echo
post /v1/embeddings '{"model": "mlp", "input": "a"}'
echo
post /v1/completions '{"model": "other", "prompt": "a"}'
echo
kill "$server"
wait "$server"
echo '# recorded'
replay() {
    spectool replay log packed.bin --adapter "$a/tiny_mlp" --adapter double "$@" 2>&1 | sed 's/log:[0-9]*/log/'
}
replay --adapter "$a/tiny_attention" --kernels scalar --threads 1
replay
try() {
    spectool serve packed.bin --port 0 "$@"
    echo "exit $?"
}
try --adapter mlp
try --adapter "mlp=$a/tiny_mlp" --adapter "mlp=$a/tiny_attention"
try --adapter "packed=$a/tiny_mlp"
try --adapter "other=$a/dora"
try packed.bin --adapter "mlp=$a/tiny_mlp"
spectool run packed.bin --adapter "$a/missing" x
echo "exit $?"
