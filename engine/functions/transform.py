"""A user function's syntax tree, rewritten so that nothing it does can go wrong unseen.

Every function gets the fault cell as first parameter, every store is checked, and every loop ends once there is a
fault. Helpers are rewritten along. Expressions are in `expressions.py`.

Invariants: a statement that is not listed here is a DeclarationError, never passed through. Only the first parameter
is ever stored to, and only under its own name, so no other record can change. Evaluation order is Python's.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from engine.functions.assigned import require_assigned
from engine.functions.expressions import ExpressionRewriter
from engine.functions.syntax import DECORATOR, NAMES, RESERVED, call, fault, loaded, parse, statements
from engine.functions.udf import UserFunction


@dataclass(frozen=True)
class Origin:
    """Where a line of generated text comes from."""

    function: UserFunction
    line: int


@dataclass(frozen=True)
class CheckedFunction:
    """One rewritten function."""

    name: str
    returns_at: Origin  # its first return of a value, or itself
    lines: tuple[tuple[str, Origin | None], ...]
    stores_at: int | None  # the line of its first store into its first parameter


def transform(function: UserFunction, writable: bool) -> tuple[CheckedFunction, ...]:
    """`function` in checked form, last in the tuple, after every helper it calls."""
    program = _Program()
    checked = program.include(function)
    if checked.stores_at is not None and not writable:
        first = function.parameters[0]
        raise function.error(checked.stores_at, f"stores into {first!r}, which is read-only here")
    return tuple(program.done.values())


class _Program:
    """The functions of one generated module, each once, in the order in which they may be defined."""

    def __init__(self) -> None:
        self.done: dict[UserFunction, CheckedFunction] = {}
        self.open: list[UserFunction] = []

    def include(self, function: UserFunction) -> CheckedFunction:
        if function not in self.done:
            self.open.append(function)
            checked = _Rewriter(function, self).run()
            self.open.pop()
            self.done[function] = checked
        return self.done[function]


class _Rewriter(ExpressionRewriter):
    def __init__(self, function: UserFunction, program: _Program) -> None:
        super().__init__(function)
        self.program = program
        self.first = function.parameters[0] if function.parameters else None
        self.stores_at: int | None = None
        self.returns_at: int | None = None
        self.returns_value = False
        self.held = 0

    def run(self) -> CheckedFunction:
        definition = parse(self.function)
        self._require_plain_parameters(definition)
        if ast.get_docstring(definition) is not None:
            del definition.body[0]
        self.returns_value = any(_returns_value(node) for node in ast.walk(definition))
        original = copy.deepcopy(definition.body)
        body = self._block(definition.body) or [ast.Pass(lineno=definition.lineno)]
        require_assigned(original, self.function.parameters, self.scope.locals, self._unassigned)
        if self.stores_at is not None:
            self._require_never_rebound(original)
        name = f"_function_{len(self.program.done)}_{self.function.name}"
        parameters = [ast.arg(each) for each in ("_fault", *self.function.parameters)]
        arguments = ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[])
        rewritten = ast.FunctionDef(name, arguments, body, [], lineno=definition.lineno)
        returns_at = Origin(self.function, self.returns_at or definition.lineno)
        return CheckedFunction(name, returns_at, self._lines(rewritten), self.stores_at)

    def _lines(self, rewritten: ast.FunctionDef) -> tuple[tuple[str, Origin | None], ...]:
        text = ast.unparse(ast.fix_missing_locations(rewritten))
        (written,) = ast.parse(text).body
        origins: dict[int, Origin] = {}
        # The text is the same tree again, so its statements come in the same order.
        for ours, theirs in zip(statements(written), statements(rewritten), strict=True):
            origins[ours.lineno] = Origin(self.function, theirs.lineno)
        lines = enumerate(text.splitlines(), start=1)
        return ((DECORATOR, None), *((line, origins.get(number)) for number, line in lines))

    # What is refused

    def _unassigned(self, line: int, name: str) -> NoReturn:
        raise self.function.error(line, f"{name!r} may be used before it is assigned; assign it on every way to here")

    def _require_plain_parameters(self, definition: ast.FunctionDef) -> None:
        given = definition.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
            raise self.wrong(definition, "parameters must be plain names, without defaults or stars")
        for name in sorted(self.scope.locals):
            if name.startswith(RESERVED):
                raise self.wrong(definition, f"the name {name!r} is reserved")

    def _require_never_rebound(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == self.first:
                    raise self.wrong(node, f"assigns to {self.first!r}, the record it stores into; take another name")

    # Statements

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            rewritten = self.visit(statement)
            for each in rewritten if isinstance(rewritten, list) else [rewritten]:
                each.lineno = statement.lineno
                result.append(each)
        return result

    def visit_If(self, node: ast.If) -> ast.stmt:  # noqa: N802, the name that ast looks for
        return ast.If(self.visit(node.test), self._block(node.body), self._block(node.orelse))

    def visit_While(self, node: ast.While) -> ast.stmt:  # noqa: N802
        return ast.While(self.visit(node.test), self._guarded(node), self._block(node.orelse))

    def visit_For(self, node: ast.For) -> ast.stmt:  # noqa: N802
        if not isinstance(node.target, ast.Name):
            raise self.wrong(node, "the variable of a for loop must be a plain name")
        return ast.For(node.target, self.visit(node.iter), self._guarded(node), self._block(node.orelse))

    def _guarded(self, node: ast.While | ast.For) -> list[ast.stmt]:
        # First in the body, so that `continue` does not jump over it.
        # A return, not a break: what follows the loop may count on names that the loop has not assigned yet.
        leave = "return _memory.never()" if self.returns_value else "return"
        guard = ast.parse(f"if _fault[0] != 0: {leave}").body[0]
        guard.lineno = guard.body[0].lineno = node.lineno  # type: ignore[attr-defined]
        return [guard, *self._block(node.body)]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:  # noqa: N802
        if not isinstance(node.value, ast.Call):
            raise self.wrong(node, "a statement that does nothing is not supported in a user function")
        return ast.Expr(self.visit(node.value))

    def visit_Return(self, node: ast.Return) -> ast.stmt:  # noqa: N802
        if not _returns_value(node) or node.value is None:
            return ast.Return(None)
        self.returns_at = self.returns_at or node.lineno
        return ast.Return(self.visit(node.value))

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:  # noqa: N802
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._assign(node.targets[0], value)
        held = self._hold()
        result: list[ast.stmt] = [ast.Assign([ast.Name(held, ast.Store())], value)]
        for target in node.targets:
            result += self._assign(target, ast.Name(held, ast.Load()))
        return result

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | list[ast.stmt]:  # noqa: N802
        return self._assign(node.target, self.visit(node.value)) if node.value else ast.Pass()

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:  # noqa: N802
        target, before = node.target, list[ast.stmt]()
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant | ast.Slice):
            held = self._hold()  # the index is computed once
            before.append(ast.Assign([ast.Name(held, ast.Store())], self.visit(target.slice)))
            index = ast.Name(held, ast.Load())
            current: ast.expr = call("_places.item", fault(), self.visit(loaded(target.value)), index)
            return [*before, *self._assign(target, self._binary(node, current, self.visit(node.value)), index)]
        current = self.visit(loaded(target))
        return self._assign(target, self._binary(node, current, self.visit(node.value)))

    def _hold(self) -> str:
        self.held += 1
        return f"_held{self.held}"

    def _assign(self, target: ast.expr, value: ast.expr, index: ast.expr | None = None) -> list[ast.stmt]:
        """Statements that put `value`, already rewritten, into the user's `target`."""
        if isinstance(target, ast.Name):
            return [ast.Assign([target], value)]
        if isinstance(target, ast.Tuple):
            return self._unpack(target, value)
        if isinstance(target, ast.Attribute):
            self._note_store(target, target.value)
            return [ast.Assign([target], call("_places.fit", fault(), loaded(target), value))]
        if isinstance(target, ast.Subscript):
            if not isinstance(target.value, ast.Attribute):
                raise self.wrong(target, "only an item of a vector field of the first parameter can be assigned")
            self._note_store(target, target.value.value)
            position = index or self.visit(target.slice)
            return [ast.Expr(call("_places.store_item", fault(), value, loaded(target.value), position))]
        raise self.wrong(target, f"{NAMES.get(type(target), 'this')} cannot be assigned to")

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> list[ast.stmt]:
        names: list[ast.expr] = []
        after: list[ast.stmt] = []
        for each in target.elts:
            if isinstance(each, ast.Name):
                names.append(each)
            else:
                held = self._hold()
                names.append(ast.Name(held, ast.Store()))
                after += self._assign(each, ast.Name(held, ast.Load()))
        if not isinstance(value, ast.Tuple):
            value = call("_places.unpacked", value)
        elif len(value.elts) != len(names):
            raise self.wrong(target, f"unpacks {len(value.elts)} values into {len(names)} names")
        return [ast.Assign([ast.Tuple(names, ast.Store())], value), *after]

    def _note_store(self, node: ast.AST, record: ast.expr) -> None:
        if not isinstance(record, ast.Name) or record.id != self.first:
            stored = ast.unparse(record)
            raise self.wrong(
                node, f"stores into {stored!r}; only the first parameter ({self.first!r}) can be stored to"
            )
        self.stores_at = self.stores_at or getattr(node, "lineno", self.function.line)

    def call_helper(self, node: ast.Call, helper: UserFunction, arguments: list[ast.expr]) -> ast.expr:
        if helper in self.program.open:
            raise self.wrong(node, f"calls {helper.name!r} recursively")
        if len(arguments) != len(helper.parameters):
            expected = len(helper.parameters)
            raise self.wrong(node, f"{helper.name} takes {expected} arguments, got {len(arguments)}")
        checked = self.program.include(helper)
        if checked.stores_at is not None:  # it changes its first argument, which must be ours to change
            self._note_store(node, node.args[0])
        return call(checked.name, fault(), *arguments)


def _returns_value(node: ast.AST) -> bool:
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)
