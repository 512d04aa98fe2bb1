"""Definite assignment: every local of a user function is assigned on every way to its use.

Python would raise UnboundLocalError at run time; compiled code would read zeros. So it is an error of the declaration.
Invariant: works on the user's own tree, with only the statements that `transform.py` lets through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

Names = frozenset[str]
Flow = Names | None  # None: control does not get here


def _meet(left: Flow, right: Flow) -> Flow:
    if left is None or right is None:
        return right if left is None else left
    return left & right


class _Definite:
    def __init__(self, known: Names, report: Callable[[int, str], None]) -> None:
        self.known, self.report = known, report
        self.broken: Flow = None  # the meet of all breaks out of the loop being walked

    def reads(self, node: ast.AST, assigned: Names) -> None:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in self.known - assigned:
                self.report(name.lineno, name.id)

    def block(self, body: list[ast.stmt], flow: Flow) -> Flow:
        for statement in body:
            if flow is None:  # unreachable, so nothing there is ever read
                return None
            flow = self.statement(statement, flow)
        return flow

    def statement(self, node: ast.stmt, assigned: Names) -> Flow:
        if isinstance(node, ast.If):
            self.reads(node.test, assigned)
            return _meet(self.block(node.body, assigned), self.block(node.orelse, assigned))
        if isinstance(node, ast.While | ast.For):
            return self.loop(node, assigned)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if node.target.id not in assigned:
                self.report(node.lineno, node.target.id)
            self.reads(node.value, assigned)
            return assigned
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return assigned
        self.reads(node.value if isinstance(node, ast.AnnAssign) and node.value else node, assigned)
        if isinstance(node, ast.Break):
            self.broken = _meet(self.broken, assigned)
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            return None
        return assigned | _stored(node)

    def loop(self, node: ast.While | ast.For, assigned: Names) -> Flow:
        outer, self.broken = self.broken, None
        if isinstance(node, ast.For):
            self.reads(node.iter, assigned)
            self.block(node.body, assigned | _stored(node.target))
        else:
            self.reads(node.test, assigned)
            self.block(node.body, assigned)
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        ended = None if endless else self.block(node.orelse, assigned)
        broken, self.broken = self.broken, outer
        return _meet(ended, broken)


def _stored(node: ast.AST) -> Names:
    return frozenset(
        name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    )


def require_assigned(
    body: list[ast.stmt], parameters: tuple[str, ...], known: Names, report: Callable[[int, str], None]
) -> None:
    """Call `report` with line and name for each local of `known` that may be read before it is assigned."""
    _Definite(known, report).block(body, frozenset(parameters))
