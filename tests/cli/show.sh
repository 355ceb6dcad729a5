# The description of a packed file as text, as JSON, and as a Modelfile.
cp -r "$TESTDATA/tiny/target" "$TESTDATA/tiny/ar" .
cat >Modelfile <<'END'
# a comment
FROM ./target
DRAFT ./ar
PARAMETER temperature 0.7
PARAMETER stop "<|im_end|>"
SYSTEM """
You are terse.
Very."""
TEMPLATE {{ .Prompt }}
LICENSE CC0
END
spectool create --quantize q8 2>/dev/null
echo "exit $?"
spectool show packed.bin | sed '1s/,.*//'
spectool show packed.bin --modelfile
spectool show --modelfile packed.bin >Again
spectool create -f Again -o again.bin 2>/dev/null
cmp packed.bin again.bin && echo 'the Modelfile makes the same file'
spectool show packed.bin --template
spectool show packed.bin --json | sed 's/"size": [0-9]*, "identity": "[^"]*"/.../'
spectool show packed.bin --sbom | sed 's/"created": "[^"]*"/"created": .../; s/"[0-9a-f]\{16\}"/DIGEST/g; s/-[0-9a-f]\{16\}"/-DIGEST"/'
grep -v TEMPLATE Modelfile >Plain
spectool create -f Plain -o plain.bin 2>/dev/null
spectool show plain.bin | grep -A1 '^Template'
spectool show packed.bin --metadata | grep stored | sed 's/:.*//'
spectool create -f "$TESTDATA/speculators/pruned/Modelfile" -o pruned.bin 2>/dev/null
spectool show pruned.bin | sed -n '/^Draft/,/reads layers/p'
spectool show plain.bin pruned.bin --json | grep -o '"file": "[^"]*"\|"kind": "[^"]*"'
spectool show plain.bin pruned.bin | sed -n 's/^\([a-z]*.bin\): .*/\1/p'
spectool show plain.bin pruned.bin --metadata | grep '^[a-z]*.bin'
# Control characters of a foreign file are shown as '?', except in the Modelfile that recreates it.
printf 'FROM ./target\nSYSTEM "\033]0;X\007 hi"\n' >Escapes
spectool create -f Escapes -o escapes.bin 2>/dev/null
spectool show escapes.bin | grep SYSTEM
spectool show --modelfile escapes.bin | grep -c "$(printf 'SYSTEM "\033]0;X\007 hi"')"
spectool show nothing.bin
echo "exit $?"
spectool show Modelfile
# A model that is not packed: the given name is printed, FROM has it, and it is read in place.
export XDG_CACHE_HOME=$PWD/cache
printf 'GGUF\3\0\0\0' >model.gguf
spectool show model.gguf 2>broken
echo "exit $?"
tail -n 1 broken
spectool show target | head -n 3
spectool create target -o whole.bin 2>/dev/null
spectool show target | tail -n +2 >a && spectool show whole.bin | tail -n +2 | cmp - a && echo 'as when it is packed'
spectool show target --json | grep -o '"file": "[^"]*"'
spectool show target --modelfile
spectool show target packed.bin --tensors | grep ':$'
spectool show target --json | grep -c identity
ls -d cache 2>/dev/null || echo 'nothing is packed'
