"""Avro schemas, one file per topic and version, never edited after release; `load` reads them.

`event-chunk` and `committed` hold a placeholder where an application's own record types go: `schemas.application` puts them
in. The others are complete.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = ("event-chunk", "punctuation", "committed", "failed", "dead-letter", "changelog", "epoch-marker")


@cache
def _text(name: str, version: int) -> str:
    return (FOLDER / f"{name}.v{version}.avsc").read_text("utf-8")


def load(name: str, version: int = 1) -> dict[str, Any]:
    """A schema by its topic's name and version; a copy that the caller may change."""
    found: dict[str, Any] = copy.deepcopy(json.loads(_text(name, version)))
    return found
