#!/usr/bin/env python3
"""Soak of `spectool serve`: serve.py SPECTOOL FILE...

Eight clients send mixed requests for SOAK_SECONDS (default: an hour) to one server of these files:
chats, completions with several answers, streams, structured output, streams that are abandoned, cut
requests, bad JSON. One request in eight asks for a text that `spectool run` wrote with the same seed
before, and must get that text. The server's memory and descriptors must be flat: the largest resident
size of the last quarter at most 10 % and 4 MB above that of the second quarter, and no more
descriptors at the end than after the first requests. Prints one line of what was done."""
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

N_CLIENTS = 8
N_EXPECTED = 12  # texts of each file
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Server:
    def __init__(self, program, files):
        self.process = subprocess.Popen([program, "serve", "--port", "0", *files],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if match := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match.group(1))
                break
        else:
            sys.exit("serve did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.requests = self.abandoned = self.refused = self.compared = 0
        self.problems = []

    def add(self, **changes):
        with self.lock:
            for name, n in changes.items():
                setattr(self, name, getattr(self, name) + n)


def model_name(file):
    return os.path.splitext(os.path.basename(file))[0]


def expected_texts(program, files):
    """Completions, each with the text that `spectool run` writes."""
    dice, all = random.Random(0), []
    for file in files:
        for seed in range(N_EXPECTED):
            body = {"model": model_name(file), "prompt": dice.choice(["Once", "Finn was", "What is 7"]),
                    "max_tokens": dice.randrange(1, 60), "temperature": dice.choice([0, 0.8, 1.5]), "seed": seed}
            text = subprocess.run(
                [program, "run", "--raw", "--json", "--seed", str(seed), "--temperature", str(body["temperature"]),
                 "--num-predict", str(body["max_tokens"]), file, body["prompt"]],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
            all.append((body, json.loads(text.splitlines()[-1])["text"]))
    return all


def compare(port, dice, counts, expected):
    body, text = dice.choice(expected)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status == 503:
        counts.add(refused=1)
        return
    if response.status != 200 or answer["choices"][0]["text"] != text:
        counts.problems.append(f"{json.dumps(body)}: expected {text!r}, found {answer}")
    counts.add(compared=1)


def request_of(dice, models):
    words = " ".join(dice.choice(["time", "{", "one", "\u00e9", "is", "?\n"]) for _ in range(dice.randrange(1, 60)))
    body = {"max_tokens": dice.randrange(1, 40), "temperature": dice.choice([0, 0.7, 1.5]),
            "seed": dice.randrange(5), "stream": dice.random() < 0.5, "model": dice.choice(models)}
    kind = dice.randrange(5)
    if kind == 0:
        return "/v1/completions", body | {"prompt": words, "n": dice.randrange(1, 4)}
    if kind == 1:
        return "/v1/messages", body | {"messages": [{"role": "user", "content": words}]}
    if kind == 2:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    if kind == 3:
        return "/api/chat", {"messages": [{"role": "user", "content": words}], "stream": body["stream"],
                             "model": body["model"],
                             "options": {"num_predict": body["max_tokens"]}}
    return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": words}]}


def ask(port, dice, counts, models):
    path, body = request_of(dice, models)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if body["stream"] and dice.random() < 0.4:
        response.read(dice.randrange(1, 200))
        counts.add(abandoned=1)
    else:
        response.read()
        if response.status not in (200, 400, 503):
            counts.problems.append(f"status {response.status} of {path} {json.dumps(body)}")
        counts.add(refused=response.status != 200)
    connection.close()


def hang_up(port, dice, counts):
    """Sends half a request, or none that is one."""
    text = dice.choice([b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{\"pro",
                        b"GET /health HT", b"\x16\x03\x01 no HTTP\r\n\r\n",
                        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{]}"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        time.sleep(dice.random() / 20)
    counts.add(abandoned=1)


def client(number, server, counts, end, models, expected):
    dice = random.Random(number)
    while time.monotonic() < end:
        try:
            kind = dice.randrange(8)
            if kind == 0:
                hang_up(server.port, dice, counts)
            elif kind == 1:
                compare(server.port, dice, counts, expected)
            else:
                ask(server.port, dice, counts, models)
        except (OSError, http.client.HTTPException) as problem:
            counts.problems.append(repr(problem))
        counts.add(requests=1)


def main():
    program, *files = sys.argv[1:]
    seconds = float(os.environ.get("SOAK_SECONDS", 3600))
    expected = expected_texts(program, files)
    server, counts, models = Server(program, files), Counts(), [model_name(file) for file in files]
    for model in models:
        ask(server.port, random.Random(0), counts, [model])
    descriptors = server.descriptors()
    start = time.monotonic()
    clients = [threading.Thread(target=client, args=(i, server, counts, start + seconds, models, expected))
               for i in range(N_CLIENTS)]
    for thread in clients:
        thread.start()
    sizes = [[], [], [], []]
    while (passed := time.monotonic() - start) < seconds:
        sizes[min(3, int(4 * passed / seconds))].append(server.resident())
        time.sleep(min(1, seconds / 40))
    for thread in clients:
        thread.join()
    time.sleep(2)
    left = server.descriptors() - descriptors
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait(60)
    second, last = max(sizes[1]), max(sizes[3])
    print(f"{seconds:.0f} s: {counts.requests} requests, {counts.refused} refused, {counts.abandoned} abandoned, "
          f"{counts.compared} equal to run; "
          f"{second / 1e6:.1f} MB in the second quarter, {last / 1e6:.1f} MB in the last; "
          f"{left} descriptors more; status {status}")
    for problem in counts.problems[:10]:
        print(problem)
    sys.exit(bool(counts.problems) or last > 1.1 * second + 4e6 or left > 0 or status not in (0, -signal.SIGTERM))


main()
