"""A stage as its chooser sees it: made into operations only if the choice asks for the graph, or needs it to run."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.execution.layout import Ints
from engine.planning.stage import StageEvents
from engine.planning.task_graph import TaskGraph
from engine.scheduling.choice import Choice, Chooser
from engine.scheduling.group_keys import group_values
from engine.scheduling.policy import Granularity
from engine.scheduling.units import UnitGraph
from engine.stage_run import StageRun


class StageView:
    """One stage before it runs. `operations` is what `stage_operations` counted: filtered events are in it."""

    def __init__(
        self, events: StageEvents, operations: int, threads: int, inlines: bool, make_run: Callable[[], StageRun]
    ) -> None:
        self.events = events
        self.number = events.stage
        self.operations = operations
        self.transactions = events.transactions
        self.threads = threads
        self.inlines = inlines
        self.runs_inlined = False
        self.run: StageRun | None = None
        self.choosing_seconds = 0.0  # without making operations, the graph and units
        self.planning_seconds = 0.0  # making operations
        self._make_run = make_run
        self._timed = False

    def plan(self) -> StageRun:
        """The stage as operations."""
        if self.run is None:
            begin = time.perf_counter()
            self.run = self._make_run()
            self.operations, self.transactions = self.run.count, self.run.transactions
            if self._timed:
                self.run.time_operations()
            self.planning_seconds = time.perf_counter() - begin
        return self.run

    def graph(self) -> TaskGraph:
        return self.plan().graph()

    def units(self, granularity: Granularity) -> UnitGraph:
        return self.plan().units(granularity)

    def group_values(self) -> Ints | None:
        run = self.plan()
        return group_values(self.events, run.first_transaction, run.transactions)

    def time_operations(self) -> None:
        self._timed = True
        if self.run is not None:
            self.run.time_operations()

    def choose(self, chooser: Chooser) -> Choice:
        """Lets the chooser choose, and notes how long that took."""
        begin = time.perf_counter()
        chosen = chooser.choose(self)
        built = self.planning_seconds + (self.run.built_seconds if self.run is not None else 0.0)
        self.choosing_seconds = time.perf_counter() - begin - built
        return chosen
