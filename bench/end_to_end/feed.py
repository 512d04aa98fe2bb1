"""Ledger epochs as the messages of a source: chunks of both record types in the order of time, then punctuations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from confluent_kafka import Producer

from engine import Epoch
from services.apps import workloads
from services.engine.publishing import SourceEpoch
from services.engine.wire import Wire
from services.kafka.clients import producer
from services.settings import KafkaSettings

PARTITIONS = 4
ROWS_A_CHUNK = 10_000
RECORD_TYPES = ("Deposit", "Transfer")
Messages = list[tuple[int, bytes]]  # partition and value, in the order to send them


def ledger_epochs(transactions: int, keys: int, count: int, seed: int, first: int = 0) -> Iterator[Epoch]:
    """SL without a busy loop, half of it transfers."""
    parameters = replace(workloads.STREAMING_LEDGER, busy_us=0.0, transactions=transactions, states=keys)
    return workloads.streaming_ledger(parameters, count, seed, 0.5, first_epoch=first)


def messages_of(wire: Wire, epoch: Epoch) -> Messages:
    """An epoch's messages."""
    source = SourceEpoch(wire, 0, epoch.number, PARTITIONS)
    times = [epoch.events[name]["ts"] for name in RECORD_TYPES]
    order = np.argsort(np.concatenate(times), kind="stable")
    kinds = (order >= times[0].size).astype(np.uint8)
    done = [0, 0]
    for begin in range(0, kinds.size, ROWS_A_CHUNK):
        mine = kinds[begin : begin + ROWS_A_CHUNK]
        ends = [done[0] + int(np.count_nonzero(mine == 0)), done[1] + int(np.count_nonzero(mine == 1))]
        rows = {name: slice(done[kind], ends[kind]) for kind, name in enumerate(RECORD_TYPES)}
        source.add_mixed(
            {name: {f: column[rows[name]] for f, column in epoch.events[name].items()} for name in RECORD_TYPES}, mine
        )
        done = ends
    return source.close(epoch.punctuation_ts)


def preload(settings: KafkaSettings, topic: str, epochs: Iterable[Messages]) -> int:
    """Writes the epochs and waits until the broker has them; gives their bytes."""
    client, size = Producer(producer(settings)), 0
    for messages in epochs:
        for partition, value in messages:
            client.produce(topic, value, partition=partition)
            size += len(value)
        client.flush()
    return size
