# Embeddings of texts as JSON and as a NumPy array; what is refused.
printf 'FROM %s/embeddings/gemma3\n' "$TESTDATA" >Modelfile
spectool create -o embed.bin 2>/dev/null
spectool show embed.bin | grep -E 'embeddings|longest'
spectool show --json embed.bin | grep -o '"embeddings": {[^}]*}'
spectool embed embed.bin --dimensions 3 'the cat' a >two
cat two
printf '"the cat"\n[0, 32, 1]\n' | spectool embed embed.bin --batch --json --dimensions 2
head -n 1 two >one
printf 'the cat' | spectool embed embed.bin --dimensions 3 --kernels scalar --threads 1 | diff - one
spectool embed embed.bin --ids 0,32,1 --dimensions 2 --prompt ''
spectool embed embed.bin --prompt query --dimensions 3 'the cat'
spectool embed embed.bin --dimensions 3 'task: search result | query: the cat'
spectool embed embed.bin --pooling last --dimensions 3 'the cat'
spectool embed embed.bin -o x.npy 'the cat' a
head -c 100 x.npy | grep -a -o 'shape.: ([0-9, ]*)'
wc -c <x.npy
spectool embed embed.bin -o embed.bin a; echo "exit $?"
spectool embed embed.bin --prompt other a; echo "exit $?"
spectool embed embed.bin --dimensions 65 a; echo "exit $?"
long='the hill and the hill and the hill and the hill and the hill and the hill and the hill and the hill'
spectool embed embed.bin "$long $long $long"; echo "exit $?"
spectool embed embed.bin --truncate --json "$long $long $long" | grep -o '"tokens.*'
spectool embed embed.bin --batch a; echo "exit $?"
echo 3 | spectool embed embed.bin --batch; echo "exit $?"
spectool embed embed.bin --json -o y.npy a; echo "exit $?"
spectool run embed.bin --raw a; echo "exit $?"
spectool export embed.bin folder; echo "exit $?"
printf 'FROM %s/tiny/target\n' "$TESTDATA" >Modelfile
spectool create -o plain.bin 2>/dev/null
spectool embed plain.bin a; echo "exit $?"
spectool embed plain.bin --pooling mean --dimensions 2 a
