"""Writes the source of a schema's decoder: one kernel that checks and counts, one that fills columns of exactly that size.

`check` obeys every rule of `errors.Malformed` and touches no column; `fill` walks the same bytes again and trusts them. Two
walks cost less than growing columns would, and memory is allocated only for what is really there.
"""

from __future__ import annotations

from services.codec.errors import Malformed
from services.codec.layout import Layout, LeafLayout, RecordLayout
from services.codec.plan import BYTES_MIN, EMPTY_ITEMS_MAX, ChunkPlan, Plan
from services.codec.writing import Lines

HEAD = """\
import numpy as np
from numba import njit
from services.codec.bytes_kernel import (
    copy_bytes, known_bits, known_long, pointer_to, read_long, skip_bytes, skip_int, skip_long, skip_string,
)
"""


def decoder_source(plan: Plan, layout: Layout) -> str:
    lines = Lines(HEAD)
    for number, record in enumerate(layout.records):
        _check_record(lines, number, record)
        _fill_record(lines, number, record)
    if isinstance(plan, ChunkPlan):
        _check_chunk(lines, plan, layout)
        _fill_chunk(lines, plan, layout)
    else:
        _check_rows(lines)
        _fill_rows(lines, layout)
    return lines.text


def _refuse(lines: Lines, condition: str, reason: Malformed, at: str = "q") -> None:
    with lines.block(f"if {condition}:"):
        lines.add(f"where[0] = {at}", f"return {-reason}")


def _pass_on(lines: Lines, at: str = "q") -> None:
    """What a reader of a value refused."""
    with lines.block("if p < 0:"):
        lines.add(f"where[0] = {at}", "return p")


def _check_record(lines: Lines, number: int, record: RecordLayout) -> None:
    with lines.function(f"check_{number}(buffer, p, end, counts, where)"):
        for each in record.leaves:
            if each.leaf.is_array:
                _check_array(lines, each)
            elif each.leaf.is_nullable:
                lines.add("q = p", "branch, p = read_long(buffer, p, end)")
                _pass_on(lines)
                with lines.block(f"if branch == {1 - each.leaf.null_branch}:"):
                    _check_value(lines, each)
                with lines.block(f"elif branch != {each.leaf.null_branch}:"):
                    lines.add("where[0] = q", f"return {-Malformed.BAD_BRANCH}")
            else:
                _check_value(lines, each)
        lines.add(f"counts[{record.rows_slot}] += 1", "return p")


def _check_value(lines: Lines, each: LeafLayout) -> None:
    kind = each.leaf.kind
    lines.add("q = p")
    if kind == "boolean":
        _refuse(lines, "p >= end", Malformed.TRUNCATED)
        _refuse(lines, "buffer[p] > 1", Malformed.BAD_BOOLEAN)
        lines.add("p += 1")
    elif kind in ("float", "double"):
        _refuse(lines, f"end - p < {BYTES_MIN[kind]}", Malformed.TRUNCATED)
        lines.add(f"p += {BYTES_MIN[kind]}")
    elif kind in ("int", "long"):
        lines.add(f"p = skip_{kind}(buffer, p, end)")
        _pass_on(lines)
    elif kind in ("string", "bytes"):
        lines.add(f"size, p = skip_{kind}(buffer, p, end)")
        _pass_on(lines)
        lines.add(f"counts[{each.bytes_slot}] += size")


def _check_array(lines: Lines, each: LeafLayout) -> None:
    lines.add("begin = p", "total = 0")
    with lines.block("while True:"):
        _check_block_head(lines, BYTES_MIN[each.leaf.kind])
        with lines.block("for _ in range(count):"):
            _check_value(lines, each)
        _refuse(lines, "limit >= 0 and p != limit", Malformed.BAD_BLOCK_SIZE, "block")
        lines.add("total += count")
    if each.leaf.length:
        _refuse(lines, f"total != {each.leaf.length}", Malformed.WRONG_VECTOR_LENGTH, "begin")
    lines.add(f"counts[{each.items_slot}] += total")


def _check_block_head(lines: Lines, bytes_min: int) -> None:
    """A block's count, and where its size says that it ends (-1: it does not say)."""
    lines.add("block = p", "count, p = read_long(buffer, p, end)")
    _pass_on(lines, "block")
    with lines.block("if count == 0:"):
        lines.add("break")
    lines.add("limit = -1")
    with lines.block("if count < 0:"):
        lines.add("q = p", "size, p = read_long(buffer, p, end)")
        _pass_on(lines)
        _refuse(lines, "size < 0", Malformed.NEGATIVE_LENGTH)
        _refuse(lines, "size > end - p", Malformed.TRUNCATED)
        lines.add("limit = p + size", "count = -count")
    # The smallest int64 is its own negative.
    most = f"(end - p) // {bytes_min}" if bytes_min else f"{EMPTY_ITEMS_MAX} - total"
    _refuse(lines, f"count < 0 or count > {most}", Malformed.ABSURD_COUNT, "block")


def _check_rows(lines: Lines) -> None:
    with lines.entry("check", ["buffer", "bounds", "counts", "where"]):
        with lines.block("for message in range(bounds_.size - 1):"):
            lines.add("where[1] = message", "end = bounds[message + 1]")
            lines.add("p = check_0(buffer, bounds[message], end, counts, where)")
            with lines.block("if p < 0:"):
                lines.add("return -p")
            with lines.block("if p != end:"):
                lines.add("where[0] = p", f"return {Malformed.TRAILING_BYTES:d}")
        lines.add("return 0")


def _check_chunk(lines: Lines, plan: ChunkPlan, layout: Layout) -> None:
    with lines.function("walk(buffer, end, counts, where)"):
        lines.add("total = 0", "p = check_0(buffer, 0, end, counts, where)")
        with lines.block("if p < 0:"):
            lines.add("return p")
        with lines.block("while True:"):
            _check_block_head(lines, plan.bytes_min)
            with lines.block("for _ in range(count):"):
                if plan.is_union:
                    lines.add("q = p", "branch, p = read_long(buffer, p, end)")
                    _pass_on(lines)
                    for number in range(1, len(layout.records)):
                        with lines.block(f"{'if' if number == 1 else 'elif'} branch == {number - 1}:"):
                            lines.add(f"p = check_{number}(buffer, p, end, counts, where)")
                    with lines.block("else:"):
                        lines.add("where[0] = q", f"return {-Malformed.BAD_BRANCH}")
                else:
                    lines.add("p = check_1(buffer, p, end, counts, where)")
                with lines.block("if p < 0:"):
                    lines.add("return p")
            _refuse(lines, "limit >= 0 and p != limit", Malformed.BAD_BLOCK_SIZE, "block")
            lines.add("total += count")
        _refuse(lines, "p != end", Malformed.TRAILING_BYTES, "p")
        lines.add("return 0")
    with lines.entry("check", ["buffer", "counts", "where"]):
        lines.add("return -walk(buffer, buffer_.size, counts, where)")


def _fill_record(lines: Lines, number: int, record: RecordLayout) -> None:
    with lines.function(f"fill_{number}({', '.join(['buffer', 'p', 'end', 'row', *record.names])})"):
        for each in record.leaves:
            if each.leaf.is_array:
                _fill_array(lines, each)
            elif each.leaf.is_nullable:
                _fill_nullable(lines, each)
            else:
                _fill_value(lines, each, "row")
        lines.add("return p")


def _fill_value(lines: Lines, each: LeafLayout, at: str) -> None:
    kind, prefix = each.leaf.kind, each.prefix
    if kind == "boolean":
        lines.add(f"{prefix}_values[{at}] = buffer[p]", "p += 1")
    elif kind in ("int", "long"):
        lines.add("value, p = known_long(buffer, p, end)", f"{prefix}_values[{at}] = value")
    elif kind in ("float", "double"):
        size = BYTES_MIN[kind]
        lines.add(f"{prefix}_values[{at}] = np.uint{8 * size}(known_bits(buffer, p, {size}))", f"p += {size}")
    elif each.leaf.is_text:
        lines.add("size, p = known_long(buffer, p, end)", f"start = {prefix}_offsets[{at}]")
        lines.add(f"copy_bytes(buffer, p, {prefix}_data, start, size)")
        lines.add(f"{prefix}_offsets[{at} + 1] = start + size", "p += size")


def _fill_nullable(lines: Lines, each: LeafLayout) -> None:
    prefix = each.prefix
    lines.add("branch, p = known_long(buffer, p, end)")
    with lines.block(f"if branch == {each.leaf.null_branch}:"):
        lines.add(f"{prefix}_valid[row] = 0")
        if each.leaf.is_text:
            lines.add(f"{prefix}_offsets[row + 1] = {prefix}_offsets[row]")
        else:
            lines.add(f"{prefix}_values[row] = 0")
    with lines.block("else:"):
        lines.add(f"{prefix}_valid[row] = 1")
        _fill_value(lines, each, "row")


def _fill_array(lines: Lines, each: LeafLayout) -> None:
    length = each.leaf.length
    lines.add(f"item = row * {length}" if length else f"item = {each.prefix}_items[row]")
    with lines.block("while True:"):
        lines.add("count, p = known_long(buffer, p, end)")
        with lines.block("if count == 0:"):
            lines.add("break")
        with lines.block("if count < 0:"):
            lines.add("count = -count", "size, p = known_long(buffer, p, end)")
        with lines.block("for _ in range(count):"):
            _fill_value(lines, each, "item")
            lines.add("item += 1")
    if not length:
        lines.add(f"{each.prefix}_items[row + 1] = item")


def _fill_rows(lines: Lines, layout: Layout) -> None:
    record = layout.records[0]
    with (
        lines.entry("fill", ["buffer", "bounds", *record.names]),
        lines.block("for row in range(bounds_.size - 1):"),
    ):
        lines.add(f"fill_0({', '.join(['buffer', 'bounds[row]', 'bounds[row + 1]', 'row', *record.names])})")


def _fill_chunk(lines: Lines, plan: ChunkPlan, layout: Layout) -> None:
    header, records = layout.records[0], layout.records[1:]
    with lines.entry("fill", ["buffer", "kinds", *layout.names]):
        lines.add("end = buffer_.size", "event = 0")
        lines.add(f"p = fill_0({', '.join(['buffer', '0', 'end', '0', *header.names])})")
        lines.add(*(f"row_{number} = 0" for number in range(1, len(records) + 1)))
        with lines.block("while True:"):
            lines.add("count, p = known_long(buffer, p, end)")
            with lines.block("if count == 0:"):
                lines.add("break")
            with lines.block("if count < 0:"):
                lines.add("count = -count", "size, p = known_long(buffer, p, end)")
            with lines.block("for _ in range(count):"):
                # A union's index is one byte: a chunk has at most RECORD_TYPES_MAX record types.
                lines.add("branch = np.int64(buffer[p]) >> 1", "p += 1") if plan.is_union else lines.add("branch = 0")
                lines.add("kinds[event] = branch", "event += 1")
                for number, record in enumerate(records, start=1):
                    with lines.block(f"{'if' if number == 1 else 'elif'} branch == {number - 1}:"):
                        arguments = ["buffer", "p", "end", f"row_{number}", *record.names]
                        lines.add(f"p = fill_{number}({', '.join(arguments)})")
                        lines.add(f"row_{number} += 1")
