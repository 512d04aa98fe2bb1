"""A Schema Registry for tests: Apicurio's, fetched by Maven into the user's cache, with Confluent's API, in memory.

Its start takes seconds, on a busy machine half a minute; after `START_S` it is an error.
"""

import json
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from engine.functions.cache import cache_root
from services.kafka.programs import find_java, find_maven

VERSION = "2.6.13.Final"  # newer ones need Java 21
START_S = 120.0
FETCH_S = 300.0
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


class SchemaRegistry:
    """A running registry; `url` is what clients are given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> "SchemaRegistry":
        program = _fetched()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(find_java()), "-Xmx384m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}",
                    "-cp", f"{program}/apicurio-registry-app-{VERSION}-runner.jar:{program}/lib/*",
                    "io.quarkus.runner.GeneratedMain",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder,
            )  # fmt: skip
        try:
            self._wait()
            self.set_rule("BACKWARD")  # it has none until it is told
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.ask("GET", "/subjects")
                return
            except (OSError, urllib.error.URLError):
                said = (self._folder / "registry.log").read_text()[-2000:]
                assert self._process.poll() is None and time.monotonic() < deadline, (
                    f"the registry did not start: {said}"
                )
                time.sleep(0.3)

    def set_rule(self, rule: str, subject: str = "") -> None:
        self.ask("PUT", f"/config/{subject}".rstrip("/"), {"compatibility": rule})

    def ask(self, method: str, path: str, value: object = None) -> object:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


def _fetched() -> Path:
    """The folder with the registry's program; fetched once (142 MB)."""
    folder = cache_root() / f"apicurio-{VERSION}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="apicurio-unfinished-"))
    try:
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        command = [str(find_maven()), "--batch-mode", "-q", _MAVEN_GOAL, f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={unfinished}"], check=True, timeout=FETCH_S, capture_output=True)
        (archive,) = unfinished.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(unfinished, filter="data")
        archive.unlink()
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
