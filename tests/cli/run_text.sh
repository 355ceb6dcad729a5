# Generates text from a prompt, streamed and with stop texts, and prints the sources of settings. The text
# does not depend on drafting, threads or kernels. On a busy machine run may report that drafting did not
# pay.
figures() { sed 's/[0-9.]* tokens\/s.*/.../; /^drafting does not pay/d'; }
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
spectool run packed.bin --raw 'Once upon a time' --num-predict 24 2>figures
figures <figures
for options in '--no-draft' '--draft-depth 0' '--draft-depth 3 --threads 1' '--kernels scalar' '--ids 582,580,258,421'; do
    prompt='Once upon a time'
    case $options in --ids*) prompt= ;; esac
    spectool run packed.bin --raw $options ${prompt:+"$prompt"} --num-predict 24 2>/dev/null
done
printf 'Once upon a time' | spectool run packed.bin --raw --num-predict 24 - 2>/dev/null
printf 'Once upon a time' | spectool run packed.bin --raw --stop 'Finn. Finn' 2>/dev/null
# a file without a tokenizer reads and prints ids, equal to those of the complete file
mkdir bare
cp "$TESTDATA/tiny/target/config.json" "$TESTDATA/tiny/target/model.safetensors" bare
printf 'FROM ./bare\n' >bare.model
spectool create -f bare.model -o bare.bin 2>/dev/null
spectool run bare.bin --ids 582,580,258,421 --num-predict 8 2>/dev/null
spectool run packed.bin --ids 582,580,258,421 --num-predict 8 --json 2>/dev/null | tail -n 1 |
    sed 's/.*"ids": \[\([0-9, ]*\)\].*/\1/; s/ //g'
# an answer that cannot be written ends with the reason
spectool run packed.bin --raw 'Once upon a time' 2>&1 >/dev/full | grep -v 'tokens/s'
spectool run packed.bin --raw ''
echo "exit $?"
spectool run packed.bin --ids 99999
echo "exit $?"
spectool run packed.bin --raw x --num-ctx 999999
echo "exit $?"
echo '# a script is told once of an answer that is long and has no limit'
spectool run --ignore-eos --temperature 1.5 --seed 3 --no-draft packed.bin 'Tell me a story' 2>long | wc -c | sed 's/^[0-9]\{4,\}$/long/'
grep -c 'long and has no limit' long
spectool run --ignore-eos -n 1500 --temperature 1.5 --seed 3 --no-draft packed.bin 'Tell me a story' 2>&1 >/dev/null | grep -c 'long and has no limit'
spectool run packed.bin --raw --system 'Be brief.' x
