# Quality on a text with an f32 cache. No figure depends on the machine; test_evaluation compares the
# figures of its models with other implementations.
figures() { tr ',' '\n' | grep "$1"; }
# The weights that q4 encodes may change with the encoder; see test_codec.
mask() { sed '2,$s/[+-]*[0-9][0-9.]*/N/g; s/\[.*\]/[N]/'; }
cat >text <<'END'
Once upon a time there was a shy rabbit named Finn. Finn lived in a cave near the sea with a frog
named Clara. Every day they went to the sea.
<|im_start|>user
What is 7 plus 8?<|im_end|>
<|im_start|>assistant
7 plus 8 is 15.<|im_end|>
Count from 3 to 15.
3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
END
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 -o q4.bin 2>/dev/null
spectool eval packed.bin --text text --kv-type f32 --places 4
echo '# against another file and a checkpoint: the same; windows'
spectool eval q4.bin --text text --kv-type f32 --against packed.bin --places 0 >file
mask <file
mkdir tmp
TMPDIR=$PWD/tmp spectool eval q4.bin --text text --kv-type f32 --against "$TESTDATA/tiny/target" --draft-depth 0 |
    sed "s,$TESTDATA/tiny/target,packed.bin," | cmp - file && ls -A tmp
spectool eval q4.bin --num-ctx 32 --stride 24 --places 0 --text - <text | head -n 1
spectool eval q4.bin --num-ctx 32 --windows 2 --places 0 -t 1 -f - <text | head -n 1
echo '# JSON; neither threads nor kernels change a digit'
spectool eval q4.bin --text text --against packed.bin --places 2 --num-predict 8 --draft-depth 3 --json >one
spectool eval q4.bin --text text --against packed.bin --places 2 --num-predict 8 --draft-depth 3 --json \
    --threads 1 --kernels scalar | cmp - one && echo same
grep -o '"[a-z_0-9]*": ' one | tr -d '\n'; echo
(echo; grep -o '"draft": {.*' one) | mask
spectool eval q4.bin --ids 582,580,258,421 --json --places 0 | figures '"tokens\|scored\|bytes\|reference\|draft'
echo '# several texts, and a second file on the same positions'
head -n 2 text >story
echo "FROM $TESTDATA/tiny/ar" >Modelfile
spectool create -o ar.bin 2>/dev/null
spectool eval packed.bin --text text --text story --against ar.bin --kv-type f32 --places 2 --num-predict 16
spectool eval ar.bin packed.bin --text text --text story --kv-type f32 --places 0
terminal -c 60 spectool eval ar.bin --text text --text story --against packed.bin --kv-type f32 --places 0 </dev/null |
    tr '\r' '\n' | grep '^  '
spectool eval ar.bin packed.bin --text text --against packed.bin --kv-type f32 --places 0
spectool eval ar.bin packed.bin --text text --text story --against packed.bin --places 0 --json >both
head -n 1 both | figures '"name\|digest\|"tokens\|divergence_50'
tail -n 1 both | grep -o '"[a-z_0-9]*": ' | tr -d '\n'; echo
xxhsum -q -H2 text 2>/dev/null | grep -q "$(grep -o '"digest": "[^"]*' both | head -n 1 | cut -d '"' -f 4)" || ! command -v xxhsum >/dev/null || echo 'another digest'
echo '# refusals'
sed 's/<|im_start|>/<|im_begin|>/' "$TESTDATA/tiny/target/tokenizer.json" >tokenizer.json
mkdir other && mv tokenizer.json other
for file in config.json generation_config.json model.safetensors; do ln -s "$TESTDATA/tiny/target/$file" other; done
TMPDIR=$PWD/tmp spectool eval q4.bin --text text --against other; echo "exit $?"
TMPDIR=$PWD/tmp spectool eval q4.bin --text text --against tmp; echo "exit $?"
TMPDIR=nowhere spectool eval q4.bin --text text --against other 2>&1 | sed 's/spectool\.[^:]*:/spectool.X:/'
ls -A tmp
spectool eval q4.bin; echo "exit $?"
spectool eval q4.bin --text text --ids 1,2; echo "exit $?"
spectool eval q4.bin --text nothere; echo "exit $?"
printf 'a\377b' | spectool eval q4.bin --text -; echo "exit $?"
spectool eval q4.bin --text - </dev/null; echo "exit $?"
spectool eval q4.bin --text text --num-ctx 4096; echo "exit $?"
spectool eval q4.bin --text text --num-ctx 32 --stride 32; echo "exit $?"
spectool eval packed.bin other.bin --text text; echo "exit $?"
echo 'FROM other' >Modelfile && spectool create -o renamed.bin 2>/dev/null
spectool eval packed.bin renamed.bin --text text; echo "exit $?"
spectool eval packed.bin text; echo "exit $?"
