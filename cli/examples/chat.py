#!/usr/bin/env python3
"""Asks a packed file a question through the Python module, with the file's own settings.

Usage: chat.py FILE QUESTION [TOOLS]

TOOLS is a JSON array as in OpenAI's API; with it the answer is a call of one of the tools.
"""
from __future__ import annotations

import json
import sys

import spectool


def main(file: str, question: str, tools: str | None = None) -> None:
    with spectool.open(file) as model:
        for part in model.chat(question, tools=json.loads(tools) if tools else None,
                               tool_choice="required" if tools else "auto"):
            text = f"call {part.name} {part.text}" if part.kind == "tool_call" else part.text
            print(text, end="", flush=True, file=sys.stderr if part.kind == "reasoning" else sys.stdout)
        print()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except spectool.Error as error:
        sys.exit(f"chat.py: {error}")
