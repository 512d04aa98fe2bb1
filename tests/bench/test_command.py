"""`millrace bench`: help, listing, running, reporting."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench import harness, report
from bench.command import chosen, minutes
from bench.experiment import Size
from bench.experiments import EXPERIMENTS
from bench.notes import DIFFERENCES, NOTES
from services import cli

ENGINE_POLICIES_FIGURES = ("12", "13", "14", "15", "16", "17", "18", "19", "20", "21b")


@pytest.mark.parametrize("command", ["bench", "bench list", "bench run", "bench report"])
def test_help_explains_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert "example: millrace bench" in " ".join(capsys.readouterr().out.split())


def test_every_figure_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    figures = {entry["figure"] for entry in listed}
    assert {f"MorphStream Fig. {number}" for number in ENGINE_POLICIES_FIGURES} <= figures
    assert {f"TStream Fig. {number}" for number in (8, 10, 11, 12, 13)} <= figures
    assert all(entry["minutes"] > 0 and entry["shows"] for entry in listed)


def test_an_unknown_experiment_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "run", "fig99"]) == 2
    assert capsys.readouterr().err == "millrace: no experiment fig99; `millrace bench list` shows them all\n"


def test_patterns_choose_each_once_and_in_order() -> None:
    found = [experiment.name for experiment in chosen(["fig1*", "speed-ledger", "fig12-dynamic"])]
    assert found[:2] == ["speed-ledger", "fig12-dynamic"] and len(set(found)) == len(found) == 9
    assert len(chosen(["all"])) == len(EXPERIMENTS)


def test_what_needs_no_broker_fits_into_an_hour() -> None:
    each = {name: minutes(experiment) for name, experiment in EXPERIMENTS.items() if not experiment.needs_broker}
    assert sum(each.values()) <= 60, each
    assert each.pop("speed-regret") <= 10 and max(each.values()) <= 5, each


def test_notes_are_about_experiments() -> None:
    assert set(NOTES) | set(DIFFERENCES) <= set(EXPERIMENTS)


@pytest.mark.slow
def test_a_quick_run_gives_data_figures_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, docs = tmp_path / "results", tmp_path / "docs"
    line = ["bench", "run", "speed-ledger", "--quick", "--repeats", "2", "--seed", "3", "--json", "--out", str(out)]
    assert cli.main(line) == 0
    printed = json.loads(capsys.readouterr().out)
    (entry,) = printed["experiments"]
    assert entry["wrong"] == [] and len(entry["answers"]) == 1 and "hand" in {cell["policy"] for cell in entry["cells"]}
    assert all(cell["throughput_per_s"]["repeats"] == 2 for cell in entry["cells"])
    assert {Path(path).suffix for path in entry["figures"]} == {".png", ".svg"}
    assert all(Path(path).stat().st_size > 1_000 for path in entry["figures"])
    assert cli.main(["bench", "report", "--out", str(out), "--docs", str(docs)]) == 0
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert "figures/speed-ledger.png" in page and (docs / "figures" / "speed-ledger.png").exists()
    assert "A quick run" in page and "Not run yet:* `millrace bench run fig12-dynamic`" in page
    assert all(f"## {name}: " in page for name in EXPERIMENTS)
    cli.main(["bench", "report", "--out", str(out), "--docs", str(docs)])
    assert (docs / "results.md").read_text(encoding="utf-8") == page


def test_the_page_keeps_what_was_measured_elsewhere(tmp_path: Path) -> None:
    settings, docs = harness.Settings(size=Size.TINY, repeats=1, out=tmp_path / "here"), tmp_path / "docs"
    experiment = EXPERIMENTS["speed-ledger"]
    made = harness.run_experiment(experiment, settings, Console(quiet=True))
    full = replace(settings, size=Size.FULL).data_path(experiment.name)
    full.parent.mkdir(parents=True, exist_ok=True)
    made.path.rename(full)
    page = report.render([experiment], settings, docs).read_text(encoding="utf-8")
    full.unlink()
    assert report.render([experiment], settings, docs).read_text(encoding="utf-8") == page
    assert "figures/speed-ledger.png" in page and "Not run yet" not in page
