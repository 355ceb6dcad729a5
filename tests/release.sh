#!/bin/sh
# What packaging/release made: the static program alone in an empty root makes the packed file, the text and the logits
# of the dynamic one; the checksums hold; the list of what is linked in agrees with the program.
# usage: tests/release.sh FOLDER SPECTOOL     FOLDER: where the results are, SPECTOOL: the dynamic program
set -eu
folder=$(cd "$1" && pwd)
spectool=$(realpath "$2")
testdata=$(cd "$(dirname "$0")/../testdata" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=/dev/null
fail() { echo "$1"; exit 1; }
static=$(echo "$folder"/spectool-*-linux-"$(uname -m)")
(cd "$folder" && sha256sum --quiet -c SHA256SUMS) || fail 'SHA256SUMS is wrong'
! readelf -dl "$static" | grep -E 'NEEDED|INTERP' || fail 'the program is not static'
[ "$("$static" --version)" = "$("$spectool" --version)" ] || fail 'another version'
[ "$("$static" run --help | grep '^ *--kernels')" = "$("$spectool" run --help | grep '^ *--kernels')" ] ||
    fail 'other kernel sets'

# An empty root, with the program and a checkpoint.
mkdir "$tmp/root"
cp "$static" "$tmp/root/spectool"
cp -r "$testdata/tiny" "$tmp/root/tiny"
in_root() {
    if [ "$(id -u)" = 0 ]; then chroot "$tmp/root" /spectool "$@"; else unshare -r chroot "$tmp/root" /spectool "$@"; fi
}
in_root create -f /tiny/Modelfile -q q4 -o /packed.bin >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
"$spectool" create -f "$testdata/tiny/Modelfile" -q q4 -o "$tmp/packed.bin" >"$tmp/log" 2>&1
cmp "$tmp/root/packed.bin" "$tmp/packed.bin" || fail 'another packed file'
answer='"logits_xxh3": "[0-9a-f]*"\|"ids": [^]]*'
for kernels in auto scalar; do
    for program in in_root "$spectool"; do
        cd "$tmp"
        [ "$program" = in_root ] && file=/packed.bin || file=packed.bin
        "$program" run --json --logits-digest --kernels $kernels --threads 2 --num-predict 40 --ignore-eos "$file" \
            'What is 7 plus 8?' | grep -o "$answer" >"$tmp/${program##*/}.$kernels"
    done
    [ -s "$tmp/in_root.$kernels" ] && cmp "$tmp/in_root.$kernels" "$tmp/${spectool##*/}.$kernels" || fail "$kernels: another answer"
done
code=0
in_root verify --reference /packed.bin >"$tmp/log" 2>&1 || code=$?
[ $code = 4 ] && grep -q 'OpenBLAS cannot be loaded by a static program' "$tmp/log" || { cat "$tmp/log"; fail 'the reference decoder is not refused'; }

# The versions that the program tells are those of the list, and the list has no other library.
"$static" --version --verbose | tr ',' '\n' | awk '{ sub(/^ */, ""); print tolower($1), $2 }' |
    sed -e 's/^libedit .*/libedit 3.1-20221030/' | sort >"$tmp/told"
sed -n 's/.*"name": "\([^"]*\)", "versionInfo": "\([^"]*\)".*/\1 \2/p' "$static.spdx.json" | sort >"$tmp/listed"
diff "$tmp/told" "$tmp/listed" || fail 'told by the program (<), listed (>)'
