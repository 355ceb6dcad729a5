"""Large language models on the CPU, from one packed file, with output that drafting never changes.

    import spectool

    with spectool.open("packed.bin") as model:
        for part in model.chat("Why is the sky blue?"):
            print(part.text, end="", flush=True)

A packed file comes from `spectool create`. Without other settings an answer has those that the file states, as with
`spectool run`; by name, as in a Modelfile, others are given: `temperature=0.7, top_k=40, seed=1`. Every function raises
spectool.Error with the sentence of the library. numpy is not needed: arrays are memoryviews, which numpy.asarray takes.
"""
from __future__ import annotations

import ctypes
import json
import os
import queue
import threading
import typing
from collections.abc import Callable, Iterator, Sequence
from ctypes import addressof, byref, c_bool, c_char_p, c_size_t, c_uint32, c_void_p, cast, sizeof, string_at
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Union

from . import _interface as c

__all__ = ["Answer", "Error", "Model", "Part", "Result", "Stream", "open", "version"]

T = TypeVar("T")
Messages = Union[str, Sequence[dict[str, Any]]]
Prompt = Union[str, Sequence[int]]
Setting = Union[str, int, float]


class _Err(c.sp_err):
    """What a function of the library failed with."""

    def check(self, status: int) -> None:
        if status != 0:
            raise Error(status, self.text.decode("utf-8", "replace"))


class Error(Exception):
    """A failure. status is the exit code that the command has for it: 1 a check failed, 2 wrong use, 3 bad input, 4 not
    supported, 5 input or output, 6 memory, 7 cancelled, 70 a fault of spectool."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def _load() -> ctypes.CDLL:
    own = Path(__file__).with_name("libspectool.so")
    lib = ctypes.CDLL(os.environ.get("SPECTOOL_LIBRARY") or (str(own) if own.exists() else "libspectool.so.0"))
    for name, (result, arguments) in c.FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    if lib.sp_version().decode() != c.VERSION:
        raise ImportError(f"libspectool has the version {lib.sp_version().decode()}: expected {c.VERSION}")
    return lib


_lib = _load()
_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [c_void_p], None
version: str = c.VERSION


def _call(name: str, *arguments: Any) -> None:
    err = _Err()
    err.check(getattr(_lib, name)(*arguments, byref(err)))


def _sized(struct: Callable[..., T], **members: Any) -> T:
    return struct(size=sizeof(struct), **members)  # type: ignore[arg-type]


def _ids(values: Sequence[int]) -> Any:
    return (c_uint32 * max(len(values), 1))(*values)


def _take(pointer: c_void_p, size: int) -> bytes:
    """The bytes of memory that the library allocated, which is freed."""
    data = string_at(pointer, size)
    _free(pointer)
    return data


class Part(NamedTuple):
    """A part of an answer, as it comes."""

    kind: Literal["content", "reasoning", "tool_call"]
    text: str  # of a call: its arguments, a JSON object
    name: str | None = None  # of a call: the function


class Result(NamedTuple):
    """What is known of an answer after its end."""

    ids: list[int]  # of all tokens, the one that ends the answer included
    stop: str  # "eos", "stop", "length", "context", "cancelled" or "memory"
    n_prompt: int  # tokens of the prompt
    n_reused: int  # those that were in the cache
    drafted: int  # draft tokens that were checked
    accepted: int  # those that were right
    prompt_seconds: float  # until the first token
    speed_up: float  # estimated time without drafting divided by the time taken; 0: not known


class Answer(NamedTuple):
    """A whole answer of a chat."""

    content: str
    reasoning: str
    calls: list[tuple[str, dict[str, Any]]]  # the function and its arguments
    result: Result


class Stream(Iterator[T], Generic[T]):
    """The parts of an answer, which a thread of its own computes. `result` is there after the last part; close() ends
    the answer early."""

    def __init__(self, work: Callable[[Callable[[T], int]], Result]) -> None:
        self._parts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self.result: Result | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Callable[[T], int]], Result]) -> None:
        try:
            self.result = work(self._put)
            self._parts.put(StopIteration())
        except BaseException as failure:  # pylint: disable=broad-except
            self._parts.put(failure)

    def _put(self, part: T) -> int:
        self._parts.put((part,))
        return int(self._cancelled.is_set())

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        if self._cancelled.is_set():
            raise StopIteration
        part = self._parts.get()
        if isinstance(part, tuple):
            return part[0]  # type: ignore[no-any-return]
        self.close()
        raise part

    def close(self) -> None:
        """Ends the answer, and waits until its computation has ended."""
        self._cancelled.set()
        self._thread.join()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Model:
    """A packed file that is open. One answer at a time is generated; further calls wait, in any thread."""

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 0, context: int = 0,
                 cache: Literal["f16", "f32", "q8"] = "f16", draft: bool = True, kernels: str | None = None) -> None:
        """threads: 0: one for each core. context: the most tokens of a sequence, 0: the model's maximum. cache: the
        type of the KV cache. draft: False never drafts, and needs less memory."""
        self._package, self._session, self._chat = c_void_p(), c_void_p(), c_void_p()
        self._lock = threading.Lock()
        _call("sp_package_open", byref(self._package), os.fsencode(path),
              byref(_sized(c.sp_package_options, n_threads=threads, kernels=kernels.encode() if kernels else None)))
        self._read_file()
        self._options = _sized(c.sp_session_options, n_context=context or self._stated_context(),
                               cache={"f16": c.SP_CACHE_F16, "f32": c.SP_CACHE_F32, "q8": c.SP_CACHE_Q8}[cache],
                               draft_by=c.SP_DRAFT_BY_DEFAULT if draft else c.SP_DRAFT_BY_NOTHING)

    def close(self) -> None:
        """Waits for an answer that is being generated, and closes the file. A closed model stays closed."""
        with self._lock:
            _lib.sp_chat_close(self._chat)
            _lib.sp_session_close(self._session)
            _lib.sp_package_close(self._package)
            self._chat, self._session, self._package = c_void_p(), c_void_p(), c_void_p()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _read_file(self) -> None:
        """Reads the settings that the file states, and the messages before a conversation."""
        pointer = c_void_p()
        _call("sp_package_settings", self._package, byref(pointer))
        stated = c.sp_file_settings.from_address(pointer.value or 0)
        settings = (c.sp_file_setting * stated.n_settings).from_address(stated.settings) if stated.n_settings else ()
        turns = (c.sp_chat_message * stated.n_messages).from_address(stated.messages) if stated.n_messages else ()
        self._settings = [(s.name.decode(), s.value.decode()) for s in settings]
        self._system = stated.system.decode() if stated.system else None
        self._messages = [{"role": m.role.decode(), "content": m.content.decode()} for m in turns]
        _lib.sp_file_settings_close(pointer)

    def _stated_context(self) -> int:
        info = _sized(c.sp_package_info)
        _lib.sp_package_describe(self._package, byref(info))
        longest: int = info.max_positions
        return min(int(dict(self._settings).get("num_ctx", 0)), longest)

    def _end_ids(self, stop: Sequence[str]) -> list[int]:
        """The stop texts that are special tokens, which the text of an answer never shows."""
        found, size, tokenizer = [], c_size_t(), _lib.sp_package_tokenizer(self._open_package())
        for text in [value.encode() for name, value in self._settings if name == "stop"] + [s.encode() for s in stop]:
            token = c_uint32()
            if _lib.sp_tokenizer_leading_special(tokenizer, text, byref(token), byref(size)) and size.value == len(text):
                found.append(token.value)
        return found

    def _open_package(self) -> c_void_p:
        if not self._package:
            raise Error(c.SP_E_USAGE, "the model is closed")
        return self._package

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text. Special tokens in it are recognized; `special` adds those of the post-processor."""
        ids, n, data = c_void_p(), c_size_t(), text.encode()
        flags = c.SP_ENCODE_PARSE_SPECIAL | (c.SP_ENCODE_ADD_SPECIAL if special else 0)
        _call("sp_tokenizer_encode", _lib.sp_package_tokenizer(self._open_package()), data, len(data), flags,
              byref(ids), byref(n))
        return list(memoryview(_take(ids, 4 * n.value)).cast("I"))

    def detokenize(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of ids."""
        text, size = c_void_p(), c_size_t()
        _call("sp_tokenizer_decode", _lib.sp_package_tokenizer(self._open_package()), _ids(ids), len(ids),
              skip_special, byref(text), byref(size))
        return _take(text, size.value).decode()

    def embed(self, texts: Sequence[str], *, prompt: str | None = None, dimensions: int = 0) -> memoryview:
        """The embeddings of texts: float32 of the shape (len(texts), width), the width of the model unless
        `dimensions` cuts them. prompt: the name of a prompt of the file to put before each text; None: its default.
        Error 4: the file states no pooling."""
        package, n = self._open_package(), len(texts)
        rows, kept = (c.sp_embedding_text * max(n, 1))(), []
        for row, text in zip(rows, texts):
            ids, size, data = c_void_p(), c_size_t(), text.encode()
            _call("sp_package_encode_for_embedding", package, prompt.encode() if prompt is not None else None, data,
                  len(data), 0, byref(ids), byref(size))
            kept.append(_ids(memoryview(_take(ids, 4 * size.value)).cast("I")))
            row.ids, row.n = addressof(kept[-1]), size.value
        numbers, width = c_void_p(), c_size_t()
        _call("sp_package_embed", package, byref(_sized(c.sp_embedding_request, texts=addressof(rows), n_texts=n,
                                                        n_dimensions=dimensions)), byref(numbers), byref(width))
        embeddings: Any = memoryview(_take(numbers, 4 * n * width.value)).cast("f", (n, width.value))
        return typing.cast(memoryview, embeddings)

    def generate(self, prompt: Prompt, *, max_tokens: int | None = None, stop: Sequence[str] = (),
                 seed: int | None = None, draft: bool = True, **settings: Setting) -> Stream[str]:
        """Continues a text, or ids, without a template, and yields the text as it comes. `settings` are numbers by
        their names in a Modelfile, such as temperature=0.8. Error 2: there is no such setting; 3: not in its range."""
        def work(put: Callable[[str], int]) -> Result:
            def text(_: int, at: int, size: int, _drafted: bool) -> int:
                return put(string_at(at, size).decode())

            ids = self.tokenize(prompt, special=True) if isinstance(prompt, str) else list(prompt)
            kept = _ids(ids)
            callback = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_size_t, c_bool)(text)
            request = _sized(c.sp_request, prompt=addressof(kept), n_prompt=len(ids), text=cast(callback, c_void_p))
            return self._generate(request, max_tokens, stop, seed, draft, settings)
        return Stream(work)

    def chat(self, messages: Messages, *, tools: Sequence[dict[str, Any]] | None = None,
             tool_choice: Literal["auto", "required"] = "auto", schema: dict[str, Any] | None = None, think: bool | None = None, max_tokens: int | None = None,
             stop: Sequence[str] = (), seed: int | None = None, draft: bool = True,
             **settings: Setting) -> Stream[Part]:
        """Answers a question, or messages and tools in the form of OpenAI's chat completions, after the messages that
        the file states. tool_choice "required": the answer is calls that match the schemas of the tools. schema: a JSON schema of the content. think: asks for reasoning, or for none. Settings as of
        generate. Error 3: messages that the template refuses; 4: the file has no template, or a schema that is not
        supported."""
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        has_system = bool(turns) and turns[0].get("role") == "system"
        first = turns[:1] if has_system else [{"role": "system", "content": self._system}] if self._system else []
        turns = first + self._messages + turns[has_system:]

        def work(put: Callable[[Part], int]) -> Result:
            def show(_: int, at: int) -> int:
                part = c.sp_chat_part.from_address(at)
                kind: Any = ("content", "reasoning", "tool_call")[part.kind]
                return put(Part(kind, string_at(part.text, part.size).decode(), part.name.decode() if part.name else None))

            callback = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p)(show)
            prompt, reader, grammar = c_void_p(), c_void_p(), c_void_p()
            end_ids = self._end_ids(stop)
            ends, budget = _ids(end_ids), int(dict(self._settings).get("reasoning_budget", -1))
            try:
                if schema is not None:
                    text = json.dumps(schema).encode()
                    _call("sp_grammar_of_schema", byref(grammar), text, len(text))
                conversation = _sized(
                    c.sp_chat_request, messages=json.dumps(turns).encode(), end_ids=addressof(ends),
                    n_end_ids=len(end_ids), limit_reasoning=budget >= 0, max_reasoning_tokens=max(budget, 0),
                    tools=json.dumps(list(tools)).encode() if tools is not None else None, response_format=grammar,
                    is_think_set=think is not None, think=bool(think),
                    calls=c.SP_CHAT_CALLS_REQUIRED if tool_choice == "required" else c.SP_CHAT_CALLS_TAGGED)
                with self._lock:
                    if not self._chat:
                        _call("sp_chat_open", byref(self._chat), self._open_package(), None)
                _call("sp_chat_prompt_open", byref(prompt), self._chat, byref(conversation))
                _call("sp_chat_reader_open", byref(reader), prompt,
                      byref(_sized(c.sp_chat_reader_options, part=cast(callback, c_void_p))))
                request = _sized(c.sp_request, reader=reader)
                _lib.sp_chat_prompt_apply(prompt, byref(request))
                return self._generate(request, max_tokens, stop, seed, draft, settings)
            finally:
                _lib.sp_chat_reader_close(reader)
                _lib.sp_chat_prompt_close(prompt)
                _lib.sp_grammar_close(grammar)
        return Stream(work)

    def ask(self, messages: Messages, **options: Any) -> Answer:
        """A whole answer; the arguments are those of chat."""
        stream = self.chat(messages, **options)
        parts = list(stream)
        assert stream.result is not None
        return Answer("".join(p.text for p in parts if p.kind == "content"),
                      "".join(p.text for p in parts if p.kind == "reasoning"),
                      [(p.name or "", json.loads(p.text)) for p in parts if p.kind == "tool_call"], stream.result)

    def _generate(self, request: c.sp_request, max_tokens: int | None, stop: Sequence[str], seed: int | None,
                  draft: bool, settings: dict[str, Setting]) -> Result:
        """Generates with the settings of the file, and those of the caller over them."""
        file, result = c_void_p(), _sized(c.sp_result)
        request.draft_len = c.SP_DRAFT_LENGTH_AUTO
        with self._lock:
            try:
                _call("sp_package_settings", self._open_package(), byref(file))
                _call("sp_file_settings_apply", file, byref(request))
                for name, value in settings.items():
                    _call("sp_sampling_set", request.sampling, name.encode(), str(value).encode())
                if seed is not None:
                    c.sp_sampling.from_address(request.sampling).seed = seed
                if max_tokens is not None:
                    request.max_tokens = max_tokens
                if not draft:
                    request.draft_len = 0
                if stop:
                    stops = (c_char_p * len(stop))(*(s.encode() for s in stop))
                    request.stops, request.n_stops = addressof(stops), len(stop)
                if not self._session:
                    _call("sp_session_open", byref(self._session), self._package, byref(self._options))
                _call("sp_session_generate", self._session, byref(request), byref(result))
                ids = list((c_uint32 * result.n_ids).from_address(result.ids)) if result.n_ids else []
                return Result(ids, _lib.sp_stop_name(result.stop).decode(), result.n_prompt, result.n_reused,
                              result.drafted, result.accepted, result.prompt_seconds, result.speed_up)
            finally:
                _lib.sp_result_release(byref(result))
                _lib.sp_file_settings_close(file)


def open(path: str | os.PathLike[str], *, threads: int = 0, context: int = 0,  # pylint: disable=redefined-builtin
         cache: Literal["f16", "f32", "q8"] = "f16", draft: bool = True, kernels: str | None = None) -> Model:
    """Opens a packed file; the options are those of Model. Error 3: a damaged file, 5: one that cannot be read."""
    return Model(path, threads=threads, context=context, cache=cache, draft=draft, kernels=kernels)
