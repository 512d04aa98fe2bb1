"""Changes to generated epochs of Grep and Sum that the papers' experiments need and the plain generator does not make.

Each takes an epoch and gives another with the same identities and times. A key's partition is its number modulo the
number of partitions, so states should be a multiple of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Epoch
from engine.state.columns import ListColumn

Ints = NDArray[np.int64]


def _with(epoch: Epoch, record_type: str, **columns: Any) -> Epoch:
    events: dict[str, Mapping[str, Any]] = dict(epoch.events)
    events[record_type] = {**events[record_type], **columns}
    return Epoch(epoch.number, epoch.punctuation_ts, events)


def acyclic(epoch: Epoch) -> Epoch:
    """Each sum writes the smallest of its keys: chains then depend on chains of greater keys only, so never in a cycle."""
    sums = epoch.events["Sum"]
    keys = np.sort(np.concatenate([sums["keys"], sums["others"]], axis=1), axis=1)
    width = sums["keys"].shape[1]
    return _with(epoch, "Sum", keys=keys[:, :width], others=keys[:, width:])


def sometimes_alone(epoch: Epoch, multiple_share: float) -> Epoch:
    """Only this share of the sums reads other keys; the rest accesses one state (MorphStream's Fig. 19c)."""
    others: Ints = epoch.events["Sum"]["others"]
    rows, width = others.shape
    # By position, not at random: the same rows for every share that is higher.
    place = (np.arange(rows) * 0.6180339887498949) % 1.0
    reads = place < multiple_share
    lengths = np.where(reads, width, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return _with(epoch, "Sum", others=ListColumn(np.ascontiguousarray(others[reads]).reshape(-1), offsets))


def lists_of_accesses(epoch: Epoch) -> Epoch:
    """TStream's GS: a write event writes all of its keys and reads none else. Made from length 1 and `reads` keys."""
    sums = epoch.events["Sum"]
    keys = np.concatenate([sums["keys"], sums["others"]], axis=1)
    return _with(epoch, "Sum", keys=keys, others=np.empty((keys.shape[0], 0), np.int64))


def partitioned(epoch: Epoch, partitions: int, multiple_share: float, length: int) -> Epoch:
    """As `lists_of_accesses`, each transaction within one partition, but for a share which touches `length` of them."""
    epoch = lists_of_accesses(epoch)
    keys: Ints = epoch.events["Sum"]["keys"]
    rows, width = keys.shape
    place = (np.arange(rows) * 0.6180339887498949) % 1.0
    spans = np.where(place < multiple_share, min(length, width), 1)
    partition = (keys[:, :1] + np.arange(width) % spans[:, None]) % partitions
    return _with(epoch, "Sum", keys=keys - keys % partitions + partition)
