"""Fetches Java libraries with Maven into the user's cache: Kafka's broker (`broker.xml`), Spark's connector (`spark.xml`).

A folder of jars is named after a hash of its pom, so another version is another folder and nothing stale is ever used.
Maven copies into a folder of its own that gets the final name, in one step, when it is complete: a folder with that name
is always whole, whoever was interrupted and however many fetch at once. Maven's own settings are left as they are.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections import deque
from pathlib import Path

from rich.console import Console
from rich.status import Status

from engine.functions.cache import cache_root
from services.errors import ProgramError
from services.kafka.programs import find_java, find_maven

_POMS = Path(__file__).parent
_DOWNLOADED = re.compile(r"Downloaded from [^:]+: \S*/([^/\s]+\.jar)")
_LINES_KEPT = 200  # of Maven's output, for the message if it fails


def broker_jars(console: Console | None = None) -> list[Path]:
    """The jars of one Kafka node; fetched if they are not there (44 MB, under a minute)."""
    return _jars("broker", "Kafka", console)


def spark_jars(console: Console | None = None) -> list[Path]:
    """What pyspark lacks to read and write Kafka, for `spark.jars`; fetched if it is not there."""
    return _jars("spark", "Spark's Kafka connector", console)


def _jars(name: str, what: str, console: Console | None) -> list[Path]:
    pom = _POMS / f"{name}.xml"
    folder = cache_root() / f"jars-{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _fetch(pom, folder, what, console or Console(stderr=True))
    return sorted(folder.glob("*.jar"))


def _fetch(pom: Path, folder: Path, what: str, console: Console) -> None:
    find_java()
    maven = find_maven()
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}-unfinished-"))
    except OSError as error:
        raise ProgramError(
            f"{folder.parent} cannot be written ({error.strerror}): let MILLRACE_CACHE_DIR name a directory that can"
        ) from None
    try:
        # rich shows a status on terminals only; a log file gets nothing.
        with console.status(f"fetching {what} with Maven (once, then kept) …") as status:
            _copy_dependencies(maven, pom, unfinished, what, status)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, and its jars are as good
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _copy_dependencies(maven: Path, pom: Path, target: Path, what: str, status: Status) -> None:
    command = [
        str(maven),
        "--batch-mode",
        f"--file={pom}",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={target}",
    ]
    lines: deque[str] = deque(maxlen=_LINES_KEPT)
    fetched = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # it is a pipe
        try:
            for line in process.stdout:
                lines.append(line)
                if (jar := _DOWNLOADED.search(line)) is not None:
                    fetched += 1
                    status.update(f"fetching {what} with Maven (once, then kept): {fetched} jars, {jar[1]} …")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        said = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "nothing")
        said = " ".join(said.replace("[ERROR]", "").split())[:500]
        raise ProgramError(
            f"Maven could not fetch {what} (exit code {process.returncode}): {said}; see that the network and Maven's own "
            "settings reach a repository, and try again"
        )
    if not any(target.glob("*.jar")):
        raise ProgramError(
            f"Maven said it fetched {what}, but {target} has no jar: see whether its local repository is whole"
        )
