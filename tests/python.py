"""What the Python module gives beside an example's answer. Usage: python.py PACKED EMBEDDING_FILE EMBEDDINGS SPECTOOL

EMBEDDINGS: what `spectool embed --json` wrote of "one text" and "another one".
"""
import json
import subprocess
import sys
import threading

import spectool


def fails(status, call, *arguments, **options):
    try:
        list(call(*arguments, **options))
    except spectool.Error as error:
        assert error.status == status, (error.status, error)
        return str(error)
    raise AssertionError("no failure")


def main(packed, embedding_file, embeddings, program):
    story = "Once upon a time"
    run = [program, "run", "--raw", "--ignore-eos", "--num-predict", "24", packed, story]
    with spectool.open(packed, threads=1) as model:
        assert model.tokenize(story) == [582, 580, 258, 421]  # testdata/tiny/golden_target.json
        assert model.detokenize([582, 580, 258, 421]) == story
        for arguments, options in (([], {}), (["--temperature", "0.8", "--seed", "7"], {"temperature": 0.8, "seed": 7})):
            expected = subprocess.run(run + arguments, check=True, capture_output=True, text=True).stdout
            for prompt in (story, [582, 580, 258, 421]):
                stream = model.generate(prompt, max_tokens=24, **options)
                assert "".join(stream) + "\n" == expected, (expected, options)
                assert stream.result.stop == "length" and len(stream.result.ids) == 24
        whole = "".join(model.generate(story, max_tokens=24))
        plain = model.generate(story, max_tokens=24, draft=False)
        assert "".join(plain) == whole and plain.result.drafted == 0
        assert "".join(model.generate(story, max_tokens=24, stop=[" a "])) == whole.split(" a ")[0]

        stream = model.generate(story, max_tokens=1000)
        first = next(stream)
        stream.close()
        assert whole.startswith(first) and stream.result.stop == "cancelled" and not list(stream)

        answer = model.ask("What is 7 plus 8?")
        assert answer.content and not answer.calls and answer.result.stop == "eos"
        schema = {"type": "object", "properties": {"n": {"enum": [7, 8]}}, "required": ["n"]}
        assert json.loads(model.ask("Which number?", schema=schema).content)["n"] in (7, 8)
        answers = [None] * 4
        threads = [threading.Thread(target=lambda i=i: answers.__setitem__(i, model.ask("What is 7 plus 8?"))) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(a.content == answer.content for a in answers)

        assert "temprature" in fails(2, model.generate, story, temprature=1)
        assert fails(3, model.generate, story, top_p=7)
        assert fails(4, model.embed, ["text"])
        assert fails(2, model.generate, story, max_tokens=3, n_probs="x")
    assert "closed" in fails(2, model.tokenize, story)
    assert fails(5, spectool.open, "none.bin")

    with spectool.open(embedding_file) as model:
        expected = [json.loads(line)["embedding"] for line in open(embeddings, encoding="utf-8")]
        got = model.embed(["one text", "another one"])
        assert got.shape == (2, len(expected[0])) and got.format == "f"
        for row, numbers in zip(got.tolist(), expected):
            assert all(abs(a - b) < 1e-6 for a, b in zip(row, numbers))
        assert model.embed(["one text"], dimensions=3).shape == (1, 3)


main(*sys.argv[1:])
