#!/bin/sh
# An installed spectool: every file is there, and a program that knows nothing but pkg-config builds
# against the library and generates. usage: tests/installed.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cmake --install "$build" --prefix "$tmp/usr" >"$tmp/log"
libdir=$(dirname "$(find "$tmp/usr" -name 'libspectool.*' | head -1)")
for f in bin/spectool include/spectool.h share/man/man1/spectool.1 share/man/man1/spectool-run.1 \
    share/man/man5/spectool-pack.5 share/bash-completion/completions/spectool; do
    [ -e "$tmp/usr/$f" ] || { echo "not installed: $f"; exit 1; }
done
LD_LIBRARY_PATH=$libdir "$tmp/usr/bin/spectool" create -f "$source/testdata/tiny/Modelfile" --quantize q8 -o "$tmp/p.bin" >"$tmp/log" 2>&1
cat >"$tmp/use.c" <<'C'
#include <spectool.h>
#include <stdio.h>
static int show(void *context, const char *text, size_t size, bool drafted)
{
    (void)context;
    (void)drafted;
    return fwrite(text, 1, size, stdout) != size;
}
int main(int argc, char **argv)
{
    const uint32_t story[] = {582, 580, 258, 421};
    struct sp_package *package;
    struct sp_session *session;
    struct sp_result result;
    struct sp_err err = {0};
    struct sp_request request = {.prompt = story, .n_prompt = 4, .max_tokens = 6,
                                 .draft_len = SP_DRAFT_LENGTH_AUTO, .text = show};
    if (argc != 2 || sp_package_open(&package, argv[1], &(struct sp_package_options){0}, &err) ||
        sp_session_open(&session, package, &(struct sp_session_options){0}, &err) ||
        sp_session_generate(session, &request, &result, &err)) {
        puts(err.text);
        return 1;
    }
    sp_result_release(&result);
    sp_session_close(session);
    sp_package_close(package);
    return 0;
}
C
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$tmp/use" "$tmp/use.c" \
    $(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs spectool) ${SP_LINK_FLAGS:-}
cat >"$tmp/use.cc" <<'C'
#include <spectool.h>
int main() { return sp_fail(nullptr, SP_OK, "links by its C name"); }
C
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
clang++ -Wall -Wextra -Werror -c -o "$tmp/use_cc.o" "$tmp/use.cc" $(pkg-config --cflags spectool)
# shellcheck disable=SC2046
cc -o "$tmp/use_cc" "$tmp/use_cc.o" $(pkg-config --libs spectool) ${SP_LINK_FLAGS:-}
LD_LIBRARY_PATH=$libdir "$tmp/use_cc"
text=$(LD_LIBRARY_PATH=$libdir "$tmp/use" "$tmp/p.bin")
# "Once upon a time", continued: the first golden ids of testdata/tiny/golden_target.json, as text
case $text in
" there was a "*) ;;
*) echo "unexpected text:$text"; exit 1 ;;
esac

# The examples: a chat in C, and in Python where the library is shared.
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror -o "$tmp/chat" "$source/cli/examples/chat.c" \
    $(pkg-config --cflags --libs spectool) ${SP_LINK_FLAGS:-}
LD_LIBRARY_PATH=$libdir "$tmp/chat" "$tmp/p.bin" 'What is 7 plus 8?' >"$tmp/c.out"
[ -s "$tmp/c.out" ] || { echo 'chat.c: no answer'; exit 1; }
if [ -e "$libdir/libspectool.so" ] && command -v python3 >/dev/null; then
    python3 "$source/cli/examples/chat.py" "$libdir/libspectool.so" "$tmp/p.bin" \
        'What is 7 plus 8?' >"$tmp/python.out"
    cmp "$tmp/c.out" "$tmp/python.out"
fi
