"""Row 19: the clock of the wall plays no part; the monotonic one only in how long something is waited for."""

import ast
from pathlib import Path

import pytest

from services.verify.simulation.run import simulate

ROOT = Path(__file__).parents[3]
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}
# What the wall's clock may be read for: a figure on the metrics page, never a decision.
SHOWN = {"services/engine/kafka_log.py": "message_age_s"}


def wall_clock_lines(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    return [
        text.splitlines()[node.lineno - 1]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in WALL
    ]


def test_row_19_no_decision_reads_the_wall_clock():
    for folder in ("engine", "services/engine"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if "serving" in name or name.endswith("progress.py"):
                continue  # they show figures, and nothing reads them
            for line in wall_clock_lines(path):
                assert name in SHOWN and SHOWN[name] in line, f"{name}: {line.strip()}"


@pytest.mark.parametrize("seed", range(20))
def test_row_19_jumps_of_the_monotonic_clock_change_no_result(seed, monkeypatch):
    """A machine that stood still sees a jump; one that goes back must not happen and does no harm."""
    from services.verify.simulation import run

    def jump(self, seconds: float) -> None:
        self.now_s += seconds * self.chance.choice((1, 1, 100, -3))
        for instance in self.instances:
            if instance.ended is None:
                instance.tell(run.Ticked(self.now_s, instance.behind))

    settle = run._Run._settle

    def settle_in_peace(self) -> bool:
        monkeypatch.undo()
        return settle(self)

    monkeypatch.setattr(run._Run, "_tick", jump)
    monkeypatch.setattr(run._Run, "_settle", settle_in_peace)
    assert simulate(seed).violations == []
