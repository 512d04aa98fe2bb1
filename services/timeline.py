"""A picture of what each thread did when: running operations, running them again, waiting, settling aborts.

White is looking for work. Moments shorter than a pixel are put together with their neighbours of the same kind, so a picture's
size does not follow the epoch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from engine.execution.layout import RUNNING_SERIALLY, SETTLING, WAITING
from engine.result import Moment

WIDTH, LANE, BAR, MARGIN, LEFT = 1_200, 46, 30, 40, 90
COLOURS = {
    "operation": "#4c9f70",
    "run again": "#e8a33d",
    "run serially": "#4c7f9f",
    "waiting for others": "#c9c9c9",
    "settling aborts": "#c0392b",
}
KINDS = {WAITING: "waiting for others", SETTLING: "settling aborts", RUNNING_SERIALLY: "run serially"}


def kinds_of(moments: Sequence[Moment]) -> list[str]:
    """What each moment is: an operation that ran before is being run again."""
    seen: Counter[int] = Counter()
    kinds = []
    for moment in moments:
        if moment.what >= 0:
            kinds.append("run again" if seen[moment.what] else "operation")
            seen[moment.what] += 1
        else:
            kinds.append(KINDS[moment.what])
    return kinds


def draw_timeline(moments: Sequence[Moment], threads: int, caption: str) -> str:
    """The picture as SVG; `moments` by their begin."""
    end = max((moment.end for moment in moments), default=1e-9)
    scale = (WIDTH - LEFT - MARGIN) / end
    height = MARGIN * 2 + 70 + threads * LANE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{MARGIN}" y="24" font-size="14">{escape(caption)}</text>',
    ]
    for thread in range(threads):
        y = MARGIN + 8 + thread * LANE
        parts.append(f'<text x="{MARGIN - 20}" y="{y + 20}">thread {thread}</text>')
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - MARGIN}" height="{BAR}" fill="none" stroke="#ddd"/>'
        )
    for thread, kind, begin, until in _bars(moments, scale):
        y = MARGIN + 8 + thread * LANE
        width = max(until - begin, 0.6)
        parts.append(
            f'<rect x="{LEFT + begin:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>'
        )
    axis = MARGIN + 12 + threads * LANE
    for tick in range(6):
        x = LEFT + (WIDTH - LEFT - MARGIN) * tick / 5
        parts.append(f'<line x1="{x:.1f}" y1="{axis - 4}" x2="{x:.1f}" y2="{axis + 2}" stroke="#555"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{axis + 16}" fill="#555" text-anchor="middle">{end * 1e3 * tick / 5:.3g} ms</text>'
        )
    used = set(kinds_of(moments))
    for number, (kind, colour) in enumerate([item for item in COLOURS.items() if item[0] in used]):
        x = LEFT + number * 180
        parts.append(
            f'<rect x="{x}" y="{height - 36}" width="24" height="16" fill="{colour}"/>'
            f'<text x="{x + 30}" y="{height - 24}">{kind}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(moments: Sequence[Moment], scale: float) -> list[tuple[int, str, float, float]]:
    """(thread, kind, begin, end) in pixels, neighbours of one kind with less than half a pixel between them as one."""
    open_bars: dict[int, tuple[str, float, float]] = {}
    bars = []
    for moment, kind in zip(moments, kinds_of(moments), strict=True):
        begin, end = moment.begin * scale, moment.end * scale
        bar = open_bars.get(moment.thread)
        if bar is not None and bar[0] == kind and begin - bar[2] < 0.5:
            open_bars[moment.thread] = (kind, bar[1], max(end, bar[2]))
            continue
        if bar is not None:
            bars.append((moment.thread, *bar))
        open_bars[moment.thread] = (kind, begin, end)
    return bars + [(thread, *bar) for thread, bar in open_bars.items()]
