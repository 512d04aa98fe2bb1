"""The four kinds of trouble: engines that die, brokers that die, a broker that stands still, connections that break."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from services.engine.rules import EXIT_FENCED
from services.kafka.broker import Broker
from services.kafka.cluster import Cluster
from services.kafka.node_files import free_ports, new_nodes
from services.verify.crash.deaths import PHASES, choose_death
from services.verify.crash.proxy import AT_COMMIT, Cut, Proxy
from services.verify.crash.scene import REQUEST_TIMEOUT_S, TRANSACTION_TIMEOUT_S, Scene, Stuck
from services.verify.crash.subject import Subject

Did = Callable[[str], None]  # told what was done, each time

ANY_MOMENT = "any moment"  # killed from outside
KILLS_A_DOUBLE = 20  # so often a second engine begins while the first one runs
IN_TRANSACTION = ("produce", "before commit", "in commit")  # phases
EPOCHS_A_TROUBLE = 45  # of input, so that it lasts
HEAP_MB = 320  # three brokers beside everything else
_QUIET = Console(quiet=True)


@contextmanager
def one_broker(subject: Subject, directory: Path) -> Iterator[tuple[Scene, Broker]]:
    with Broker(directory / "broker", heap_mb=HEAP_MB, console=_QUIET) as broker:
        scene = Scene(subject, directory / "run", broker.bootstrap, 1)
        try:
            yield scene, broker
        finally:
            scene.close()


def kills(scene: Scene, count: int, chance: random.Random, did: Did) -> None:
    """Engines killed in each phase in turn, and at any moment; now and then a second engine takes over."""
    scene.warm_up()
    scene.end_engine()
    turns = list(itertools.islice(itertools.cycle((*PHASES, ANY_MOMENT)), count))
    chance.shuffle(turns)
    for number, phase in enumerate(turns):
        if phase == ANY_MOMENT:
            engine = scene.start_engine()
            moment_s = time.monotonic() + chance.uniform(0.3, 4.0)
            scene.wait("the moment", lambda at_s=moment_s: time.monotonic() > at_s)  # type: ignore[misc]
            engine.signal(signal.SIGKILL)
        else:
            engine = scene.start_engine(choose_death(phase, chance))
        scene.wait(
            f"a death in phase {phase} ({engine.death})", lambda dying=engine: dying.exit_code is not None  # type: ignore[misc]
        )  # fmt: skip
        if engine.exit_code != -signal.SIGKILL or (engine.died_in or ANY_MOMENT) != phase:
            raise Stuck(f"the engine ended with {engine.exit_code}, to die in {phase}: {scene.last_words()}")
        did(phase)
        if number % KILLS_A_DOUBLE == KILLS_A_DOUBLE - 1:
            double(scene)
            did("double")


def double(scene: Scene) -> None:
    """Two engines with one id: the older ends as fenced, the newer goes on."""
    older = scene.start_engine()
    scene.wait_progress()
    scene.start_engine()
    scene.wait("the older engine's end", lambda: older.exit_code is not None)
    if older.exit_code != EXIT_FENCED:
        raise Stuck(f"the older of two engines ended with {older.exit_code}, {EXIT_FENCED} was expected")
    scene.wait_progress(2)
    scene.end_engine()


@contextmanager
def three_brokers(subject: Subject, directory: Path) -> Iterator[tuple[Scene, Cluster]]:
    with Cluster(directory / "cluster", heap_mb=HEAP_MB, console=_QUIET) as cluster:
        scene = Scene(subject, directory / "run", cluster.bootstrap, 3)
        try:
            yield scene, cluster
        finally:
            scene.close()


def broker_kills(scene: Scene, cluster: Cluster, count: int, chance: random.Random, did: Did) -> None:
    """Nodes of three killed while the engine runs, one at a time, and started again after a while."""
    scene.warm_up()
    for _ in range(count):
        number = chance.randrange(len(cluster.nodes)) + 1
        _run_for(scene, chance.uniform(0.0, 1.0))
        cluster.kill(number)
        if chance.random() < 0.7:
            scene.wait_progress(2)  # two of three are enough
        cluster.nodes[number].launch()
        cluster.wait_whole()
        did(f"node {number}")
        scene.wait_progress(2)


def pauses(scene: Scene, broker: Broker, count: int, chance: random.Random, did: Did) -> None:
    """The broker stands still, mostly longer than transactions may take: at any moment, and in the middle of a transaction."""
    scene.warm_up()
    for number in range(count):
        _run_for(scene, chance.uniform(0.0, 1.0))
        if number % 2:
            _pause_in_transaction(scene, broker, chance)
            time.sleep(TRANSACTION_TIMEOUT_S + chance.uniform(0.5, 2.5))
        else:
            broker.pause()
            time.sleep(TRANSACTION_TIMEOUT_S + chance.uniform(-1.0, 2.5))
        broker.resume()
        did("pause")
        scene.wait_progress(2)


def _pause_in_transaction(scene: Scene, broker: Broker, chance: random.Random) -> None:
    """Another engine takes over, and stops the broker while it has a transaction open."""
    scene.end_engine()
    death = choose_death(chance.choice(IN_TRANSACTION), chance)
    engine = scene.start_engine(replace(death, stops=broker.process.pid()))
    scene.wait("a broker that stands still", lambda: engine.died_in is not None)


@contextmanager
def proxied_broker(subject: Subject, directory: Path) -> Iterator[tuple[Scene, Proxy]]:
    """A broker that engines reach through a proxy only; the run's own clients go straight to it."""
    behind, front = free_ports(2)
    (plain,) = new_nodes([None])
    node = plain.behind_proxy(behind, front)
    with Broker(directory / "broker", node=node, heap_mb=HEAP_MB, console=_QUIET) as broker:
        proxy = Proxy(front, behind)
        try:
            scene = Scene(subject, directory / "run", broker.bootstrap, 1, f"127.0.0.1:{front}")
            try:
                yield scene, proxy
            finally:
                scene.close()
        finally:
            proxy.close()


def cuts(scene: Scene, proxy: Proxy, count: int, chance: random.Random, did: Did) -> None:
    """Connections cut at any time and at the commit, left half-open, delayed."""
    scene.warm_up()
    for kind in itertools.islice(itertools.cycle(Cut), count):
        _run_for(scene, chance.uniform(0.0, 0.5))
        lasts_s = {Cut.HALF_OPEN: REQUEST_TIMEOUT_S + chance.uniform(-2, 2), Cut.DELAY: chance.uniform(0.5, 2.0)}
        if kind in AT_COMMIT:
            proxy.arm(kind)
            scene.wait("a commit to cut", lambda: not proxy.is_armed)  # fed meanwhile, or there is nothing to commit
        else:
            proxy.trouble(kind, lasts_s.get(kind, 0.0))
        did(kind.value)
        scene.wait_progress(2)


def _run_for(scene: Scene, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    scene.wait("a while", lambda: time.monotonic() > until_s)
