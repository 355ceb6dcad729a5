#!/usr/bin/env python3
"""Write testdata/grammars/masks.jsonl: python3 mask_cases.py TOKENIZER FOLDER

Masks of the llguidance library over the vocabulary of TOKENIZER (testdata/tiny/target/tokenizer.json)
at each position of a text: one line per text, with the grammar (GBNF, or a schema of values without
whitespace), the tokens of the text, and a mask in hex after each prefix of them: bit i % 4 of
digit i / 4 is token i. The grammars allow only one
division of a text into lexemes, because llguidance tries the longest one only. Where the next bytes are
determined llguidance allows only its own tokenization, so those masks are not compared. Needs llguidance."""
import json
import pathlib
import sys

from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark

N_VOCAB, EOS = 1600, 1598

GRAMMARS = [
    ('root ::= "once" " upon"? " a time" | "the " ("owl" | "fox")? "es"? "."', ["once upon a time", "the owl."]),
    ('root ::= item{2,3}\nitem ::= "- " [^\\n]{3,12} "\\n"', ["- the owl\n- a fox and\n", "- a b\n- c d\n- e f\n"]),
    ('root ::= expr\nexpr ::= term ([-+*/] term)*\nterm ::= [0-9]{1,3} | "(" expr ")"', ["12+(3*45-6)/789", "((1))"]),
    ('root ::= [^aeiou\\n]* ("\u00e9" | [\u4e00-\u9fff]) "\\n"', ["xyz \u00e9\n", "b, \u65e5\n"]),
    ('root ::= "\\"" ([^"\\\\\\x00-\\x1F] | "\\\\" ["\\\\n])* "\\""', ['"Finn said \\"no\\"\\n"']),
]
SCHEMAS = [
    ({"type": "string", "maxLength": 9}, ['"the owl"', '"a"']),
    ({"type": "string", "minLength": 3}, ['"an old owl"']),
    ({"enum": ["once", "one", "on a tree", 7, None, True]}, ['"one"', '"on a tree"', "null", "true"]),
    ({"type": "integer", "minimum": 17, "maximum": 230}, ["99", "17", "230", "118"]),
    ({"type": "integer", "minimum": -30, "maximum": -3}, ["-29", "-30", "-7", "-3"]),
    ({"type": "boolean"}, ["false"]),
    ({"type": "string", "pattern": "^[a-c]{2,4}( the)?[0-9]$"}, ['"abc the7"', '"aa1"']),
    ({"type": ["null", "boolean"]}, ["null", "true"]),
]


def mask_of(matcher):
    left = matcher.compute_logit_bias()
    digits = []
    for i in range(0, N_VOCAB, 4):
        digits.append(sum(1 << k for k in range(4) if i + k < len(left) and left[i + k]))
    return "".join(f"{d:x}" for d in digits)


def main():
    text, folder = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
    tokenizer = LLTokenizer(text, n_vocab=N_VOCAB, eos_token=EOS)
    with open(folder / "masks.jsonl", "w") as out:
        cases = [("gbnf", g, LLMatcher.grammar_from_lark(gbnf_to_lark(g)), t) for g, t in GRAMMARS]
        cases += [("schema", json.dumps(s), LLMatcher.grammar_from_json_schema(json.dumps(s)), t) for s, t in SCHEMAS]
        for kind, grammar, compiled, texts in cases:
            for one in texts:
                matcher = LLMatcher(tokenizer, compiled)
                if matcher.is_error():
                    sys.exit(f"{grammar}: {matcher.get_error()}")
                ids, masks = tokenizer.tokenize_str(one), [mask_of(matcher)]
                for i in ids:
                    if not matcher.consume_token(i):
                        sys.exit(f"{grammar}: {one}: {matcher.get_error()}")
                    masks.append(mask_of(matcher))
                line = {"kind": kind, "grammar": grammar, "text": one, "ids": ids, "masks": masks}
                out.write(json.dumps(line, separators=(",", ":")) + "\n")


main()
