# Every parameter of a Modelfile reaches `run`. The command line precedes the packed file, the checkpoint
# and the built-in defaults, in this order.
settings() { spectool run "$@" --verbose --ids 582,580 --num-predict 1 2>&1 >/dev/null | sed -n '/^  /p'; }
cp -r "$TESTDATA/tiny/target" "$TESTDATA/tiny/ar" .
sed -i 's/"do_sample": false/"do_sample": true, "top_k": 7/' target/generation_config.json
cat >Modelfile <<'END'
FROM ./target
DRAFT ./ar
PARAMETER num_ctx 100
PARAMETER num_predict 5
PARAMETER seed 11
PARAMETER temperature 0.5
PARAMETER top_k 9
PARAMETER min_p 0.01
PARAMETER typical_p 0.99
PARAMETER repeat_last_n 12
PARAMETER repeat_penalty 1.01
PARAMETER presence_penalty 0.02
PARAMETER frequency_penalty 0.03
PARAMETER top_n_sigma 1.25
PARAMETER xtc_probability 0.15
PARAMETER xtc_threshold 0.2
PARAMETER dry_multiplier 0.8
PARAMETER dry_base 1.5
PARAMETER dry_allowed_length 3
PARAMETER dry_penalty_last_n 500
PARAMETER dry_sequence_breakers "from the file"
PARAMETER dry_sequence_breakers """
"""
PARAMETER stop from the file
PARAMETER stop "<|im_end|>"
PARAMETER draft_num_predict 0
PARAMETER num_thread 1
END
spectool create 2>/dev/null
settings packed.bin
settings packed.bin --top-k 3 --temperature 0 --stop 'from here' --threads 2 --draft-depth 2 --dry-base 2 --dry-sequence-breaker none
spectool run packed.bin --ids 582,580 --json | tail -n 1 | sed 's/.*\("stop": "[a-z]*"\).*\("drafted": [0-9]*\).*\("seed": [0-9]*\).*\("threads": [0-9]*\).*/\1 \2 \3 \4/'

# A special token as stop text ends the answer, although the text does not contain it. The template's own
# end of a turn also ends it if the checkpoint names no end token.
sed -i '/eos_token_id/,/]/d' target/generation_config.json
sed -i 's/"eos_token_id": [0-9]*/"eos_token_id": 3/' target/config.json
echo '# in vain'
spectool run packed.bin --ids 582 --num-predict 1 --stop ''
spectool run packed.bin --ids 582 --num-predict 1 --stop "$(printf %4097s)"
printf 'FROM ./target\nPARAMETER num_ctx 999999\n' >Long
spectool create -f Long -o long.bin 2>/dev/null
spectool run long.bin --ids 582 --num-predict 1 2>&1 >/dev/null | grep note
echo 'FROM ./target' >Plain
spectool create -f Plain -o plain.bin 2>/dev/null
spectool run plain.bin 'What is 7 plus 8?' --temperature 0 --num-predict 20 2>/dev/null
for stop in '' '<|im_end|>'; do
    spectool run plain.bin --raw '<|im_start|>user
What is 7 plus 8?<|im_end|>
<|im_start|>assistant
' --temperature 0 --num-predict 20 ${stop:+--stop "$stop"} 2>/dev/null
done
spectool run plain.bin --ids 582 --num-predict 1 --draft-by model --draft-depth 3 --show-draft 2>&1 >/dev/null | grep note
spectool run packed.bin --ids 582 --num-predict 1 --no-draft --draft-depth 3 --verbose 2>&1 >/dev/null | grep -e note -e '^draft '

echo '# a checkpoint that samples, and says no more, means a temperature of 1'
generation() {
    echo "$1" >target/generation_config.json
    rm -f plain.bin
    spectool create -f Plain -o plain.bin 2>&1 | grep -e note -e spectool
}
from_checkpoint() { settings plain.bin | grep generation_config; }
generation '{"do_sample": true, "top_p": 0.95, "min_p": null, "repetition_penalty": 1.05}'
from_checkpoint
generation '{"do_sample": false, "temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05}'
from_checkpoint
echo '# what nothing here reads is named, what cannot be read is refused'
generation '{"num_beams": 1, "max_new_tokens": 2048, "suppress_tokens": [7, 8], "bad_words_ids": [], "guidance_scale": null, "max_length": 20, "token_healing": true, "dola_layers": "low"}'
echo '# of the keys that transformers has, each is read, changes no text, or is named, and so is an unknown one'
notes=$(generation "$(awk -F'\t' '{ gsub(/\*/, "x"); printf "%s\"%s\": %s", NR == 1 ? "{" : ", ", $1, $2 } END { print ", \"new_key\": 7}" }' \
    "$TESTDATA/config/generation_keys.txt")" | sed 's/.*json: //; s/ has no effect//')
[ "$notes" = "$(grep 'noted: ' "$TESTDATA/config/generation_keys.txt" | cut -f 1; echo new_key)" ] && echo all || echo "$notes"
for wrong in 'no json' '[]' '{"eos_token_id": "x"}' '{"do_sample": "yes"}'; do
    generation "$wrong"
done
echo '# of values that cannot be used the checkpoint has the default; -1 is off, whole numbers may be written as others'
generation '{"do_sample": true, "top_k": 30.0, "top_p": 7, "repetition_penalty": 0, "eos_token_id": [2, null, -1]}'
from_checkpoint
generation '{"do_sample": true, "top_k": -1}'
from_checkpoint
