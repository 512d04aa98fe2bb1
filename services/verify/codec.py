"""`millrace verify codec`: broken payloads by the million; the decoder may refuse them by name, or read what fastavro reads.

For every input the compiled decoder and the rules in plain Python (`services/codec/strict.py`) must give the same verdict,
reason and offset included; what is accepted must equal fastavro's reading, within `MEMORY_FACTOR` bytes a byte. Anything but a
`DecodeError`, or a difference, ends the run with exit code 1 and the input.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import fastavro
import numpy as np

from engine.state.columns import ListColumn
from services.codec.chunks import MEMORY_FACTOR, ChunkCodec, Decoded
from services.codec.codec import compile_codec
from services.codec.columns import NullableColumn, column_items
from services.codec.errors import DecodeError
from services.codec.objects import ObjectCodec, same
from services.codec.strict import check
from services.codec.tree import expand, parse
from services.verify.codec_inputs import SCHEMAS, mutated, valid_payloads

BYTES_AN_ARRAY = 16  # on top of MEMORY_FACTOR: an offsets array has one more entry than items


@dataclass
class Report:
    """What the inputs came to."""

    inputs: int = 0
    accepted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    bytes_a_byte_max: float = 0.0
    failure: str | None = None


def run(arguments: argparse.Namespace) -> int:
    """Runs what the command line asks for."""
    started = time.perf_counter()
    report = verify(arguments.inputs, arguments.seed, progress=not arguments.json)
    _print(arguments, report, time.perf_counter() - started)
    return 1 if report.failure else 0


def verify(inputs: int, seed: int, progress: bool = False) -> Report:
    """Mutated inputs, dealt out evenly over the schemas, until they are done or one fails."""
    report = Report()
    share = -(-inputs // len(SCHEMAS))
    for number, name in enumerate(SCHEMAS):
        target = Target(name)
        draw = np.random.default_rng([seed, number])
        payloads = valid_payloads(name, draw)
        for mutation, body in mutated(payloads, min(share, inputs - report.inputs), draw):
            report.inputs += 1
            report.mutations[mutation] += 1
            sentence = target.examine(body, report)
            if sentence:
                report.failure = f"{name}, {mutation}, input {report.inputs}: {sentence}; body {body.hex()}"
                return report
            if progress and report.inputs % 100_000 == 0:
                print(f"{report.inputs:,} of {inputs:,} inputs", file=sys.stderr, flush=True)
    return report


class Target:
    """One schema's decoder beside its references."""

    def __init__(self, name: str) -> None:
        schema = SCHEMAS[name]
        self.tree, self._parsed = expand(schema), parse(schema)
        codec = compile_codec(schema)
        self._codec: ChunkCodec | ObjectCodec = codec if isinstance(codec, ChunkCodec) else ObjectCodec(schema)

    def examine(self, body: bytes, report: Report) -> str | None:
        """What is wrong with the decoder's answer, if anything."""
        try:
            found = self._codec.decode(body)
        except DecodeError as error:
            report.reasons[error.reason.name] += 1
            return self._examine_refusal(body, error)
        except Exception as error:  # whatever it is, it is the finding
            return f"{type(error).__name__}: {error}"
        report.accepted += 1
        try:
            check(self.tree, body)
        except DecodeError as error:
            return f"accepted, but {error}"
        expected = fastavro.schemaless_reader(io.BytesIO(body), self._parsed, None, return_record_name=True)
        if not isinstance(found, Decoded):
            return None if same(found, expected) else f"read {found!r}, fastavro {expected!r}"
        held, arrays = _held(found)
        report.bytes_a_byte_max = max(report.bytes_a_byte_max, (held - BYTES_AN_ARRAY * arrays) / max(1, len(body)))
        if held > MEMORY_FACTOR * len(body) + BYTES_AN_ARRAY * arrays:
            return f"{held} bytes of columns for {len(body)} bytes"
        value = as_value(found, self.tree)
        return None if same(value, expected) else f"read {value!r}, fastavro {expected!r}"

    def _examine_refusal(self, body: bytes, error: DecodeError) -> str | None:
        try:
            check(self.tree, body)
        except DecodeError as expected:
            if (expected.reason, expected.offset) == (error.reason, error.offset):
                return None
            return f"refused as {error}, expected {expected}"
        return f"refused as {error}, but it is valid"


def as_value(found: Decoded, tree: dict[str, Any]) -> dict[str, Any]:
    """A decoded chunk as fastavro would have given it (records of unions with their names)."""
    items = tree["fields"][-1]["type"]["items"]
    branches = items["branches"] if items["type"] == "union" else [items]
    rows = {
        branch["label"]: iter(records_of(branch, found.columns[branch["label"]], found.rows[branch["label"]]))
        for branch in branches
    }
    events: list[Any] = []
    for kind in found.kinds.tolist():
        record = next(rows[branches[kind]["label"]])
        events.append((branches[kind]["name"], record) if items["type"] == "union" else record)
    return found.header | {tree["fields"][-1]["name"]: events}


def records_of(node: dict[str, Any], columns: dict[str, Any], count: int, prefix: str = "") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{} for _ in range(count)]
    for part in node["fields"]:
        name = prefix + part["name"]
        if part["type"]["type"] == "record":
            values: list[Any] = records_of(part["type"], columns, count, f"{name}.")
        else:
            values = column_items(columns[name]) if name in columns else [None] * count
        for row, value in zip(made, values, strict=True):
            row[part["name"]] = value
    return made


def _held(found: Decoded) -> tuple[int, int]:
    """Bytes of all columns, and how many arrays they are."""
    arrays: list[Any] = [found.kinds]
    waiting: list[Any] = [column for columns in found.columns.values() for column in columns.values()]
    while waiting:
        column = waiting.pop()
        if isinstance(column, np.ndarray):
            arrays.append(column)
        elif isinstance(column, NullableColumn):
            waiting += [column.values, column.valid]
        elif isinstance(column, ListColumn):
            waiting += [column.values, column.offsets]
        else:
            waiting += [column.data, column.offsets]
    return sum(array.nbytes for array in arrays), len(arrays)


def _print(arguments: argparse.Namespace, report: Report, seconds: float) -> None:
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if arguments.json:
        result = {
            "seed": arguments.seed,
            "inputs": report.inputs,
            "accepted": report.accepted,
            "refused": dict(report.reasons),
            "mutations": dict(report.mutations),
            "bytes_a_byte_max": report.bytes_a_byte_max,
            "peak_mb": peak_mb,
            "seconds": seconds,
            "failure": report.failure,
        }
        print(json.dumps(result))
        return
    print(f"seed {arguments.seed}: {report.inputs:,} mutated inputs over {len(SCHEMAS)} schemas in {seconds:.0f} s")
    print(f"  {'accepted, equal to fastavro':<32}{report.accepted:>12,}")
    for reason, count in report.reasons.most_common():
        print(f"  {reason:<32}{count:>12,}")
    print(f"  at most {report.bytes_a_byte_max:.1f} bytes of columns a byte of payload; process peak {peak_mb:.0f} MB")
    print(f"FAILED: {report.failure}" if report.failure else "only typed errors, and the same answer as fastavro")
