"""The house rules that a tool can check, as ordinary tests. CONTRIBUTING.md says why each is there."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "services", "millrace", "bench", "schemas", "spark_jobs")
LINES_MAX = 400
EMPTY_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
EMPTY_CLASS_ENDINGS = ("Manager", "Helper", "Utils")
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")  # in halves, because this file is read too
COMPILED = {"njit", "jit"}
# Beside files named after kernels and files whose docstring says that they hold some:
KERNELS_ALLOWED = (
    "engine/functions/checked.py",
    "engine/state/*.py",
    "engine/execution/*.py",
    "engine/planning/*.py",
)


def python_files(*folders: str) -> list[Path]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if "__pycache__" not in path.parts]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def decorator_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and bare name of every decorator: `@njit`, `@njit(...)` and `@numba.njit(...)` are all `njit`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(target, ast.Attribute):
                    yield decorator.lineno, target.attr
                elif isinstance(target, ast.Name):
                    yield decorator.lineno, target.id


def may_hold_kernels(path: Path) -> bool:
    name, docstring = name_of(path), ast.get_docstring(parse(path)) or ""
    return "kernel" in name or "kernel" in docstring.lower() or any(fnmatch(name, each) for each in KERNELS_ALLOWED)


def test_the_rules_see_files() -> None:
    assert len(python_files(*PACKAGES)) > 5


def test_files_are_short() -> None:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in python_files("engine", "services")}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path in python_files(*PACKAGES, "tests")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if any(mark in line for mark in UNFINISHED)
    ]
    assert found == []


def test_names_say_something() -> None:
    files = python_files(*PACKAGES, "tests")
    vague = {
        name_of(path)
        for path in files
        if EMPTY_NAMES & {part.removesuffix(".py") for part in Path(name_of(path)).parts}
    }
    assert vague == set()
    classes = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in files
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(EMPTY_CLASS_ENDINGS)
    ]
    assert classes == []


def test_every_module_says_what_it_owns() -> None:
    # An `__init__.py` with nothing in it owns nothing.
    silent = [
        name_of(path)
        for path in python_files(*PACKAGES, "tests")
        if ast.get_docstring(tree := parse(path)) is None and (tree.body or path.name != "__init__.py")
    ]
    assert silent == []


def test_the_engine_prints_nothing() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files("engine")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


def test_compiled_code_lives_in_kernel_files() -> None:
    found = [
        f"{name_of(path)}:{line}"
        for path in python_files(*PACKAGES)
        if not may_hold_kernels(path)
        for line, decorator in decorator_names(parse(path))
        if decorator in COMPILED
    ]
    assert found == []


def test_only_kernel_files_switch_type_checking_off() -> None:
    found = [
        name_of(path)
        for path in python_files(*PACKAGES)
        if "# mypy: ignore-errors" in path.read_text("utf-8") and not may_hold_kernels(path)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("@njit\ndef f(): ...", ["njit"]),
        ("@numba.njit(cache=True)\ndef f(): ...", ["njit"]),
        ("@udf\ndef f(): ...", ["udf"]),
    ],
)
def test_decorators_are_recognised(source: str, names: list[str]) -> None:
    assert [name for _, name in decorator_names(ast.parse(source))] == names
