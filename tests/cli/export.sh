# Exports a packed file to the checkpoints it was made of, and packs the export again.
spectool create -f "$TESTDATA/tiny/Modelfile" -o p.bin 2>/dev/null
spectool export --dry-run p.bin out | sed -n '1,2p; /0.mlp.down/p; /fc.weight/p'
spectool export p.bin out
(cd out && find . -type f | LC_ALL=C sort && cat Modelfile)
for part in target draft; do
    for f in out/$part/*.json; do
        cmp "$f" "$TESTDATA/tiny/$([ $part = draft ] && echo dflash || echo target)/${f##*/}"
    done
done
spectool create -f out/Modelfile -o again.bin 2>/dev/null
cmp p.bin again.bin && echo 'packed again, the file is the same'
echo '# an export is replaced only by --force, and nothing else ever'
spectool export p.bin out
echo "exit $?"
echo mine >out/target/notes
spectool export --force p.bin out
echo "exit $?"
rm out/target/notes
spectool export --force --shard-size 1MB p.bin out
echo "exit $?"
ls out/target | LC_ALL=C sort
ls -A
echo '# quantized numbers'
spectool create -f "$TESTDATA/tiny/Modelfile" --quantize q4 -o q.bin 2>/dev/null
spectool export q.bin q
spectool export --type f32 q.bin f
diff q/target/config.json f/target/config.json
spectool export --type f32 --dry-run q.bin no | sed -n '1p; /^target.*0.mlp.down/p; /^target.*0.input/p; /fc.weight/p'
echo '# what cannot be'
for size in 0 5TB x 99999999999G; do spectool export --shard-size $size p.bin new; done
spectool export out new
mkdir nothing
spectool export nothing new
spectool export "$TESTDATA/tiny/README.md" new
echo "exit $?"
echo '# a checkpoint'
XDG_CACHE_HOME=$PWD/cache spectool export --shard-size 1MB "$TESTDATA/tiny/target" of-checkpoint 2>/dev/null
diff -r of-checkpoint/target out/target && echo 'the same target'
