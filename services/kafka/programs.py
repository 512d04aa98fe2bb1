"""Finds the programs that Millrace starts, Java and Maven, and says in one sentence what to install if they are not there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from services import settings
from services.errors import ProgramError

JAVA_VERSION_MIN = 17  # what Kafka 4 brokers and Spark 4 need
_INSTALL = (
    "a package such as openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk (Fedora) or openjdk@17 (Homebrew)"
)


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of PATH; at least version 17."""
    home = settings.java_home()
    found = shutil.which("java", path=str(home / "bin")) if home is not None else None
    found = found or shutil.which("java")
    if found is None:
        raise ProgramError(
            f"Java was not found, neither in JAVA_HOME nor on PATH: install Java {JAVA_VERSION_MIN} or newer, {_INSTALL}"
        )
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        said = " ".join((answer.stderr + answer.stdout).split())[:200] or "nothing"
        raise ProgramError(f"{found} -version said {said!r}: a working Java {JAVA_VERSION_MIN} or newer was expected")
    if int(version[1]) < JAVA_VERSION_MIN:
        raise ProgramError(
            f"{found} is Java {version[1]}, but {JAVA_VERSION_MIN} or newer is needed: install {_INSTALL}, "
            "and let JAVA_HOME name it"
        )
    return Path(found)


def find_maven() -> Path:
    """The `mvn` of PATH."""
    found = shutil.which("mvn")
    if found is None:
        raise ProgramError(
            "Maven was not found on PATH, and it fetches the Java libraries that are not there yet: install Maven 3.6 or "
            "newer, the package maven (Debian, Ubuntu, Fedora, Homebrew)"
        )
    return Path(found)
