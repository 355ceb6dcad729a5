#!/usr/bin/env python3
"""Asks a packed file a question through the shared library.

Usage: chat.py LIBRARY FILE QUESTION [TOOLS]

TOOLS is a JSON array as in OpenAI's API; with it the answer is a call of one of the tools. The
structs are those of spectool.h.
"""
import json
import sys
from ctypes import (CDLL, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int,
                    c_size_t, c_uint, c_void_p, sizeof, string_at)


class Err(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 1024)]


class PackageOptions(Structure):
    _fields_ = [("size", c_size_t), ("kernels", c_char_p), ("n_threads", c_uint), ("huge_pages", c_bool)]


class SessionOptions(Structure):
    _fields_ = [("size", c_size_t), ("n_context", c_size_t), ("cache", c_int),
                ("draft_by", c_int), ("rows_per_pass", c_size_t), ("max_batch", c_size_t)]


class ChatRequest(Structure):
    _fields_ = [("size", c_size_t), ("messages", c_char_p), ("turns", c_void_p),
                ("n_turns", c_size_t), ("tools", c_char_p), ("kwargs", c_char_p),
                ("vars", c_char_p), ("prompt", c_char_p), ("suffix", c_char_p), ("ids", c_void_p),
                ("n_ids", c_size_t), ("omit_generation_prompt", c_bool), ("is_think_set", c_bool),
                ("think", c_bool), ("think_level", c_char_p), ("now", c_void_p),
                ("prefix", c_char_p), ("prefix_size", c_size_t), ("response_format", c_void_p),
                ("calls", c_int), ("function", c_char_p),
                ("one_call", c_bool), ("end_ids", c_void_p), ("n_end_ids", c_size_t),
                ("ignore_eos", c_bool)]


class Request(Structure):
    _fields_ = [("size", c_size_t), ("prompt", c_void_p), ("n_prompt", c_size_t),
                ("max_tokens", c_size_t), ("ignore_eos", c_bool), ("end_ids", c_void_p), ("n_end_ids", c_size_t),
                ("draft_len", c_int), ("measure", c_bool),
                ("sampling", c_void_p), ("simulation", c_void_p), ("grammar", c_void_p),
                ("stops", c_void_p), ("n_stops", c_size_t), ("logprobs", c_bool),
                ("n_top", c_uint), ("digest", c_bool), ("special_ids", c_void_p),
                ("n_special_ids", c_size_t), ("context", c_void_p), ("prompt_progress", c_void_p),
                ("prompt_read", c_void_p), ("token", c_void_p), ("text", c_void_p),
                ("special", c_void_p), ("reasoning_limit", c_void_p), ("reader", c_void_p)]


class Result(Structure):
    """Without the members that this program does not read: the library leaves them out."""
    _fields_ = [("size", c_size_t)]


class Call(Structure):
    _fields_ = [("id", c_char * 10), ("name", c_char_p), ("arguments", c_char_p),
                ("size", c_size_t)]


class Answer(Structure):
    _fields_ = [("size", c_size_t), ("content", c_char_p), ("n_content", c_size_t),
                ("reasoning", c_char_p), ("n_reasoning", c_size_t), ("calls", POINTER(Call)),
                ("n_calls", c_size_t), ("segments", c_void_p), ("n_segments", c_size_t),
                ("n_reasoning_tokens", c_size_t)]


def main(library, file, question, tools=None):
    lib, err = CDLL(library), Err()
    package, session, chat, prompt, reader = (c_void_p() for _ in range(5))
    result = Result(size=sizeof(Result))

    def check(status):
        if status:
            sys.exit(err.text.decode())

    messages = json.dumps([{"role": "user", "content": question}]).encode()
    ask = ChatRequest(size=sizeof(ChatRequest), messages=messages, calls=3 if tools else 0,
                      tools=tools.encode() if tools else None)
    opening = PackageOptions(size=sizeof(PackageOptions))
    options = SessionOptions(size=sizeof(SessionOptions))
    check(lib.sp_package_open(byref(package), file.encode(), byref(opening), byref(err)))
    check(lib.sp_session_open(byref(session), package, byref(options), byref(err)))
    check(lib.sp_chat_open(byref(chat), package, None, byref(err)))
    check(lib.sp_chat_prompt_open(byref(prompt), chat, byref(ask), byref(err)))
    check(lib.sp_chat_reader_open(byref(reader), prompt, None, byref(err)))

    request = Request(size=sizeof(Request), max_tokens=200, draft_len=-1, reader=reader)
    lib.sp_chat_prompt_apply(prompt, byref(request))
    check(lib.sp_session_generate(session, byref(request), byref(result), byref(err)))
    answer = Answer(size=sizeof(Answer))
    lib.sp_chat_reader_answer(reader, byref(answer))
    print(string_at(answer.content, answer.n_content).decode())
    for call in answer.calls[:answer.n_calls]:
        print("call", call.name.decode(), call.arguments.decode())
    lib.sp_result_release(byref(result))
    lib.sp_chat_reader_close(reader)
    lib.sp_chat_prompt_close(prompt)
    lib.sp_chat_close(chat)
    lib.sp_session_close(session)
    lib.sp_package_close(package)


if __name__ == "__main__":
    main(*sys.argv[1:])
