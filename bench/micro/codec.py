"""What Avro costs an event: the compiled codec against fastavro, over the same chunk of Streaming Ledger events.

Both sides do the same work: a chunk's bytes to columns or Python records, and back. Repeats of the two alternate, so that a
slow moment of the machine hits both; the figures are medians. The answer's hash is printed: fastavro's bytes and ours are one.

Run: python -m bench.micro.codec [--events 50000] [--repeats 9] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import numpy as np

from schemas.application import event_chunk_schema
from services.apps.streaming_ledger import build
from services.codec.events import ChunkDecoder, ChunkEncoder
from services.codec.tree import parse

FIRST_TS_MS = 1_700_000_000_000
ACCOUNTS = 100_000


def make_events(events: int) -> tuple[dict[str, dict[str, Any]], Any]:
    """Half deposits and half transfers in random order, as columns."""
    draw = np.random.default_rng(1)
    kinds = draw.integers(0, 2, events).astype(np.uint8)
    fields = {
        "Deposit": ("account", "asset", "amount"),
        "Transfer": ("sender_account", "sender_asset", "receiver_account", "receiver_asset", "amount"),
    }
    columns: dict[str, dict[str, Any]] = {}
    for kind, (name, names) in enumerate(fields.items()):
        seq = np.flatnonzero(kinds == kind)
        columns[name] = {"seq": seq, "ts": FIRST_TS_MS + seq}
        columns[name] |= {field: draw.integers(0, ACCOUNTS, seq.size) for field in names}
    return columns, kinds


def measure(events: int, repeats: int) -> dict[str, Any]:
    """Nanoseconds an event, both ways, both sides."""
    schema = event_chunk_schema(build())
    encoder, decoder, parsed = ChunkEncoder(schema), ChunkDecoder(schema), parse(schema)
    columns, kinds = make_events(events)
    body = encoder.encode(1, 2, 3, columns, kinds)
    value = fastavro.schemaless_reader(io.BytesIO(body), parsed, None, return_record_name=True)

    def write_by_fastavro() -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    if write_by_fastavro() != body:
        raise SystemExit("wrong answer: the bytes are not fastavro's")
    chunk = decoder.decode(body)
    if encoder.encode(1, 2, 3, chunk.columns, chunk.kinds) != body:
        raise SystemExit("wrong answer: what was decoded is not what was encoded")
    work: dict[str, Callable[[], object]] = {
        "decode": lambda: decoder.decode(body),
        "decode_fastavro": lambda: fastavro.schemaless_reader(io.BytesIO(body), parsed, None),
        "encode": lambda: encoder.encode(1, 2, 3, columns, kinds),
        "encode_fastavro": write_by_fastavro,
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            begin = time.perf_counter()
            call()
            times[name].append(1e9 * (time.perf_counter() - begin) / events)
    figures: dict[str, Any] = {f"{name}_ns": statistics.median(found) for name, found in times.items()}
    figures |= {
        f"{way}_times_faster": figures[f"{way}_fastavro_ns"] / figures[f"{way}_ns"] for way in ("decode", "encode")
    }
    return figures | {
        "events": events,
        "bytes_an_event": len(body) / events,
        "answer": hashlib.sha256(body).hexdigest()[:16],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What Avro costs an event, compiled and through fastavro.")
    parser.add_argument("--events", type=int, default=50_000, help="events in the chunk")
    parser.add_argument("--repeats", type=int, default=9, help="how often each side is run")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(arguments)
    figures = measure(max(1, chosen.events), max(1, chosen.repeats))
    if chosen.json:
        json.dump(figures, sys.stdout, indent=2)
        print()
        return
    print(f"{'':<8}{'compiled':>12}{'fastavro':>12}{'faster':>10}   ns an event, {figures['events']:,} events")
    for way in ("decode", "encode"):
        mine, theirs, ratio = (figures[f"{way}_{end}"] for end in ("ns", "fastavro_ns", "times_faster"))
        print(f"{way:<8}{mine:>12.1f}{theirs:>12.1f}{ratio:>9.0f}×")
    print(f"{figures['bytes_an_event']:.1f} bytes an event, answer {figures['answer']}")


if __name__ == "__main__":
    main()
