# A prompt is processed once: the next run loads it and gives the same answer.
cached() {
    spectool run packed.bin --raw --num-predict 12 --json "$@" 2>/dev/null | tail -n 1 |
        sed 's/.*"text": "\([^"]*\)".*"prompt_tokens": \([0-9]*\), "reused_tokens": \([0-9]*\).*/\1 (\3 of \2 cached)/'
}
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
story='Once upon a time there was a dog. The dog was very small and had a red ball. One day the dog lost the ball in the park. The dog was'
cached "$story"
cached "$story" --prompt-cache story.cache
cached "$story" --prompt-cache story.cache
# few new tokens: the file is not rewritten
cp story.cache before
cached "$story not" --prompt-cache story.cache
cmp story.cache before && echo same
cached "$story" --prompt-cache story.cache --no-draft
cached 'Mia and Ben went to the' --prompt-cache story.cache
cached 'Mia and Ben went to the' --prompt-cache story.cache
# a run with the draft replaces the cache of a run without it
cached "$story" --prompt-cache plain.cache --no-draft
spectool run packed.bin --raw --num-predict 12 --json "$story" --prompt-cache plain.cache 2>&1 >/dev/null |
    grep -v "not help here" # advice that depends on the time that passes take
cached "$story" --prompt-cache plain.cache
# mismatched caches
spectool run packed.bin --raw "$story" --prompt-cache story.cache --kv-type q8
echo "exit $?"
spectool run packed.bin --raw "$story" --prompt-cache packed.bin
echo "exit $?"
spectool create -f "$TESTDATA/tiny/Modelfile" -o other.bin --quantize q8 2>/dev/null
spectool run other.bin --raw "$story" --prompt-cache story.cache
echo "exit $?"
# a missing folder is reported before the prompt is processed
spectool run packed.bin --raw --num-predict 12 --no-draft "$story" --prompt-cache none/story.cache
echo "exit $?"
# a cache that cannot be written does not prevent the answer
(
    trap '' XFSZ
    ulimit -f 1
    spectool run packed.bin --raw --num-predict 12 --no-draft "$story" --prompt-cache large.cache 2>errors
    echo "exit $?"
) | cat
sed "s/[0-9.]* tokens.s.*/.../" errors >&2
rm errors
ls
