"""Generated kernels, compiled and kept on disk with the engine's (`engine/functions/cache.py`).

A module is named by a hash of its text and of the kernels it calls, so an edit in either makes another module.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import cache as remember
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.functions import cache

_lock = threading.RLock()
_modules: dict[str, ModuleType] = {}


@remember
def _called_kernels() -> bytes:
    return Path(__file__).with_name("bytes_kernel.py").read_bytes()


def compile_kernels(what: str, text: str, signatures: dict[str, tuple[Any, ...]]) -> dict[str, Callable[..., Any]]:
    """The functions of generated source by name, each compiled for its one signature or loaded from disk."""
    digest = hashlib.sha256(_called_kernels() + text.encode()).hexdigest()
    with _lock:
        module = _modules.get(digest)
        if module is None:
            module = cache.load_module(digest, text)
            known = cache.facts_of(digest) is not None
            if not known and cache.on_compile is not None:
                cache.on_compile(what)
            for name, signature in signatures.items():
                getattr(module, name).compile(signature)
                getattr(module, name).disable_compile()
            if not known:
                cache.note_facts(digest, {})
            _modules[digest] = module
    return {name: getattr(module, name) for name in signatures}
