"""Known mistakes in how single records are cut into epochs; the simulation's records mode must find each."""

from __future__ import annotations

from services.engine import cutting, record_machine
from services.verify.simulation.bugs import Bug

RECORD_BUGS = (
    Bug("equal times are torn apart at an epoch's end", cutting, "rows[1] <= ts)]", "rows[1] < ts)]"),
    Bug("an epoch by count has one event more", cutting,
        "np.partition(times, self.cutting.count - 1)[self.cutting.count - 1]",
        "np.sort(times)[: self.cutting.count + 1][-1]"),
    Bug("the fastest partition decides what is final", cutting, "min(marks.values(), default=LAST_TS)",
        "max(marks.values(), default=LAST_TS)"),
    Bug("a partition from which nothing came holds nothing up", cutting,
        "lane.newest - self.cutting.disorder - 1 if known else BEFORE_ALL",
        "lane.newest - self.cutting.disorder - 1 if known else LAST_TS"),
    Bug("the disorder allowed is not waited for", cutting,
        "found[partition] = lane.newest - self.cutting.disorder - 1", "found[partition] = lane.newest"),
    Bug("what is late depends on what was read from other partitions", cutting,
        "late = (self._epoch_end(ts) <= newest[:-1] - self.cutting.disorder - 1) | (ts <= self._closed_ts)",
        "late = ts <= self._closed_ts"),
    Bug("late events are taken", cutting, " | (ts <= self._closed_ts)", ""),
    Bug("the cursor moves past records that wait", cutting,
        "int(rows[0, open_rows[0]]) if open_rows.size else lane.at", "lane.at"),
    Bug("records dealt with are taken again after a restart", cutting,
        "done = (offsets < known.low) | ((offsets < known.read) & (ts <= self._committed_ts))", "done = offsets < known.low"),
    Bug("epochs are cut before all is read again", cutting, "if not lane.is_caught_up:", "if False:"),
    Bug("the cursor moves past what is not read again", cutting,
        "if open_rows.size else lane.at", "if open_rows.size else lane.read"),
    Bug("records that came during a commit are dropped with it", cutting,
        "lane.keep((rows[1] > self._committed_ts) | (rows[0] >= read))", "lane.keep(rows[1] > self._committed_ts)"),
    Bug("late records are sent again", cutting, "rows[3, mine] = _LETTERED", "pass"),
    Bug("late records are sent before their time", record_machine,
        "self.pending.take_late(ts)", "self.pending.take_late(self.last_ts)"),
    Bug("records that cannot be read are sent again after a restart", record_machine,
        "offset > seen and (cursor is None or offset >= cursor.read)", "offset > seen"),
    Bug("what is idle is never cut", cutting, "is_flush=not marks", "is_flush=False"),
)  # fmt: skip
