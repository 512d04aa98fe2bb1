"""Generated kernels: kept on disk for the next process, made anew when what they call changes, run by threads."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from services.codec import compiled
from services.codec.codec import compile_codec
from services.codec.rows import RowCodec

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json
import engine
from engine.functions import cache
from services.codec.codec import compile_codec
compiled = []
cache.on_compile = compiled.append
codec = compile_codec({"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]})
bodies = codec.encode({"x": __import__("numpy").arange(3)})
print(json.dumps([compiled, codec.decode(bodies)["x"].tolist()]))
"""


def run(directory: Path) -> list[list[object]]:
    environment = os.environ | {"MILLRACE_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer: list[list[object]] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run(tmp_path) == [["the encoder of R", "the decoder of R"], [0, 1, 2]]
    assert run(tmp_path) == [[], [0, 1, 2]]


def test_an_edit_in_a_called_kernel_makes_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def answer():\n    return 1\n"
    before = set(compiled._modules)
    compiled.compile_kernels("a test", text, {})
    monkeypatch.setattr(compiled, "_called_kernels", lambda: b"edited")
    compiled.compile_kernels("a test", text, {})
    assert len(set(compiled._modules) - before) == 2


def test_threads_share_a_codec() -> None:
    codec = compile_codec({"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})
    assert isinstance(codec, RowCodec)
    wrong: list[int] = []

    def work(number: int) -> None:
        column = np.arange(1000) * number
        for _ in range(50):
            if not np.array_equal(codec.decode(codec.encode({"n": column}))["n"], column):  # type: ignore[arg-type]
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
