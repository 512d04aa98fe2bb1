"""Changed epochs keep identities and have the property they are made for."""

import numpy as np

from bench import streams
from engine import Epoch
from engine.state.columns import ListColumn
from services.apps import workloads
from services.apps.workloads import Parameters

PARAMETERS = Parameters(theta=0.6, length=1, reads=10, transactions=400, states=160, abort_share=0.0)


def epoch() -> Epoch:
    return next(workloads.grep_sum(PARAMETERS, seed=3))


def test_acyclic_writes_the_smallest_key() -> None:
    changed = streams.acyclic(epoch()).events["Sum"]
    assert (changed["keys"] < changed["others"].min(axis=1, keepdims=True)).all()
    before = epoch().events["Sum"]
    together = [np.sort(np.concatenate([e["keys"], e["others"]], axis=1), axis=1) for e in (before, changed)]
    assert (together[0] == together[1]).all()
    assert (changed["ts"] == before["ts"]).all()


def test_a_share_reads_others() -> None:
    for share in (0.0, 0.25, 1.0):
        others = streams.sometimes_alone(epoch(), share).events["Sum"]["others"]
        assert isinstance(others, ListColumn) and len(others) == 400
        lengths = np.diff(others.offsets)
        assert set(lengths.tolist()) <= {0, 9}
        assert abs(np.count_nonzero(lengths) / 400 - share) < 0.01


def test_lists_of_accesses_write_all_keys() -> None:
    changed = streams.lists_of_accesses(epoch()).events["Sum"]
    assert changed["keys"].shape == (400, 10) and changed["others"].shape == (400, 0)


def test_partitions_touched() -> None:
    for share, length in ((0.0, 6), (0.5, 6), (1.0, 4)):
        keys = streams.partitioned(epoch(), 16, share, length).events["Sum"]["keys"]
        assert keys.min() >= 0 and keys.max() < 160
        touched = np.array([np.unique(row).size for row in keys % 16])
        assert set(touched.tolist()) <= {1, length}
        assert abs(np.count_nonzero(touched == length) / 400 - share) < 0.01
