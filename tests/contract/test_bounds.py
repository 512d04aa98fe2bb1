"""The verification once more with every array index in compiled code checked: no kernel may reach outside its arrays.

Checked kernels are other code, kept in a cache directory of their own (engine/functions/cache.py), so they run in
processes of their own. The first run compiles them all, for a minute or more; later ones find them. `make bounds` runs
more epochs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.functions.cache import kernel_cache_directory

ROOT = Path(__file__).parent.parent.parent
OUTSIDE = """
import numpy as np
from engine.functions.cache import kernel_cache_directory
from engine.planning.graph_kernel import rank_strata

predecessor_begin, stratum = np.array([0, 0, 1]), np.zeros(2, np.int64)
print(kernel_cache_directory().name)
print(rank_strata(predecessor_begin, np.array([0]), stratum), flush=True)
rank_strata(predecessor_begin, np.array([7]), stratum)
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run_checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_an_index_outside_an_array_is_found() -> None:
    """A vertex whose predecessor is number 7 of 2."""
    ended = run_checked("-c", OUTSIDE)
    directory, *printed = ended.stdout.split()
    assert printed == ["2"], ended.stderr  # the right call ran before the wrong one
    assert ended.returncode == 1 and "IndexError: index is out of bounds" in ended.stderr
    assert directory != kernel_cache_directory().name, "checked kernels must not be mixed with the others"


def test_no_kernel_reaches_outside_its_arrays() -> None:
    ended = run_checked("-m", "millrace", "verify", "engine", "--epochs", "30", "--threads", "1,2", "--json")
    assert ended.stdout, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["result"] in ("ok", "tame"), ended.stdout
    assert (summary["mismatches"], summary["epochs"]) == (0, 30), ended.stdout
    assert "out of bounds" not in ended.stderr
