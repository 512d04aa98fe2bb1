"""Every experiment runs at its tiny size: answers agree, data and figure are written; grids and sizes are sound."""

from pathlib import Path

import pytest
from rich.console import Console

from bench.experiment import Size
from bench.experiments import EXPERIMENTS
from bench.harness import Settings, run_experiment
from bench.smoke import problems


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_at_its_tiny_size(name: str, tmp_path: Path) -> None:
    outcome = run_experiment(EXPERIMENTS[name], Settings(size=Size.TINY, out=tmp_path), Console(quiet=True))
    assert problems(outcome) == []
    assert outcome.ran > 0


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", list(Size))
def test_cells_are_distinct_and_alike(name: str, size: Size) -> None:
    experiment = EXPERIMENTS[name]
    cells = experiment.grid(size)
    assert len({tuple(cell.items()) for cell in cells}) == len(cells) > 0
    assert len({tuple(cell) for cell in cells}) == 1
    assert set(experiment.answer_by) <= set(cells[0])
    columns = {*cells[0], *experiment.coordinates}
    assert not columns & set(experiment.values)
    assert experiment.main in experiment.values
