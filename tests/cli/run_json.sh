# The last object has all results. The ids are those of an independent implementation.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
spectool run packed.bin --ids 582,580,258,421 --num-predict 128 --draft-depth 15 --ignore-eos \
    --kv-type f32 --json --logits-digest >lines
tail -1 lines | sed 's/.*"ids": \[\([^]]*\)\].*/\1/' >ids
tr -d ' \n' <"$TESTDATA/tiny/golden_dflash.json" |
    sed 's/.*"ids":\[582,580,258,421\],"output":\[\([^]]*\)\].*/\1/; s/,/, /g' >golden
echo >>golden
cmp ids golden && echo 'the golden ids'
tail -1 lines | grep -o '"[a-z_0-9]*": ' | sort -u | tr -d '\n'; echo
tail -1 lines | grep -o '"stop": "[a-z]*"'
spectool run packed.bin --ids 582,580,258,421 --num-predict 128 --no-draft --ignore-eos --kv-type f32 \
    --json --logits-digest >plain
for f in lines plain; do tail -1 $f | grep -o '"logits_xxh3": "[0-9a-f]*"' >$f.digest; done
cmp lines.digest plain.digest && echo 'the same logits'
tail -1 plain | grep -o '"rounds": \[[^]]*\]' | head -c 40; echo
spectool run packed.bin --raw 'Once upon a time' --num-predict 2 --json --top-logprobs 2 --no-draft |
    head -4 | sed 's/\(logprob": -[0-9]\.[0-9][0-9]\)[0-9e-]*/\1/g'
