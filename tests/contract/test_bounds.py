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
# Each calls a kernel rightly and prints what it gives, then with a number that is outside of an array.
OUTSIDE_AN_ARRAY = """
from engine.planning.graph_kernel import rank_strata

for predecessor in (0, 7):
    print(rank_strata(np.array([0, 0, 1]), np.array([predecessor]), np.zeros(2, np.int64)), flush=True)
"""
OUTSIDE_A_SHARED_ARRAY = """
from engine.execution.layout import Operations
from engine.execution.shared import share
from engine.planning.graph_kernel import connect_transactions

operations = share(Operations(**{name: np.zeros(2, np.int64) for name in Operations._fields}))
for end in (2, 3):
    component = np.zeros(1, np.int64)
    connect_transactions(operations, 0, end, 0, np.zeros(9, np.int64), np.zeros(9, np.int64), component)
    print(component[0] + 2, flush=True)
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run_checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, *arguments]
    # A thread that fails may leave others waiting for it at a barrier: then time runs out.
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1500)


@pytest.mark.parametrize("code", [OUTSIDE_AN_ARRAY, OUTSIDE_A_SHARED_ARRAY], ids=["plain", "shared"])
def test_an_index_outside_an_array_is_found(code: str) -> None:
    ended = run_checked("-c", f"import numpy as np\n{code}")
    assert ended.stdout == "2\n", ended.stderr  # the right call, and nothing of the wrong one
    assert ended.returncode == 1 and "IndexError: index is out of bounds" in ended.stderr


def test_checked_kernels_are_not_mixed_with_the_others() -> None:
    asked = "from engine.functions.cache import kernel_cache_directory; print(kernel_cache_directory())"
    assert run_checked("-c", asked).stdout.strip() not in ("", str(kernel_cache_directory()))


def test_no_kernel_reaches_outside_its_arrays() -> None:
    ended = run_checked("-m", "millrace", "verify", "engine", "--epochs", "30", "--threads", "1,2", "--json")
    assert ended.stdout, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["result"] in ("ok", "tame"), ended.stdout
    assert (summary["mismatches"], summary["epochs"]) == (0, 30), ended.stdout
    assert "out of bounds" not in ended.stderr
