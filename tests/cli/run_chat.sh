# Prompts with the chat template of the checkpoint, and with that of a Modelfile with SYSTEM and MESSAGE.
# A prompt has as many tokens as the output of `render`.
ask() { spectool run "$@" 2>err; sed 's/[0-9.]* tokens\/s.*/.../' err >&2; }
figures() { sed 's/.*"stop": "\([a-z]*\)".*"prompt_tokens": \([0-9]*\).*/\1 \2/'; }
spectool create -f "$TESTDATA/tiny/Modelfile" -q q4 2>/dev/null
ask packed.bin 'What is the capital of France?'
echo 'What is the capital of France?' | ask packed.bin
ask packed.bin --raw '<|im_start|>user
What is the capital of France?<|im_end|>
<|im_start|>assistant
'
ask packed.bin --no-draft 'What is 7 plus 8?'
ask packed.bin 'What is 7 plus 8?' --stop ' is' --stop unused
echo '[{"role":"user","content":"What is 7 plus 8?"}]' | spectool render packed.bin |
    spectool tokenize --ids packed.bin | tr , "\n" | wc -w
spectool run packed.bin --json 'What is 7 plus 8?' | tail -n 1 | figures

sed "s,\./,$TESTDATA/tiny/," "$TESTDATA/tiny/Modelfile" >Modelfile
cat >>Modelfile <<'END'
TEMPLATE """{{ if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ range .Messages }}{{ if ne .Role "system" }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}{{ end }}<|im_start|>assistant
"""
SYSTEM You are brief.
MESSAGE user What is 2 plus 2?
MESSAGE assistant 2 plus 2 is 4.
PARAMETER stop "plus 8"
END
spectool create -q q4 -o system.bin 2>/dev/null
ask system.bin 'What is the capital of Italy?'
ask system.bin 'What is 7 plus 8?'
cat >messages <<'END'
[{"role":"system","content":"You are brief."}, {"role":"user","content":"What is 2 plus 2?"},
 {"role":"assistant","content":"2 plus 2 is 4."}, {"role":"user","content":"What is 7 plus 8?"}]
END
spectool render system.bin --messages messages | tee text
spectool tokenize --ids system.bin <text | tr , "\n" | wc -w
spectool run system.bin --json 'What is 7 plus 8?' | tail -n 1 | figures
spectool run system.bin --system '' --json 'What is 7 plus 8?' | tail -n 1 | figures
spectool show system.bin --template | head -n 2

cp -r "$TESTDATA/tiny/target" .
echo '{"chat_template": "{{ eos_token }}{{ messages[-1].content }}"}' >target/chat_template.json
echo 'FROM ./target' >Json
spectool create -f Json -o json.bin 2>/dev/null
spectool show json.bin --template; echo

printf 'TEMPLATE {{ if .System }}' >>Modelfile
spectool create -o broken.bin
echo "exit $?"
ls broken.bin 2>/dev/null
spectool run packed.bin ''
echo "exit $?"
spectool run packed.bin --raw --system 'Be brief.' x
printf 'What is 7 plus \377?' | spectool run packed.bin
echo "exit $?"
spectool run packed.bin --system "$(printf 'Be \377.')" x
echo "exit $?"
spectool run packed.bin --num-ctx 12 'What is the capital of France?'
echo "exit $?"
spectool run packed.bin --num-ctx 20 'What is the capital of France?' 2>&1 | sed 's/, .* tokens.s.*/, .../'
yes 'Once upon a time' | head -n 2000 | spectool run packed.bin
echo "exit $?"
spectool run packed.bin 'What is 7 plus 8?' --num-predict -1 --seed -1 2>/dev/null
