"""Writes the source of a schema's encoder: one kernel from columns to bytes, the bytes that fastavro would write.

The kernels trust their columns and the size of the buffer: the drivers check the first and compute the second.
"""

from __future__ import annotations

from services.codec.layout import Layout, LeafLayout, RecordLayout
from services.codec.plan import BYTES_MIN, ChunkPlan, Plan
from services.codec.writing import Lines

HEAD = """\
import numpy as np
from numba import njit
from services.codec.bytes_kernel import copy_bytes, pointer_to, write_bits, write_long
"""


def encoder_source(plan: Plan, layout: Layout) -> str:
    lines = Lines(HEAD)
    for number, record in enumerate(layout.records):
        _write_record(lines, number, record)
    if isinstance(plan, ChunkPlan):
        _write_chunk(lines, plan, layout)
    else:
        _write_rows(lines, layout)
    return lines.text


def _write_record(lines: Lines, number: int, record: RecordLayout) -> None:
    with lines.function(f"write_{number}({', '.join(['out', 'p', 'row', *record.names])})"):
        for each in record.leaves:
            if each.leaf.is_array:
                _write_array(lines, each)
            elif each.leaf.is_nullable:
                _write_nullable(lines, each)
            else:
                _write_value(lines, each, "row")
        lines.add("return p")


def _write_value(lines: Lines, each: LeafLayout, at: str) -> None:
    kind, prefix = each.leaf.kind, each.prefix
    if kind == "boolean":
        lines.add(f"out[p] = {prefix}_values[{at}]", "p += 1")
    elif kind in ("int", "long"):
        lines.add(f"p = write_long(out, p, np.int64({prefix}_values[{at}]))")
    elif kind in ("float", "double"):
        lines.add(f"p = write_bits(out, p, np.uint64({prefix}_values[{at}]), {BYTES_MIN[kind]})")
    elif each.leaf.is_text:
        lines.add(f"start = {prefix}_offsets[{at}]", f"size = {prefix}_offsets[{at} + 1] - start")
        lines.add("p = write_long(out, p, size)", f"copy_bytes({prefix}_data, start, out, p, size)", "p += size")


def _write_nullable(lines: Lines, each: LeafLayout) -> None:
    with lines.block(f"if {each.prefix}_valid[row]:"):
        lines.add(f"out[p] = {2 * (1 - each.leaf.null_branch)}", "p += 1")
        _write_value(lines, each, "row")
    with lines.block("else:"):
        lines.add(f"out[p] = {2 * each.leaf.null_branch}", "p += 1")


def _write_array(lines: Lines, each: LeafLayout) -> None:
    length, prefix = each.leaf.length, each.prefix
    if length:
        lines.add(f"item, last = row * {length}, row * {length} + {length}")
    else:
        lines.add(f"item, last = {prefix}_items[row], {prefix}_items[row + 1]")
    with lines.block("if last > item:"):
        lines.add("p = write_long(out, p, last - item)")
        with lines.block("while item < last:"):
            _write_value(lines, each, "item")
            lines.add("item += 1")
    lines.add("out[p] = 0", "p += 1")


def _write_rows(lines: Lines, layout: Layout) -> None:
    record = layout.records[0]
    with lines.entry("write", ["out", "bounds", *record.names]):
        lines.add("p = 0")
        with lines.block("for row in range(bounds_.size - 1):"):
            lines.add(f"p = write_0({', '.join(['out', 'p', 'row', *record.names])})", "bounds[row + 1] = p")
        lines.add("return p")


def _write_chunk(lines: Lines, plan: ChunkPlan, layout: Layout) -> None:
    header, records = layout.records[0], layout.records[1:]
    with lines.entry("write", ["out", "kinds", *layout.names]):
        lines.add(f"p = write_0({', '.join(['out', '0', '0', *header.names])})")
        lines.add(*(f"row_{number} = 0" for number in range(1, len(records) + 1)))
        with lines.block("if kinds_.size > 0:"):
            lines.add("p = write_long(out, p, np.int64(kinds_.size))")
        with lines.block("for event in range(kinds_.size):"):
            lines.add("kind = kinds[event]")
            if plan.is_union:
                lines.add("out[p] = 2 * kind", "p += 1")
            for number, record in enumerate(records, start=1):
                with lines.block(f"{'if' if number == 1 else 'elif'} kind == {number - 1}:"):
                    lines.add(f"p = write_{number}({', '.join(['out', 'p', f'row_{number}', *record.names])})")
                    lines.add(f"row_{number} += 1")
        lines.add("out[p] = 0", "p += 1", "return p")
