"""The task precedence graph (TPG) of one stage as the paper tells it (MorphStream, sections 4.1 to 4.4): to be read, and to
hold the fast planner against. Plain Python on key-partitioned sorted lists; nothing of it runs in the engine.

Stream phase: events come in any order. Each is decomposed into operations, one a statement (or one an element of its list of
keys). An operation goes into the sorted list of its key; for every other record that its functions read, a *virtual*
operation goes into that record's list. Operations of one transaction are joined by logical dependencies (LD).

Transaction phase, at the punctuation: all lists are complete, and walking each one finds the dependencies:

TD  to an operation from the nearest earlier write of its key by another transaction
PD  to the owner of a virtual operation from the nearest earlier write of that key by another transaction
SD  within a transaction: from a write of a key to the next write of it, and from a statement to those that read its result
FD  around a fence, an operation whose keys are not known yet (section 4.4). The paper puts a virtual operation of it into
    every list; here it stands once in a list of the whole table: it follows the writes since the last fence and that fence,
    and if it writes, later accesses of the table follow it

Reads, virtual or not, are never the source of a TD or PD: versions make waiting for readers needless. A window (section 4.3)
is a read: the nearest write follows the one before it, so it follows all writes in its range.

Invariants: an operation's `place` says all about order, so arrival does not matter; edges point to higher numbers.
Two chains are in a cycle if each is reachable from the other, so a diamond is none.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice, pairwise, repeat
from typing import Any, NamedTuple

from sortedcontainers import SortedKeyList

from engine.api.model import FieldReference, HandleSource, KeyExpression, Kind, Source, Statement, Template
from engine.api.types import ListType

Key = Any  # a tuple of the key's parts
Edge = tuple[int, int, str]  # from operation, to operation, kind
TransactionPlace = tuple[int, int, int, tuple[int, ...]]  # ts, source, seq, emission: the total order of a stage

WRITES = (Kind.WRITE, Kind.DELETE)


class PlannedEvent(NamedTuple):
    """One event, derived columns among its fields; what a filter leaves out is not planned."""

    record_type: str
    ts: int
    source: int
    seq: int
    fields: Mapping[str, Any]
    emission: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Operation:
    """A vertex: what one statement does to one key, or to a table (`key` None) whose key is not known yet."""

    transaction: TransactionPlace
    statement: Statement
    element: int
    key: Key | None

    @property
    def place(self) -> tuple[TransactionPlace, int, int]:
        return self.transaction, self.statement.index, self.element

    @property
    def writes(self) -> bool:
        return self.statement.kind in WRITES

    @property
    def table(self) -> str | None:
        return self.statement.access.table.name if self.statement.access is not None else None


class Entry(NamedTuple):
    """What stands in a sorted list: an operation itself, or a virtual one of it, which comes first."""

    operation: Operation
    is_virtual: bool


def _sorted_list() -> Any:
    return SortedKeyList(key=lambda entry: (entry.operation.place, not entry.is_virtual))


@dataclass(frozen=True)
class ReferenceGraph:
    """The finished TPG. Operations and transactions are numbered in the total order."""

    operations: list[Operation]
    transaction_of: list[int]  # of each operation
    transactions: int
    edges: set[Edge]
    logical_dependencies: set[tuple[int, int]]  # neighbours in a transaction: they order nothing, but fail together
    chains: list[list[int]]  # operations, by first operation

    def components(self) -> list[int]:
        """For each transaction the lowest one it is connected with by edges, in whatever direction."""
        neighbours: dict[int, set[int]] = {transaction: set() for transaction in range(self.transactions)}
        for source, target, _ in self.edges:
            one, other = self.transaction_of[source], self.transaction_of[target]
            neighbours[one].add(other)
            neighbours[other].add(one)
        lowest: dict[int, int] = {}
        for transaction in range(self.transactions):
            if transaction not in lowest:
                lowest |= dict.fromkeys(_reachable(transaction, neighbours), transaction)
        return [lowest[transaction] for transaction in range(self.transactions)]

    def strata(self) -> list[int]:
        """For each operation the length of the longest path that leads to it."""
        rank = [0] * len(self.operations)
        for source, target, _ in sorted(self.edges, key=lambda edge: edge[1]):
            rank[target] = max(rank[target], rank[source] + 1)
        return rank

    def units(self) -> list[frozenset[int]]:
        """The operations of each coarse scheduling unit: a chain, or the chains of one cycle together (section 5.2)."""
        return [frozenset(o for chain in cycle for o in self.chains[chain]) for cycle in self._chains_by_cycle()]

    def cycles(self) -> list[frozenset[int]]:
        """Chains (positions in `chains`) that depend on each other in a cycle."""
        return [cycle for cycle in self._chains_by_cycle() if len(cycle) > 1]

    def _chains_by_cycle(self) -> list[frozenset[int]]:
        chain_of = {operation: number for number, chain in enumerate(self.chains) for operation in chain}
        following: dict[int, set[int]] = {number: set() for number in range(len(self.chains))}
        preceding: dict[int, set[int]] = {number: set() for number in range(len(self.chains))}
        for source, target, _ in self.edges:
            following[chain_of[source]].add(chain_of[target])
            preceding[chain_of[target]].add(chain_of[source])
        found: list[frozenset[int]] = []
        placed: set[int] = set()
        for chain in range(len(self.chains)):
            if chain not in placed:
                found.append(frozenset(_reachable(chain, following) & _reachable(chain, preceding)))
                placed |= found[-1]
        return found


class Planner:
    """Builds the graph of one stage: `add` its events as they come, then `punctuate`."""

    def __init__(self, templates: Mapping[str, Template]) -> None:
        self._templates = templates
        self._transactions: dict[TransactionPlace, list[Operation]] = {}
        self._of_key: dict[tuple[str, Key], Any] = {}  # the paper's sorted lists
        self._of_table: dict[str, Any] = {}  # everything on a table, for its fences
        self._edges: set[tuple[Operation, Operation, str]] = set()

    def add(self, event: PlannedEvent) -> None:
        """The stream phase, for one event."""
        statements = self._templates[event.record_type].statements
        transaction = (event.ts, event.source, event.seq, event.emission)
        values = {**event.fields, "ts": event.ts}
        made: list[list[Operation]] = []
        for statement in statements:
            access = statement.access
            keys = [None] if access is None or access.key is None else list(_keys(access.key, values))
            made.append([Operation(transaction, statement, element, key) for element, key in enumerate(keys)])
            for operation in made[-1]:
                if access is not None:
                    self._insert(access.table.name, [operation.key], Entry(operation, is_virtual=False))
                for source in _sources(statement):
                    if isinstance(source, HandleSource):
                        self._edges |= {(given, operation, "SD") for given in made[source.statement]}
                    else:
                        keys_read = _keys(source.key, values)
                        self._insert(source.table.name, keys_read, Entry(operation, is_virtual=True))
        self._transactions[transaction] = [operation for operations in made for operation in operations]

    def punctuate(self) -> ReferenceGraph:
        """The transaction phase: the lists are complete, the dependencies are found and everything is numbered."""
        edges = self._edges.copy()
        for entries in self._of_key.values():
            edges.update(_dependencies_on_key(entries))
        for entries in self._of_table.values():
            edges.update(_dependencies_on_fences(entries))
        transactions = sorted(self._transactions)
        operations = [operation for place in transactions for operation in self._transactions[place]]
        number = {operation: at for at, operation in enumerate(operations)}
        position = {place: at for at, place in enumerate(transactions)}
        return ReferenceGraph(
            operations,
            [position[operation.transaction] for operation in operations],
            len(transactions),
            {(number[source], number[target], kind) for source, target, kind in edges},
            {(number[a], number[b]) for of_one in self._transactions.values() for a, b in pairwise(of_one)},
            sorted([number[operation] for operation in chain] for chain in self._chains()),
        )

    def _insert(self, table: str, keys: Iterable[Key | None], entry: Entry) -> None:
        """Into the list of each key, and once into the table's: that an operation reads an empty list counts there too."""
        self._of_table.setdefault(table, _sorted_list()).add(entry)
        for key in keys:
            if key is not None:
                self._of_key.setdefault((table, key), _sorted_list()).add(entry)

    def _chains(self) -> Iterator[list[Operation]]:
        """Each key's operations, cut where a fence writes the table.

        A chain begins with a write: a read before the first one waits for nothing in its list, and is a chain by itself,
        like every operation without a known key.
        """
        yield from ([o] for operations in self._transactions.values() for o in operations if o.key is None)
        cuts = {
            table: [entry.operation.place for entry in entries if _is_fence(entry) and entry.operation.writes]
            for table, entries in self._of_table.items()
        }
        for (table, _), entries in self._of_key.items():
            yield from _chains_of_key([e.operation for e in entries if not e.is_virtual], cuts[table])


def _chains_of_key(operations: list[Operation], cuts: list[Any]) -> Iterator[list[Operation]]:
    for _, between_cuts in groupby(operations, key=lambda operation: bisect(cuts, operation.place)):
        part = list(between_cuts)
        first_write = next((at for at, operation in enumerate(part) if operation.writes), len(part))
        yield from ([read] for read in part[:first_write])
        if part[first_write:]:
            yield part[first_write:]


def _dependencies_on_key(entries: Iterable[Entry]) -> Iterator[tuple[Operation, Operation, str]]:
    """TD, PD and the SD between writes, from one walk through a key's list."""
    writes: list[Operation] = []
    for operation, is_virtual in entries:
        own_write_before = bool(writes) and writes[-1].transaction == operation.transaction
        if operation.writes and not is_virtual and own_write_before:
            yield writes[-1], operation, "SD"
        else:  # reads see the state before their own transaction
            of_others = (write for write in reversed(writes) if write.transaction != operation.transaction)
            for nearest in islice(of_others, 1):
                yield nearest, operation, "PD" if is_virtual else "TD"
        if operation.writes and not is_virtual:
            writes.append(operation)


def _dependencies_on_fences(entries: Iterable[Entry]) -> Iterator[tuple[Operation, Operation, str]]:
    """FD, from one walk through a table's list."""
    writes_since_fence: list[Operation] = []
    last_fence: Operation | None = None
    last_writing_fence: Operation | None = None
    for entry in entries:
        operation = entry.operation
        if _is_fence(entry):
            before = [*writes_since_fence, *([last_fence] if last_fence is not None else [])]
            yield from ((earlier, operation, "FD") for earlier in before)
            writes_since_fence, last_fence = [], operation
            last_writing_fence = operation if operation.writes else last_writing_fence
            continue
        if last_writing_fence is not None:
            yield last_writing_fence, operation, "FD"
        if operation.writes and not entry.is_virtual:
            writes_since_fence.append(operation)


def _is_fence(entry: Entry) -> bool:
    return not entry.is_virtual and entry.operation.statement.is_fence


def _sources(statement: Statement) -> tuple[Source, ...]:
    """All that a statement's condition, key function and function read."""
    computed = statement.access.computed if statement.access is not None else None
    return (*statement.when_reads, *(computed.reads if computed is not None else ()), *statement.reads)


def _keys(expression: KeyExpression, values: Mapping[str, Any]) -> Iterator[Key]:
    """The key, or with a list field the keys, that an expression stands for in an event."""
    parts = expression.components
    given = [values[part.name] if isinstance(part, FieldReference) else part for part in parts]
    if not expression.many:
        return iter([tuple(given)])
    is_list = [isinstance(part, FieldReference) and isinstance(part.type, ListType) for part in parts]
    columns = (value if listed else repeat(value) for value, listed in zip(given, is_list, strict=True))
    return zip(*columns, strict=False)


def _reachable(start: int, neighbours: Mapping[int, set[int]]) -> set[int]:
    """What can be reached from `start`, itself included."""
    reached, waiting = {start}, [start]
    while waiting:
        found = neighbours[waiting.pop()] - reached
        reached |= found
        waiting.extend(found)
    return reached
