"""What the commands' declarations share: how a command is added, the options that several have, and what options may hold.

Nothing here loads the engine: `millrace --help` compiles nothing.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any


def add_command(commands: Any, name: str, *, summary: str, description: str, example: str) -> argparse.ArgumentParser:
    """Adds a command to others, which always comes with an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description, epilog=f"example: {example}"
    )
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, for programs")


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=number, default=1, metavar="S", help="same seed, same events (%(default)s)")


def later(module: str, name: str = "run") -> Callable[[argparse.Namespace], int]:
    """A command of that module, which is imported when it is called."""

    def command(arguments: argparse.Namespace) -> int:
        code: int = getattr(importlib.import_module(module), name)(arguments)
        return code

    return command


def number(text: str) -> int:
    """A whole number from 0 on; `10_240` will do."""
    digits = text.replace("_", "")
    if not digits.isascii() or not digits.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(digits)


def count(text: str) -> int:
    if (found := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return found


def counts(text: str) -> tuple[int, ...]:
    return tuple(count(part) for part in text.split(","))


def share(text: str) -> float:
    if (found := share_or_more(text)) > 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return found


def share_or_more(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= found < 1000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return found
