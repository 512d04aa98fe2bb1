"""Where compiled code is kept between processes.

numba's disk cache does not notice an edit in an imported kernel, so the directory's name holds a hash of every source
that compiled code can come from (each file that mentions numba, and what those import, transitively), of the versions
that matter and of the processor: another hash, another directory, no stale code.

Environment variables are read in `services/settings.py` only, with one exception, here: `MILLRACE_CACHE_DIR` (and the
`XDG_CACHE_HOME` convention) must be known before the first kernel module is imported, long before any settings exist.

Invariants: a generated module is named after its content and has a fixed time stamp, so writing it twice changes
nothing and two processes may do so at once. Nothing here imports a kernel.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy

# Called with a function's name before it is really compiled (not when it comes from the cache): to show progress.
on_compile: Callable[[str], None] | None = None


_IMPORT = re.compile(rb"^\s*(?:from|import) engine\.([\w.]+)(?: import \(?([^)#]*))?", re.MULTILINE)


def kernel_sources(engine: Path) -> dict[str, bytes]:
    """The engine's files that compiled code can come from, by their path below `engine`."""
    texts = {path.relative_to(engine).as_posix(): path.read_bytes() for path in engine.rglob("*.py")}
    found: dict[str, bytes] = {}
    waiting = [name for name, text in texts.items() if b"numba" in text]
    while waiting:
        name = waiting.pop()
        if name in found or name not in texts:
            continue
        found[name] = texts[name]
        for module, names in _IMPORT.findall(texts[name]):
            place = module.decode().replace(".", "/")
            waiting.append(f"{place}.py")
            waiting += [f"{place}/{each.split()[0]}.py" for each in names.decode().split(",") if each.strip()]
    return found


@functools.cache
def _fingerprint() -> str:
    digest = hashlib.sha256()
    for name, text in sorted(kernel_sources(Path(__file__).parent.parent).items()):
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    processor = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()
    # Kernels with and without bounds checks are not the same code.
    checks = str(getattr(numba.config, "BOUNDSCHECK", None))
    versions = numba.__version__, llvmlite.__version__, numpy.__version__, platform.python_version(), checks
    digest.update(repr((versions, processor)).encode())
    return digest.hexdigest()[:20]


@functools.cache
def _private_directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="millrace-"))


def cache_root() -> Path:
    """The user's cache directory for everything that Millrace can make or fetch again; it may not be there yet."""
    chosen = os.environ.get("MILLRACE_CACHE_DIR")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millrace"
    return root.expanduser().absolute()


def kernel_cache_directory() -> Path:
    """The directory for this very engine on this machine; made if it is not there.

    Where it cannot be written, a directory of this process alone takes its place: everything works, nothing is kept.
    """
    directory = cache_root() / f"kernels-{_fingerprint()}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    except OSError:
        pass
    return _private_directory()


def install() -> Path:
    """Send numba's disk cache to the kernel directory; before any module with cached kernels is imported."""
    directory = kernel_cache_directory()
    os.environ["NUMBA_CACHE_DIR"] = str(directory)  # numba reads the environment again when it reloads its settings
    setattr(numba.config, "CACHE_DIR", str(directory))  # noqa: B010, unknown to the type checker
    return directory


def _write(path: Path, text: str) -> None:
    """All of the text or none of it, whoever else is writing."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(temporary, (0, 0))  # numba asks for the time stamp; the name already stands for the content
    os.replace(temporary, path)


def module_path(digest: str) -> Path:
    return kernel_cache_directory() / f"entry_{digest}.py"


def load_module(digest: str, text: str) -> ModuleType:
    """The generated module with this text, imported from its file so that numba can cache what it defines."""
    path = module_path(digest)
    if not path.exists():
        _write(path, text)
    name = f"millrace_entry_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def facts_of(digest: str) -> dict[str, Any] | None:
    """What was noted when this module was compiled and saved; None if it was not, or the note is unreadable."""
    try:
        facts = json.loads(module_path(digest).with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def note_facts(digest: str, facts: dict[str, Any]) -> None:
    """Note that this module compiled, after numba has saved its code."""
    _write(module_path(digest).with_suffix(".json"), json.dumps(facts))
