#!/bin/sh
# Runs every tests/cli/NAME.sh in an empty folder. Standard output, standard error and exit status must
# equal NAME.out, NAME.err and NAME.exit; differences are printed.
#
# usage: run.sh SPECTOOL [--accept] [NAME...]    --accept writes the files, for review with git diff
# A script finds the program as `spectool`, a pseudo-terminal for it as `terminal` (tests/support/terminal.c), the test
# data in $TESTDATA, and this folder in $CLI.
set -u
CLI=$(cd "$(dirname "$0")" && pwd)
TESTDATA=$(cd "$CLI/../../testdata" && pwd)
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
accept=no
if [ "${1:-}" = --accept ]; then
    accept=yes
    shift
fi
[ $# -gt 0 ] || set -- $(cd "$CLI" && ls ./*.sh | sed 's,^\./,,; s/\.sh$//' | grep -v '^run$')

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$program" "$scratch/bin/spectool"
ln -s "${program%/*}/tests/terminal" "$scratch/bin/terminal"
# What one script's runs learn of drafting is kept nowhere.
PATH=$scratch/bin:$PATH LC_ALL=C XDG_STATE_HOME=$scratch HOME=$scratch XDG_CACHE_HOME=/dev/null
HF_HUB_CACHE=hub OLLAMA_MODELS=ollama # the user's models are no part of the tests
export PATH LC_ALL XDG_STATE_HOME HOME XDG_CACHE_HOME HF_HUB_CACHE OLLAMA_MODELS TESTDATA CLI

failed=0
for name; do
    mkdir "$scratch/$name"
    (cd "$scratch/$name" && sh "$CLI/$name.sh" >../out 2>../err </dev/null
        echo $? >../exit)
    sed "s,$TESTDATA,TESTDATA,g" "$scratch/out" >"$scratch/named" && mv "$scratch/named" "$scratch/out"
    sed "s,$TESTDATA,TESTDATA,g" "$scratch/err" >"$scratch/named" && mv "$scratch/named" "$scratch/err"
    for part in out err exit; do
        if [ $accept = yes ]; then
            cp "$scratch/$part" "$CLI/$name.$part"
        elif ! diff -u "$CLI/$name.$part" "$scratch/$part"; then
            echo "$name.$part differs"
            failed=1
        fi
    done
done
exit $failed
