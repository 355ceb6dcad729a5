#!/bin/sh
# The examples in cli/examples answer as the command does. usage: tests/examples.sh SPECTOOL CHAT
set -eu
spectool=$1 chat=$2
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
"$chat" packed.bin "$question" >got || { cat got; exit 1; }
cmp expected got || { echo "another answer:"; cat expected got; exit 1; }
tools='[{"type": "function", "function": {"name": "paint", "parameters": {"type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
    "additionalProperties": false}}}]'
"$chat" packed.bin "$question" "$tools" >got || { cat got; exit 1; }
grep -qE '^call paint \{"colour": ?"(red|blue)"\}' got || { echo "no call:"; cat got; exit 1; }
