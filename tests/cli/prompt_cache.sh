# A prompt is processed once: the next run reads its pages and gives the same answer.
cached() {
    spectool run packed.bin --raw --num-predict 12 --json --cache-dir pages "$@" 2>/dev/null | tail -n 1 |
        sed 's/.*"text": "\([^"]*\)".*"prompt_tokens": \([0-9]*\), "reused_tokens": \([0-9]*\).*/\1 (\3 of \2 cached)/'
}
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
story=$(for i in 1 2 3 4 5 6 7 8 9; do printf 'Once upon a time there was a dog. The dog was very small and had a red ball. One day the dog lost the ball in the park. '; done)
cached "$story"'The dog was' --no-cache
ls pages 2>/dev/null
cached "$story"'The dog was'
ls pages | wc -l
cached "$story"'The dog was'
cached "$story"'Mia and Ben'
# the folder of the user
XDG_CACHE_HOME=$PWD/user spectool run packed.bin --raw --num-predict 1 "$story" >/dev/null 2>&1
ls user/spectool
ls user/spectool/prompts | wc -l
# a damaged page
for page in pages/*; do printf x | dd of="$page" bs=1 seek=3000 conv=notrunc 2>/dev/null; done
cached "$story"'The dog was'
cached "$story"'The dog was'
# several at once, one without room
for i in 1 2 3; do cached "$story"'The dog was' >"at-once$i" & done
spectool run packed.bin --raw --num-predict 12 --no-draft --cache-dir pages --cache-size 1 "$story"'The dog was' 2>/dev/null
wait
cat at-once1 at-once2 at-once3 | sed 's/ (.*//'
# folders that cannot be used
spectool run packed.bin --raw "$story" --cache-dir packed.bin
echo "exit $?"
spectool run packed.bin --raw "$story" --cache-dir none/pages
echo "exit $?"
# a page that cannot be written does not prevent the answer
(
    trap '' XFSZ
    ulimit -f 1
    spectool run packed.bin --raw --num-predict 12 --no-draft "$story"'The dog was' --cache-dir full 2>errors
    echo "exit $?"
) | cat
grep -o 'prompts are not kept.*' errors
ls full
