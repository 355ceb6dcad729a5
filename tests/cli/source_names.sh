# FROM, DRAFT and run by name: models in Hugging Face's cache and in ollama's store, and what their absence says.
show() { spectool show "$1" --modelfile; rm -f "$1"; }
commit=0123456789abcdef0123456789abcdef01234567
model=hub/models--someone--Tiny-Model
mkdir -p $model/refs $model/snapshots
echo $commit >$model/refs/main
ln -s "$TESTDATA/tiny/target" $model/snapshots/$commit
echo 'FROM someone/Tiny-Model' >Modelfile
spectool create -o a.bin && show a.bin
echo "FROM someone/Tiny-Model@$commit" >Modelfile
spectool create -o a.bin && show a.bin
echo 'DRAFT someone/Tiny-Model' >>Modelfile
spectool create -o a.bin && show a.bin
echo '# GGUF files in the cache'
mkdir -p hub/models--someone--Tiny-GGUF/snapshots/main
cp "$TESTDATA/gguf/olmo2.gguf" hub/models--someone--Tiny-GGUF/snapshots/main/tiny-Q8_0.gguf
echo 'FROM someone/Tiny-GGUF' >Modelfile
spectool create -o a.bin && show a.bin
cp "$TESTDATA/gguf/olmo2.gguf" hub/models--someone--Tiny-GGUF/snapshots/main/tiny-Q4_K_M.gguf
spectool create -o a.bin; echo "exit $?"
for tag in q4_k_m Q8_0 Q4_K; do
    echo "FROM someone/Tiny-GGUF:$tag" >Modelfile
    spectool create -o a.bin && show a.bin; echo "exit $?"
done
mkdir -p hub/models--someone--Folders/snapshots/main/Q8_0 hub/models--someone--Folders/snapshots/main/UD-Q4_K_XL
cp "$TESTDATA/gguf/olmo2.gguf" hub/models--someone--Folders/snapshots/main/Q8_0/tiny-00001-of-00001.gguf
cp "$TESTDATA/gguf/olmo2.gguf" hub/models--someone--Folders/snapshots/main/UD-Q4_K_XL/tiny-UD-Q4_K_XL.gguf
touch hub/models--someone--Folders/snapshots/main/imatrix.gguf hub/models--someone--Folders/snapshots/main/mmproj-F16.gguf
for tag in :Q8_0 :ud-q4_k_xl ''; do
    spectool create --force -o a.bin someone/Folders$tag; echo "exit $?"
done
rm -r hub/models--someone--Folders/snapshots/main/Q8_0
spectool create --force -o a.bin someone/Folders && spectool create --force -o a.bin hub/models--someone--Folders/snapshots/main; echo "exit $?"
echo '# folders and files that are nearly a checkpoint'
for file in adapter_config.json consolidated.safetensors model-00001-of-00002.safetensors pytorch_model.bin model.onnx weights.safetensors; do
    mkdir nearly && echo '{"base_model_name_or_path": "org/base"}' >nearly/$file
    spectool create nearly; echo "exit $?"
    rm -r nearly
done
mkdir nearly && cp "$TESTDATA/tiny/target/config.json" nearly && ln -s ../blobs/none nearly/model.safetensors
spectool create nearly; echo "exit $?"
printf 'FROM\302\240./nearly\n' >Modelfile
spectool create; echo "exit $?"
rm -r nearly
cp -rL "$TESTDATA/tiny/target" nearly && chmod -R u+w nearly && printf '\2\0\0\0\0\0\0\0{}' >nearly/model.safetensors
echo '{"weight_map": {}}' >nearly/model.safetensors.index.json
spectool create nearly; echo "exit $?"
rm -r nearly a.bin
echo '# absent'
for name in someone/other someone/other@v2 someone/Tiny-Model@v9; do
    echo "FROM $name" >Modelfile
    spectool create; echo "exit $?"
done

echo '# ollama'
blob() { printf 'sha256:%s' "$(sha256sum "$1" | cut -c1-64)"; }
mkdir -p ollama/blobs ollama/manifests/registry.ollama.ai/library/tiny ollama/manifests/registry.ollama.ai/me/tiny
store() { cp "$1" "ollama/blobs/$(blob "$1" | tr : -)"; }
printf '{{ .System }} {{ .Prompt }}' >template
printf 'You are small.' >system
printf '{"stop":["<end>","###"],"temperature":0.5,"num_ctx":64}' >params
cp "$TESTDATA/gguf/olmo2.gguf" weights
layers= kind=model
for file in weights template system params; do
    store $file
    [ $file = weights ] || kind=$file
    layers="$layers${layers:+,}{\"mediaType\":\"application/vnd.ollama.image.$kind\",\"digest\":\"$(blob $file)\"}"
done
echo "{\"schemaVersion\":2,\"layers\":[$layers]}" >ollama/manifests/registry.ollama.ai/library/tiny/latest
cp ollama/manifests/registry.ollama.ai/library/tiny/latest ollama/manifests/registry.ollama.ai/me/tiny/1b
echo 'FROM tiny' >Modelfile
spectool create -o a.bin && show a.bin
printf 'FROM me/tiny:1b\nSYSTEM You are large.\nPARAMETER stop |\n' >Modelfile
spectool create -o a.bin && show a.bin
echo "FROM ollama/blobs/$(blob weights | tr : -)" >Modelfile
spectool create -o a.bin && show a.bin
echo 'FROM tiny:8b' >Modelfile
spectool create; echo "exit $?"
echo '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../x"}]}' \
    >ollama/manifests/registry.ollama.ai/library/tiny/bad
echo 'FROM tiny:bad' >Modelfile
spectool create; echo "exit $?"
# an adapter's layer is merged into the model's, as by an ADAPTER line
manifest() { echo "{\"layers\":[$1]}" >ollama/manifests/registry.ollama.ai/library/tiny/$2; }
layer() { printf '{"mediaType":"application/vnd.ollama.image.%s","digest":"%s"}' "$1" "$(blob $2)"; }
cp "$TESTDATA/gguf/granite.gguf" base && cp "$TESTDATA/adapters/gguf/adapter.gguf" lora && store base && store lora
manifest "$(layer model base),$(layer adapter lora)" lora
manifest "$(layer model base),$(layer adapter lora),$(layer adapter lora)" two
manifest "$(layer model base),$(layer adapter base)" wrong
echo 'FROM tiny:lora' >Modelfile
spectool create -o a.bin && spectool show a.bin | grep -i adapter
printf 'FROM base\nADAPTER lora\n' >Modelfile
spectool create -o b.bin
spectool logits a.bin --ids 7,99,3 --output a.npy && spectool logits b.bin --ids 7,99,3 --output b.npy
cmp a.npy b.npy && echo 'the same logits'
for file in 'FROM tiny:two' 'FROM tiny:wrong' "FROM base\nDRAFT tiny:lora" 'FROM tiny:lora\nADAPTER lora'; do
    printf "$file\n" >Modelfile
    spectool create; echo "exit $?"
done

echo '# what ollama has removed, and values that it has otherwise'
printf '{"rope_frequency_base":1e6,"stop":null,"top_k":40.0,"temperature":"hot","num_ctx":[null]}' >odd
printf 'Write """docstrings""".' >quoted
store odd && store quoted
manifest "$(layer model weights),$(layer params odd),$(layer system quoted)" odd
echo 'FROM tiny:odd' >Modelfile
rm a.bin && spectool create -o a.bin && show a.bin

# layers that together are too large, and one that would be cut
truncate -s 9000000 license && tr '\0' x <license >many && printf 'You are\0small.' >cut
for file in many cut; do
    store $file
    [ $file = many ] && kind=license || kind=system
    layer="{\"mediaType\":\"application/vnd.ollama.image.$kind\",\"digest\":\"$(blob $file)\"}"
    echo "{\"layers\":[$layers,$layer,$layer]}" >ollama/manifests/registry.ollama.ai/library/tiny/$file
    echo "FROM tiny:$file" >Modelfile
    spectool create; echo "exit $?"
done

echo '# run'
export XDG_CACHE_HOME=$PWD/cache
run() { spectool run "$@" -n 4 --seed 1 --no-draft 2>&1 | sed 's/^[0-9]* tokens.*/STATISTICS/; s,into .*/spectool/.*,into CACHE,; s,removed .*/spectool/,removed ,; /note: nothing was quantized/d; s/^spectool run: note: .*/NOTE/'; }
kept() { ls cache/spectool | grep -v "^prompts$" | sed 's/[0-9a-f]\{16\}/HASH/g'; }
run someone/Tiny-Model 'What is 7 plus 8?'
run someone/Tiny-Model 'What is 7 plus 8?'
run "$TESTDATA/tiny/target" 'What is 7 plus 8?'
echo 'FROM someone/Tiny-Model' >Modelfile
spectool create --force -o a.bin 2>/dev/null && cmp a.bin cache/spectool/someone* && echo 'the file of create'
kept
rm cache/spectool/*.bin
run tiny --ids 1,2,3
run me/tiny:1b --ids 1,2,3
run someone/Tiny-GGUF:Q8_0 --ids 1,2,3
kept
spectool show --modelfile cache/spectool/tiny-* | tail -n +2
echo '# beyond the bound the file that was not used for longest goes'
truncate -s 33G cache/spectool/old.bin && touch -d @1 cache/spectool/old.bin
rm cache/spectool/tiny-*
run tiny --ids 1,2,3
kept
echo '# a model that changed is packed again'
printf 'You are smaller.' >system
store system
sed -i "s/sha256:[0-9a-f]*\"}\(,{[^}]*params\)/$(blob system)\"}\1/" ollama/manifests/registry.ollama.ai/library/tiny/latest
touch -d @1 ollama/manifests/registry.ollama.ai/library/tiny/latest
run tiny --ids 1,2,3
kept
spectool show --modelfile cache/spectool/tiny-* | grep SYSTEM
for name in someone/other someone/other:Q4_0 someone/other@v2 llama3.2 llama3.2:1b other.bin other.json ./other a/b/c/d; do
    spectool run $name hi; echo "exit $?"
done
echo '# other commands'
name=someone/Tiny-Model
echo '[{"role": "user", "content": "hi"}]' >messages.json
spectool show $name --modelfile 2>/dev/null
spectool verify $name 2>/dev/null
spectool verify $name --json
spectool verify $name --lossless --draft-by lookup --num-predict 4 --ids 1,2,3 2>/dev/null | head -n 1
spectool bench $name --ids 1,2,3 --num-predict 2 --repeat 1 --depths 8 --json | grep -o '"file": "[^"]*"'
spectool eval $name $name --ids 1,2,3,4,5,6 --json | grep -o '"\(file\|minus\)": "[^"]*"'
spectool eval $name --ids 1,2,3,4,5,6 --against $name | head -n 3
spectool logits $name --ids 1,2,3 --output a.npy && spectool logits a.bin --ids 1,2,3 --output b.npy && cmp a.npy b.npy && echo "the same logits"
spectool tokenize $name --ids 'What is 7 plus 8?'
spectool detokenize $name 813,353,32
spectool render $name --messages messages.json
spectool show someone/other; echo "exit $?"
spectool show hf.co/someone/other; echo "exit $?"
kept
echo '# a wrong option packs nothing'
rm cache/spectool/*.bin
for wrong in "run $name --ids 1 hi" "verify $name hi" "logits $name" "embed $name --ids 1 hi" "eval $name" \
    "eval $name --ids 1,2 --reference --kernels scalar" "bench $name --layers 2" "show $name --json --template"; do
    spectool $wrong; echo "exit $?"
done
kept
spectool run --no-cache $name hi; echo "exit $?"
