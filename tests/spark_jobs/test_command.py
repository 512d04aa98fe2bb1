"""The jobs' command line: help without Spark, mistakes as sentences before anything starts."""

import subprocess
import sys

import pytest

from services import cli


def test_help_loads_neither_spark_nor_the_engine():
    script = (
        "import sys, services.cli as c; c.build_parser().format_help();"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'numba', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("command", ["publish workload", "publish files", "account"])
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([*command.split(), "--help"])
    assert stopped.value.code == 0
    assert f"example: millrace {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "line",
    [
        "publish workload --theta -1",
        "publish workload --abort-ratio 1.5",
        "publish workload --events 0",
        "publish workload --workload nothing",
        "publish files --app x:y --input data",
        "account",
    ],
)
def test_wrong_options_are_refused(line, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("account --app nothing:here", "there is no module nothing"),
        ("account --app services.apps.bank:build --kafka-bootstrap nowhere", "host:port was expected"),
        ("publish workload --workload toll-processing --transfer-share 0.5", "toll-processing has no transfer_share"),
        (
            "publish files --app services.apps.bank:build --format csv --input x --epoch-events 5 --epoch-span 5",
            "give one of them",
        ),
    ],
)
def test_a_mistake_is_one_sentence(line, said, capsys):
    assert cli.main(line.split()) == 2
    assert said in capsys.readouterr().err
