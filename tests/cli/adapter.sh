# Merges an adapter at create: the output of create, and the record in the packed file.
a=$TESTDATA/adapters
printf 'FROM %s\nADAPTER %s\nSYSTEM Be brief.\n' "$TESTDATA/families/granite" "$a/tables" >Modelfile
spectool create --dry-run | grep -v 'layers\.[12]\.'
spectool create -q q8 -o q8.bin
spectool create
spectool show packed.bin
spectool show packed.bin --json | grep -o '"adapters": \[[^]]*\]'
spectool show packed.bin --modelfile
echo '# exported and packed again: the same weights'
spectool export packed.bin out
cat out/Modelfile
spectool create -f out/Modelfile -o again.bin 2>/dev/null
spectool show --tensors packed.bin >one
spectool show --tensors again.bin | cmp - one
spectool logits packed.bin --ids 7,99,3 --output one.npy
spectool logits again.bin --ids 7,99,3 --output two.npy
cmp one.npy two.npy && echo 'the same logits'
echo '# of tables that were one'
printf 'FROM %s\nADAPTER %s\n' "$TESTDATA/families/ernie4_5" "$a/tied_head" >Modelfile
spectool create -o tied.bin
spectool export tied.bin tied && grep tie_word tied/target/config.json
spectool create -f tied/Modelfile -o untied.bin 2>/dev/null
spectool logits tied.bin --ids 7,99,3 --output one.npy
spectool logits untied.bin --ids 7,99,3 --output two.npy
cmp one.npy two.npy && echo 'the same logits'
echo '# in GGUF'
printf 'FROM %s\nADAPTER %s\n' "$TESTDATA/families/granite" "$a/gguf/adapter.gguf" >Modelfile
spectool create -o gguf.bin
spectool show gguf.bin | grep -i adapter
echo '# refusals'
printf 'FROM %s\nADAPTER %s\n' "$TESTDATA/tiny/target" "$a/tied_head" >Modelfile
spectool create --force
echo "exit $?"
printf 'GGUF\3\0\0\0' >adapter.gguf
printf 'FROM %s\nADAPTER adapter.gguf\n' "$TESTDATA/tiny/target" >Modelfile
spectool create --force
echo "exit $?"
