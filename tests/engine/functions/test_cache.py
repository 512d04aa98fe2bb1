"""The disk cache: another process loads what this one compiled, quickly, and nothing stale."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from engine.functions import cache

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys, time
import numpy as np
from engine.functions import cache
from engine.functions.entry import Parameter, compile_entry
from engine.functions.udf import udf

FACTOR = int(sys.argv[1])

@udf
def warm(a):
    return a

@udf
def scale(a):
    return a * FACTOR, a // 3

compiled = []
cache.on_compile = compiled.append
parameters = (Parameter("scalar", np.dtype("<i8"), argument=0),)
compile_entry(warm, parameters, "value")  # numba's own start is not the entry's cost
start = time.perf_counter()
entry = compile_entry(scale, parameters, "value")
elapsed_s = time.perf_counter() - start
print(json.dumps({"compiled": compiled, "elapsed_s": elapsed_s, "result": entry.result, "hit": entry.from_cache}))
"""


def run(directory: Path, program: Path, factor: int) -> dict[str, object]:
    environment = os.environ | {"MILLRACE_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, str(program), str(factor)]
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_a_second_process_loads_and_does_not_compile(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    first = run(tmp_path, program, 3)
    assert (first["compiled"], first["hit"], first["result"]) == (["warm", "scale"], False, 2)
    second = run(tmp_path, program, 3)
    assert (second["compiled"], second["hit"], second["result"]) == ([], True, 2)
    changed = run(tmp_path, program, 4)  # the same text, another constant: other code
    assert (changed["compiled"], changed["hit"]) == (["scale"], False)


@pytest.mark.slow
def test_a_torn_note_means_compiling_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run(tmp_path, program, 3)
    for note in tmp_path.rglob("entry_*.json"):
        note.write_text('{"resu')
    again = run(tmp_path, program, 3)
    assert (again["compiled"], again["result"]) == (["warm", "scale"], 2)


def test_the_directory_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CACHE_DIR", str(tmp_path / "chosen"))
    directory = cache.kernel_cache_directory()
    assert directory.parent == tmp_path / "chosen" and directory.name.startswith("kernels-") and directory.is_dir()
    monkeypatch.delenv("MILLRACE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.kernel_cache_directory() == tmp_path / "home" / "millrace" / directory.name


def test_install_tells_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    directory = cache.install()
    assert numba.config.CACHE_DIR == os.environ["NUMBA_CACHE_DIR"] == str(directory)


def test_a_directory_that_cannot_be_made_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MILLRACE_CACHE_DIR", str(tmp_path / "file"))
    directory = cache.kernel_cache_directory()
    assert directory.is_dir() and tmp_path not in directory.parents


def test_the_fingerprint_covers_kernels_and_what_they_import() -> None:
    found = cache.kernel_sources(ROOT / "engine")
    assert {"execution/operation_kernel.py", "execution/layout.py", "errors.py"} <= set(found)
    assert "driver.py" not in found  # an edit that compiled code cannot see recompiles nothing
