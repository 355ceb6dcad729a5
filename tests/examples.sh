#!/bin/sh
# The examples in cli/examples give the same answers as the command, and so does the Python module.
# usage: tests/examples.sh SPECTOOL CHAT SAMPLER [LIBRARY HEADER]      the last two: for Python
set -eu
spectool=$1 chat=$2 sampler=$3 library=${4:-} header=${5:-}
source=$(cd "$(dirname "$0")/.." && pwd)
testdata=$(cd "$(dirname "$0")/../testdata" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
cat >Modelfile <<END
FROM $testdata/tiny/target
DRAFT $testdata/tiny/dflash
TEMPLATE """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
PARAMETER num_predict 200
PARAMETER temperature 0
END
"$spectool" create >create.log 2>&1 || { cat create.log; exit 1; }
question='What is 7 plus 8?'
"$spectool" run packed.bin "$question" >expected 2>run.log || { cat run.log; exit 1; }
"$chat" packed.bin "$question" >got 2>figures || { cat got figures; exit 1; }
grep -qE '^[0-9]+ of [0-9]+ draft tokens accepted$' figures || { echo "other figures:"; cat figures; exit 1; }
cmp expected got || { echo "another answer:"; cat expected got; exit 1; }
tools='[{"type": "function", "function": {"name": "paint", "parameters": {"type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
    "additionalProperties": false}}}]'
"$chat" packed.bin "$question" "$tools" >got || { cat got; exit 1; }
grep -qE '^call paint \{"colour": ?"(red|blue)"\}' got || { echo "no call:"; cat got; exit 1; }

# Two sequences sampled in one batch have the tokens of two separate answers with the same seeds.
story='Once upon a time'
for seed in 1 2; do
    "$spectool" run --raw --no-draft --temperature 0.8 --seed $seed --num-predict 24 --ignore-eos \
        packed.bin "$story" 2>run.log || { cat run.log; exit 1; }
done >expected
"$sampler" packed.bin "$story" >got || { cat got; exit 1; }
cmp expected got || { echo "other samples:"; cat expected got; exit 1; }

command -v python3 >/dev/null && [ -n "$library" ] || exit 0
cp -r "$source/packaging/python/spectool" spectool
python3 "$source/packaging/interface.py" ctypes "$header" >spectool/_interface.py
python3 "$source/packaging/interface.py" checks "$header" >checks.c
cc -std=c11 -fsyntax-only -I"$(dirname "$header")" checks.c || { echo 'the interface was read wrongly'; exit 1; }
export SPECTOOL_LIBRARY="$library" PYTHONPATH="$tmp" PYTHONDONTWRITEBYTECODE=1
"$spectool" run packed.bin "$question" >expected 2>run.log
python3 "$source/cli/examples/chat.py" packed.bin "$question" >got || { cat got; exit 1; }
cmp expected got || { echo 'chat.py: another answer:'; cat expected got; exit 1; }
python3 "$source/cli/examples/chat.py" packed.bin "$question" "$tools" >got || { cat got; exit 1; }
grep -qE '^call paint \{"colour": ?"(red|blue)"\}' got || { echo 'chat.py: no call:'; cat got; exit 1; }
printf 'FROM %s/embeddings/gemma3\n' "$testdata" >Modelfile
"$spectool" create -o embed.bin >create.log 2>&1 || { cat create.log; exit 1; }
"$spectool" embed --json embed.bin 'one text' 'another one' >embeddings
python3 "$source/tests/python.py" packed.bin embed.bin embeddings "$spectool"
# The types, where mypy is installed.
! command -v mypy >/dev/null || mypy --strict --cache-dir "$tmp/cache" spectool "$source/cli/examples/chat.py"
