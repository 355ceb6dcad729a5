#!/bin/sh
# Every option of a command is in its man page, and the command accepts every option that the page
# lists. usage: man_options.sh SPECTOOL
set -u
man=$(cd "$(dirname "$0")/../man" && pwd)
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
bad=0
say() { echo "$1"; bad=1; }

# Prints the options of --help. They begin a line, or follow "also:", which may be broken across lines.
known() {
    "$1" "$2" --help | tr '\n' '\t' |
        sed 's/(also:[[:space:]]*\(--[a-z-]*\))/\t  \1\t/g' | tr '\t' '\n' |
        sed -n 's/^  *-[a-z], --/  --/; s/^  *--\([a-z][a-z-]*\).*/--\1/p' | sort -u
}
# Print the options that a page of mdoc(7) mentions, and those that head an entry (It).
named() { grep -v '^\.\\"' "$1" | grep -oE '(Fl|,) -[a-z][a-z-]*' | sed -E 's/^(Fl|,) -/--/' | sort -u; }
listed() { grep '^\.It' "$1" | grep -oE '(Fl|,) -[a-z][a-z-]*' | sed -E 's/^(Fl|,) -/--/' | sort -u; }

# The command help has no options; spectool.1 describes it.
for command in $("$1" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -vx help); do
    page=$man/spectool-$command.1
    [ -f "$page" ] || { say "$command: no man page"; continue; }
    known "$1" "$command" >"$lists/known"
    named "$page" >"$lists/named"
    listed "$page" >"$lists/listed"
    for option in $(comm -23 "$lists/known" "$lists/named"); do
        say "$command: $option is not in ${page##*/}"
    done
    for option in $(comm -13 "$lists/known" "$lists/listed"); do
        say "$command: ${page##*/} lists $option, which the command does not accept"
    done
done
exit $bad
