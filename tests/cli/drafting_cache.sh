# What a run learns of drafting is kept for the next one with the same file; it changes no text.
export XDG_CACHE_HOME=$PWD/cache
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
plain() { spectool run packed.bin --raw 'Once upon a time' --quiet --ignore-eos -n 240 "$@" 2>&1; }
answer() { plain --draft-by model "$@"; }
count() { find cache -name '*.json' 2>/dev/null | wc -l; }
# On a busy machine drafting may seem not to pay, and a run of few drafted rounds keeps nothing.
answer_until_kept() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        answer "$@" | cmp - want
        [ "$(count)" -lt "$n_files" ] || return
    done
}
files() { ls cache/spectool/drafting 2>/dev/null | sed 's/[0-9a-f]\{16\}/HASH/g'; }
echo '# nothing is kept with --no-cache, without drafting, or of a few rounds'
answer --no-cache >want
plain --no-draft | cmp - want
spectool run packed.bin --raw 'Once' --quiet --ignore-eos -n 3 >/dev/null 2>&1
files
n_files=1
answer_until_kept
files
file=$(echo cache/spectool/drafting/*)
grep -c '"version": 1, "verify": \[\[' "$file"
[ "$(stat -c %a "$file")" = 600 ] || stat -c %a "$file"
echo '# the next run begins with it'
answer | cmp - want
files
echo '# a damaged file is replaced'
echo '{"version": 1}' >"$file"
answer_until_kept
grep -c '"drafted": \[' "$file"
echo '# other threads, another file'
n_files=2
answer_until_kept --threads 1
files
