# A prompt that is read once: the next run finds it, and answers the same.
cached() {
    spectool run packed.bin --raw --num-predict 12 --json "$@" 2>/dev/null | tail -n 1 |
        sed 's/.*"text": "\([^"]*\)".*"prompt_tokens": \([0-9]*\), "reused_tokens": \([0-9]*\).*/\1 (\3 of \2 cached)/'
}
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
story='Once upon a time there was a dog. The dog was very small and had a red ball. One day the dog lost the ball in the park. The dog was'
cached "$story"
cached "$story" --prompt-cache story.cache
cached "$story" --prompt-cache story.cache
# little is new: the file stays what it is
cp story.cache before
cached "$story not" --prompt-cache story.cache
cmp story.cache before && echo same
cached "$story" --prompt-cache story.cache --no-draft
cached 'Mia and Ben went to the' --prompt-cache story.cache
cached 'Mia and Ben went to the' --prompt-cache story.cache
# one of a run without the draft is written anew by one with it
cached "$story" --prompt-cache plain.cache --no-draft
spectool run packed.bin --raw --num-predict 12 --json "$story" --prompt-cache plain.cache 2>&1 >/dev/null
cached "$story" --prompt-cache plain.cache
# what does not fit
spectool run packed.bin --raw "$story" --prompt-cache story.cache --kv-type q8
echo "exit $?"
spectool run packed.bin --raw "$story" --prompt-cache packed.bin
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" -o other.bin --quantize q8 2>/dev/null
spectool run other.bin --raw "$story" --prompt-cache story.cache
echo "exit $?"
# no place for it is noticed before the prompt is read
spectool run packed.bin --raw --num-predict 12 --no-draft "$story" --prompt-cache none/story.cache
echo "exit $?"
# one that grows too large for its place costs no answer
(
    trap '' XFSZ
    ulimit -f 1
    spectool run packed.bin --raw --num-predict 12 --no-draft "$story" --prompt-cache large.cache 2>errors
    echo "exit $?"
) | cat
sed "s/[0-9.]* tokens.s/.../" errors >&2
rm errors
ls
