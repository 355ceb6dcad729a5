# Converts text to ids and back, with tokenizers from every kind of source.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
for source in packed.bin "$TESTDATA/tiny/target" "$TESTDATA/tiny/target/tokenizer.json"; do
    spectool tokenize --ids "$source" 'Once upon a time<|im_end|>'
done
spectool tokenize packed.bin 'Once upon a time<|im_end|>'
printf 'a \303\251 b' | spectool tokenize --json packed.bin
printf 'a b' | spectool tokenize --ids packed.bin -
printf '582,580' | spectool detokenize packed.bin -; echo
printf '"Once"\n\n"a\\u0000b"\n""\n' | spectool tokenize --batch packed.bin
spectool detokenize packed.bin 582,580,258,421; echo
spectool detokenize --json packed.bin '582, 580, 1598'
spectool detokenize --json --skip-special packed.bin 582,580,1598
printf '[582, 580]\n[]\n' | spectool detokenize --batch packed.bin
printf '[1]\n{"a"}\n' | spectool detokenize --batch packed.bin
echo "exit $?"
spectool detokenize packed.bin 1,x
echo "exit $?"
spectool tokenize --json packed.bin 'Once upon' | spectool detokenize packed.bin; echo
echo '# ids as several arguments, and the list that tokenize prints'
spectool detokenize packed.bin 582 580, '258 421'; echo
text='Say "special"  9 <|im_end|>'
[ "$(spectool tokenize packed.bin "$text" | spectool detokenize packed.bin)" = "$text" ] && echo 'the same text'
printf '582  "a" 580\n' | spectool detokenize packed.bin
echo "exit $?"
spectool detokenize packed.bin '[1'
echo "exit $?"
spectool detokenize packed.bin --ids 1
echo "exit $?"
spectool tokenize "$TESTDATA/tiny" x
echo "exit $?"
spectool tokenize "$TESTDATA/tiny/Modelfile" a; echo "exit $?"
spectool tokenize "$TESTDATA/tiny/target/model.safetensors" a; echo "exit $?"

echo '# vocab.json and merges.txt in place of tokenizer.json; other files are named'
mkdir files && cp -L "$TESTDATA/tiny/target/"*.json "$TESTDATA/tiny/target/"*.safetensors files && chmod u+w files/*
sed 's/.*"vocab": //; s/, "merges": .*//' files/tokenizer.json >files/vocab.json
{ echo '#version: 0.2'; sed 's/.*"merges": \[\["//; s/"\]\]}}.*//; s/"\], \["/\n/g' files/tokenizer.json | sed 's/", "/ /; s/\\\(.\)/\1/g'; } >files/merges.txt
text=' Once upon a "time" \ 12 }<|im_end|>'
spectool tokenize --ids files "$text" >one && rm files/tokenizer.json && spectool tokenize --ids files "$text" | cmp one - && echo 'the same ids'
spectool create -o files.bin files 2>/dev/null && spectool tokenize --ids files.bin "$text" | cmp one - && echo 'the same ids'
mv files/merges.txt files/tiktoken.model
spectool tokenize files a; echo "exit $?"
spectool create --force -o files.bin files 2>&1 | head -n 1
