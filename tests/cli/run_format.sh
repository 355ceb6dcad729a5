# Structured output: a JSON schema, a grammar, any JSON object, with and without drafting.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
printf '%s' '{"type":"object","properties":{"name":{"enum":["Mia","Finn"]},"age":{"type":"integer",
"minimum":3,"maximum":12},"likes":{"type":"array","items":{"enum":["owls","foxes"]},"minItems":2,
"maxItems":2}},"required":["name","age","likes"]}' >child.json
echo 'root ::= ("- " [a-z]{3,8} "\n"){3}' >list.gbnf
for form in child.json list.gbnf; do
    for options in '--no-draft' '--draft-depth 7' '--kernels scalar' '--draft-by lookup'; do
        spectool run packed.bin --raw 'Once upon a time' --format $form $options 2>/dev/null
    done
    spectool verify packed.bin --lossless 'Once upon a time' --format $form | sed 's/(logits.*//'
done
spectool run packed.bin --raw '{' --format json --num-predict 12 2>/dev/null | head -c 1
echo
spectool run packed.bin hi --format child.json --ignore-eos
echo "exit $?"
spectool run packed.bin hi --format missing.json
echo "exit $?"
echo '{"type":"object","$dynamicRef":"#"}' >not.json
spectool run packed.bin hi --format not.json
echo "exit $?"
echo 'root ::= "a" | b' >bad.gbnf
spectool verify packed.bin --lossless hi --format bad.gbnf
echo "exit $?"
# The content decides whether a file is a schema or a grammar. Its name and a byte order mark do not.
for form in '\357\273\277 {"enum":["owl"]}' '\357\273\277root ::= "owl"' '[{"enum":["owl"]}]' 'false\n' \
    '\ntrue ' null '"owl"' 'true ::= "owl"\nroot ::= true' true,; do
    printf "$form" >form
    spectool run packed.bin --raw 'Once upon a time' --num-predict 8 --format form 2>err
    grep '^spectool' err
done
# A schema from a pipe, as in a shell's <(command), and from standard input.
mkfifo pipe
printf '{"enum":["owl"]}' >pipe &
spectool run packed.bin hi --format pipe 2>/dev/null
printf '{"enum":["fox"]}' | spectool run packed.bin hi --format - 2>/dev/null
printf '{"enum":' | spectool run packed.bin hi --format -
echo "exit $?"
cp -r "$TESTDATA/tiny/target" bare
rm bare/tokenizer*
printf 'FROM ./bare\n' >bare.model
spectool create -f bare.model -o bare.bin 2>/dev/null
spectool run bare.bin --ids 1,2,3 --format json
echo "exit $?"
