"""A cluster of brokers on one machine, for tests of what happens when one of them goes: replication 3, two in sync.

Nodes are counted from 1. Each is a `Broker` with a directory `node-<number>` of its own, so all that a broker can do (kill,
restart, pause) its node can. A transaction survives the loss of any one node.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from services.errors import BrokerError
from services.kafka.broker import HEAP_MB, START_TIMEOUT_S, Broker, answers
from services.kafka.node_files import NodeFiles, new_nodes


class Cluster:
    """Brokers that replicate each other's records."""

    def __init__(
        self, directory: Path, nodes: int = 3, *, heap_mb: int = HEAP_MB, console: Console | None = None
    ) -> None:
        if nodes < 1:
            raise BrokerError(f"a cluster of {nodes} nodes was asked for; 1 or more were expected")
        places = [Path(directory) / f"node-{number}" for number in range(1, nodes + 1)]
        known = [NodeFiles(place).read_node() for place in places]
        if any(node is None for node in known):  # only whole clusters were ever started: see `start`
            known = list(new_nodes([None] * nodes))
        self.nodes = {
            number: Broker(place, node=node, heap_mb=heap_mb, console=console)
            for number, (place, node) in enumerate(zip(places, known, strict=True), start=1)
        }

    @property
    def bootstrap(self) -> str:
        """All nodes' addresses, so that a client finds the cluster with any of them down."""
        return ",".join(broker.bootstrap for broker in self.nodes.values())

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Starts all nodes at once and waits until each sees all others."""
        with self._ended_on_error():
            for broker in self.nodes.values():
                broker.launch()
            for broker in self.nodes.values():
                broker.wait_ready(timeout_s)
            self.wait_whole(timeout_s)

    def wait_whole(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until every node knows every node as alive."""
        deadline, numbers = time.monotonic() + timeout_s, set(self.nodes)
        for number, broker in self.nodes.items():
            while not answers(broker.bootstrap, numbers):
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"node {number} did not see all of nodes {sorted(numbers)} within {timeout_s:g} s"
                    )
                time.sleep(0.1)

    def kill(self, number: int) -> None:
        """Ends one node at once (-9)."""
        self.nodes[number].kill()

    def restart(self, number: int) -> None:
        """Starts one node again, stopped first if it runs, and waits until it is back."""
        self.nodes[number].restart()

    def stop(self) -> None:
        """Ends all nodes. All are told before any is waited for: one alone would wait for the others' votes."""
        with contextlib.ExitStack() as stack:  # each is stopped even if stopping another fails
            for broker in self.nodes.values():
                stack.callback(broker.stop)
                broker.ask_to_stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @contextlib.contextmanager
    def _ended_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.stop()
            raise
