# Packs a Modelfile, prints the packed file's description, and does not overwrite existing files.
m=$TESTDATA/tiny/Modelfile
spectool create -f "$m" --quantize q4 --dry-run | sed -n '1p; /embed_\|layers.0\|fc/p; /^$/,$p'
ls
spectool create -f "$m" -q q4 --threads 1
spectool create -f "$m" -q INT4 --threads 2 -o two.bin
cmp packed.bin two.bin && echo 'the same bytes from one thread and two'
spectool create -f "$m" -q q4
echo "exit $?"
echo "FROM $TESTDATA/tiny/target/" >Modelfile.x
spectool create Modelfile.x
echo "exit $?"
spectool create Modelfile.x -o x.bin
rm Modelfile.x x.bin
spectool create -f "$m" --draft-quantize q8 --force && spectool show packed.bin | sed '1s/,.*//'
spectool verify packed.bin
ls -A
echo '# refusals'
spectool create; echo "exit $?"
spectool create -f "$TESTDATA/tiny/target"; echo "exit $?"
echo 'FROM llama3.2:1b' >Modelfile
spectool create --force; echo "exit $?"
printf 'GGUF\3\0\0\0' >model.gguf
echo 'FROM model.gguf' >Modelfile
spectool create --force; echo "exit $?"
spectool create -f "$m" -o Modelfile --force; echo "exit $?"
echo '# a GGUF file'
echo "FROM $TESTDATA/gguf/olmo2.gguf" >Modelfile.gguf
spectool create -f Modelfile.gguf --dry-run | sed -n '1,3p'
spectool create -f Modelfile.gguf -o gguf.bin && spectool show gguf.bin --modelfile
rm Modelfile.gguf gguf.bin
cat Modelfile
echo '# no head, and a config that does not say that the embedding is one'
cp -r "$TESTDATA/tiny/target" untied
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' untied/config.json
echo 'FROM ./untied' >Untied
spectool create -f Untied -o untied.bin
echo '# a file that may not grow, and one that is cut short while it is in use'
(ulimit -f 8; exec spectool create -f "$m" -o limited.bin); echo "exit $?"
ls -A | grep limited
mkfifo prompts
spectool run two.bin --raw <prompts &
exec 3>prompts
until grep -q two.bin /proc/$!/maps; do sleep 0.02; done
truncate -s 8192 two.bin
(echo Once >&3) # it may have ended already
exec 3>&-
wait $!
echo "exit $?"
rm prompts
echo '# a template that nothing can be made of is told'
printf '{%% for' >untied/chat_template.jinja
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' untied/config.json
spectool create -f Untied -o template.bin
# Types of 2 to 6 bits, their rules, and the format version that has them.
for type in q2 q3 q5 q6; do
    spectool create -f "$m" -q $type --quantize-draft $type --dry-run | grep 'embed_\|layers.0.self_attn.[kq]_proj.weight\|fc\|total'
    spectool create -f "$m" -q $type --quantize-draft $type --quantize-output $type -o $type.bin
    spectool show $type.bin | sed -n '/ types /,/size/p'
    od -An -tu2 -j8 -N4 $type.bin
    spectool verify $type.bin
    spectool quantize --target q4 $type.bin again.bin
    echo "exit $?"
done
# The draft's type by measured acceptance: the same for any number of threads, and the bytes of that
# type; why, in a receipt.
m=$TESTDATA/tiny/Modelfile.ar
spectool create -f "$m" --quantize-draft auto -o auto.bin 2>&1 | sed '/^  /d; s/becomes q[0-9]: .*/becomes .../; s/>.*//'
spectool create -f "$m" --quantize-draft auto -o again.bin --threads 1 2>/dev/null && cmp auto.bin again.bin
spectool show auto.bin | sed -n '/^  draft-type/,/^$/p' | sed 's/q[0-9]/TYPE/g; s/[0-9.]\{3,\}/N/g; s/depth [0-9]*/depth N/'
type=$(spectool show auto.bin | sed -n 's/.*draft-type  chosen \(q[0-9]\) by.*/\1/p')
spectool create -f "$m" --quantize-draft $type -o type.bin 2>/dev/null
spectool show --tensors auto.bin >a && spectool show --tensors type.bin | cmp - a
cmp -i 4096 -n $(awk '{n += $5} END {print n}' a) auto.bin type.bin && echo 'the weights of that type'
spectool create -f "$m" --quantize-draft auto -o auto.bin; echo "exit $?"
spectool create -f "$m" --quantize-draft auto --dry-run -o auto.bin 2>&1 | grep note
printf 'Once upon a time there was a frog. One day\n' >tale
spectool create -f "$m" --quantize-draft auto --draft-text tale -o auto.bin --force 2>&1 | grep 'types of\|.\{80\}'
spectool show auto.bin --json | grep -o '"name":"tale","digest":"[0-9a-f]*"'
spectool quantize --draft q8 type.bin small.bin --requantize 2>/dev/null
spectool create -f "$m" --draft-text tale; echo "exit $?"
echo "FROM $TESTDATA/tiny/target" >Modelfile && spectool create --quantize-draft auto -o none.bin; echo "exit $?"
printf "FROM $TESTDATA/tiny/target\nDRAFT type.bin\n" >Modelfile && spectool create --quantize-draft auto -o none.bin; echo "exit $?"
echo '# a model instead of a Modelfile'
t=$TESTDATA/tiny
spectool create -q q4 -o model.bin "$t/target" 2>/dev/null && spectool show model.bin --modelfile
printf 'FROM target\nDRAFT ar\n' >Modelfile.ar
spectool create -f Modelfile.ar -o records.bin; echo "exit $?"
ln -s "$t/target" target && ln -s "$t/ar" ar
spectool create -q q4 -f Modelfile.ar -o records.bin 2>/dev/null
spectool create -q q4 --draft-model ar target -o both.bin
spectool show --tensors both.bin >a && spectool show --tensors records.bin | cmp - a && echo 'the same tensors'
spectool create "$TESTDATA/gguf/olmo2.gguf" -o gguf.bin 2>&1 | tail -n 1
rm target ar a model.bin records.bin both.bin gguf.bin Modelfile.ar
spectool create -q q4 --draft-model "$t/ar" packed.bin -o copy.bin; echo "exit $?"
spectool create --dry-run "$t/target/model.safetensors" | tail -n 1
for wrong in "--draft-model $t/ar -f $m" "$t" "$t/target/config.json" "--quantize-draft q4 $t/target" someone/model; do
    spectool create $wrong -o new.bin; echo "exit $?"
done
for wrong in "$t/Modelfile" "$t/target/config.json" "$t/target/model.safetensors" "$t/README.md"; do
    spectool run "$wrong" hi; echo "exit $?"
done
spectool verify -q q4 packed.bin; echo "exit $?"

echo '# matrices whose widths no block type can have are counted'
spectool create --bits 2 -o odd.bin "$TESTDATA/gguf/bert.gguf"; echo "exit $?"
spectool create -q q4 -o odd.bin "$TESTDATA/gguf/bert.gguf" 2>&1 | grep width
echo '# on a terminal the next step ends what is printed'
terminal spectool create -o next.bin "$TESTDATA/tiny/target" </dev/null | tr -d '\r' | tail -n 1
terminal spectool create -o embed.bin "$TESTDATA/gguf/bert.gguf" </dev/null | tr -d '\r' | tail -n 1
echo '# types of the draft that are clearly slower end before the last text'
printf "FROM $TESTDATA/tiny/target\nDRAFT $TESTDATA/tiny/target\n" >Modelfile
spectool create -q q4 --quantize-draft auto --force -o auto.bin 2>&1 | grep '[*]'
spectool show auto.bin --json | grep -o '"n_texts":[0-9]'
echo '# the rows of a dry run in 60 columns'
terminal -c 60 spectool create --dry-run -q q4 "$TESTDATA/tiny/target" </dev/null | tr -d '\r' | sed -n '1,4p; /total/,$p'
echo '# one progress bar for all types of --quantize-draft auto'
terminal -c 120 spectool create --force -f "$TESTDATA/tiny/Modelfile" --quantize-draft auto -o auto.bin </dev/null 2>&1 | tr '\r' '\n' |
    grep -o 'type . of 7\|of [0-9.K]* tokens' | sort -u | grep -c tokens
