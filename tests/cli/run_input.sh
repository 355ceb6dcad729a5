# What a prompt and a model are made of: text from a pipe before PROMPT, a checkpoint folder that is
# packed once, a schema on the command line; and what goes to stderr.
export XDG_CACHE_HOME=$PWD/cache
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
digest() { spectool run packed.bin --json --logits-digest "$@" 2>/dev/null | tail -n 1 | grep -o 'logits_xxh3": "[0-9a-f]*'; }
echo '# text from a pipe, a blank line, PROMPT: one message'
digest "$(printf 'What is\n\n7 plus 8?')" >want
printf 'What is\n' | digest '7 plus 8?' | cmp - want
printf 'What is\r\n\n' >text
digest '7 plus 8?' <text | cmp - want
printf 'What is\n\n7 plus 8?\n' | digest | cmp - want
printf 'What is\n\n7 plus 8?\n' | digest - | cmp - want
printf 'What is\n\n7 plus 8?\n' | digest '' | cmp - want
digest 'What is 7 plus 8?' >want
printf '' | digest 'What is 7 plus 8?' | cmp - want
printf '{"enum":["fox"]}' | spectool run packed.bin --quiet hi --format -
echo '# a schema in place'
spectool run packed.bin --raw --quiet 'Once upon a time' --format ' {"enum":["owl"]}'
spectool run packed.bin --raw hi --format '{"enum":'
echo "exit $?"
echo '# short options'
spectool run packed.bin --raw 'Once upon a time' -n 6 -c 40 -t 1 -s 3 --temp 0 --quiet
echo '# a folder is packed once, and again when it changes'
cp -r "$TESTDATA/tiny/target" model
hide() { sed "s,$PWD,PWD,g; s/-[0-9a-f]\{16\}/-HASH/g; s/[0-9.]* tokens\/s.*/.../"; }
spectool run model 'What is 7 plus 8?' 2>&1 | hide
ls cache/spectool/*.bin >first
spectool run ./model 'What is 7 plus 8?' 2>&1 | hide
ls cache/spectool/*.bin | cmp - first
touch -d '2001-01-01' model/config.json
spectool run model 'What is 7 plus 8?' --quiet 2>&1 | hide
ls cache/spectool/*.bin | cmp -s - first || ls cache/spectool/*.bin | wc -l
echo '# in another type, which has a file of its own beside that as stored'
spectool run model -q q4 'What is 7 plus 8?' 2>&1 | hide
spectool run -q q4 ./model 'What is 7 plus 8?' 2>&1 | hide
spectool run model 'What is 7 plus 8?' --quiet 2>&1 | hide
spectool create -q q4 model -o want.bin 2>/dev/null && cmp want.bin cache/spectool/model-q4-*.bin
for file in 'packed.bin -q q4' 'model -q q4 --no-cache' 'model -q q9'; do
    spectool run $file hi
    echo "exit $?"
done
mkdir files && spectool serve --port 0 -q q4 files
echo "exit $?"
cp "$TESTDATA/gguf/olmo2.gguf" model.gguf
spectool run model.gguf --ids 1,2,3 -n 4 2>&1 | hide
spectool run model.gguf --ids 1,2,3 -n 4 --quiet
spectool run model.gguf --ids 1 --no-cache
echo "exit $?"
spectool run model hi --no-cache
echo "exit $?"
mkdir empty
spectool run empty hi 2>&1 | hide
XDG_CACHE_HOME= HOME= spectool run model hi
XDG_CACHE_HOME=/dev/null spectool run model hi
echo '# twelve at once pack a folder, and each of them runs'
rm -r cache
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    spectool run model --ids 1,2,3 -n 4 --quiet >text$i 2>/dev/null || echo "exit $?" &
done
wait
for i in 2 3 4 5 6 7 8 9 10 11 12; do cmp text1 text$i; done
ls cache/spectool/*.bin | wc -l
echo '# an answer that repeats itself is noted once; not when it is sampled'
spectool run packed.bin --raw 'Once' --logit-bias 258=1000 --ignore-eos -n 300 2>&1 >/dev/null | grep note
spectool run packed.bin --raw 'Once' --logit-bias 258=1000 --ignore-eos -n 300 --quiet >/dev/null
spectool run packed.bin --raw 'Once' --logit-bias 258=1000 --ignore-eos -n 300 --temp 1 2>&1 >/dev/null | grep note
echo '# the line of figures has the time of the prompt and that of the first token'
spectool run packed.bin --no-cache 'What is 7 plus 8?' 2>&1 >/dev/null | grep -c '; prompt of 16 in [0-9.]* s, first token after [0-9.]* s;'
spectool run packed.bin --no-cache 'What is 7 plus 8?' --verbose 2>&1 | grep -c '^first token   after [0-9.]* s$'
spectool run packed.bin --no-cache 'What is 7 plus 8?' --json 2>/dev/null | grep -c '"first_token_seconds": [0-9.]*[1-9]'
echo '# a model without reasoning'
spectool run packed.bin hi --think true
echo "exit $?"
spectool run packed.bin hi --think high
spectool run packed.bin 'What is 7 plus 8?' --think false --quiet
