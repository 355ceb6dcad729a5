# Separates reasoning from the answer. The tiny model does not reason, but under this template, whose tags
# are common words, its stories begin with reasoning.
cat >Modelfile <<END
FROM $TESTDATA/tiny/target
TEMPLATE """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.thinking and loop.last %}There {{ m.thinking }} a hungry {% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{% if enable_thinking is defined %}{{ 'There was a happy' if enable_thinking else 'Once' }}{% endif -%}
{% if reasoning_effort is defined %} {{ reasoning_effort }}{% endif %}"""
PARAMETER num_predict 14
PARAMETER draft_num_predict 0
END
spectool create 2>/dev/null
try() {
    spectool run packed.bin "$@" 2>&1
    echo "exit $?: $*"
}
quiet() {
    spectool run packed.bin "$@" 2>/dev/null
}
spectool show packed.bin | sed -n '/^Template/,$p'
quiet 'Tell me a story.'
quiet 'Tell me a story.' --hide-thinking
quiet 'Tell me a story.' --hidethinking --think true
quiet 'What is 7 plus 8?' --hide-thinking
quiet 'Tell me a story.' --json | tail -n 1 | grep -o '"text.*"thinking": "[^"]*"'
# Structured output begins after the reasoning, which is not printed into a pipe.
echo 'root ::= "a whale" | "a shark"' >fish.gbnf
quiet 'Tell me a story.' --format fish.gbnf
quiet 'Tell me a story.' --format fish.gbnf --show-draft | sed 's/\x1b[^m]*m//g'
quiet 'Tell me a story.' --format fish.gbnf --json | tail -n 1 | grep -o '"text.*"thinking": "[^"]*"'
quiet 'Tell me a story.' --format fish.gbnf --json --think true | tail -n 1 | grep -o '"text.*"thinking": "[^"]*"'
quiet 'Tell me a story.' --format fish.gbnf --json --think false | tail -n 1 | grep -o '"text": "[^"]*"'
# The reasoning options reach the template.
quiet 'Tell me a story.' --think true
quiet 'Tell me a story.' --think false
quiet 'Tell me a story.' --think=brave
# Without a value reasoning is on; only a known word is one without a '='.
quiet --think 'Tell me a story.'
quiet 'Tell me a story.' --think
quiet 'Tell me a story.' --think low
try Hi --think --no-draft -x
try Hi --think brave
try Hi --think=
try Hi '--think=very high'
try Hi --think true --raw
try Hi --hide-thinking --json
try Hi --hide-thinking --show-draft
# On a terminal reasoning is dim. In a session the next prompt has it in a separate member, which this
# template omits for earlier turns, so the reused tokens end there.
echo 'leak:libedit' >leaks
export LSAN_OPTIONS=suppressions=$PWD/leaks:print_suppressions=0
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0
TERM=xterm terminal spectool run packed.bin 'Tell me a story.' </dev/null | tr -d '\r' |
    sed 's/\x1b/ESC/g; s/tokens, .*/tokens, .../'
TERM=dumb terminal spectool run packed.bin <<'END' | tr -d '\r' | sed 's/tokens, .*/tokens, .../'
Tell me a story.
/show messages
/set think very high
/set think brave
Tell me a story.
/set nothink
/bye
END
# The reasoning is ended after a number of tokens, by the option, a setting of the file or a line of a batch.
quiet 'Tell me a story.' --reasoning-budget 1 --hide-thinking
quiet 'Tell me a story.' --reasoning-budget 1
quiet 'Tell me a story.' --reasoning-budget 1 --draft-depth 4
quiet 'Tell me a story.' --reasoning-budget 1 --no-draft --json | tail -n 1 | grep -o '"text.*"thinking": "[^"]*"'
echo '{"prompt": "Tell me a story.", "reasoning_budget": 0}' | spectool run packed.bin --batch 2>&1 |
    grep -o '"text.*"thinking": "[^"]*"'
try Hi --reasoning-budget 1 --raw
spectool create -f $TESTDATA/tiny/Modelfile -o plain.bin 2>/dev/null
spectool run plain.bin Hi --reasoning-budget 1 2>&1
echo "exit $?"
echo '{"prompt": "Hi", "reasoning_budget": 1}' | spectool run packed.bin --raw --batch 2>/dev/null
