"""The expressions of a user function in checked form.

Operators become operations of `checked.py`, subscripts those of `places.py`, free names literals, calls what
`calls.py` says.

Invariant: an expression that is not listed here is a DeclarationError, never passed through. Evaluation order is
Python's.
"""

from __future__ import annotations

import ast
from types import ModuleType

import numpy as np

from engine.errors import DeclarationError
from engine.functions.calls import MODULES, Call, allowed
from engine.functions.scope import Scope, UnknownNameError
from engine.functions.syntax import BINARY, CONTEXTS, KEPT, NAMES, UNARY, UNFAILING, call, dotted, fault
from engine.functions.udf import UserFunction


class ExpressionRewriter(ast.NodeTransformer):
    """Rewrites expressions of one function; how a helper is called is left to who knows the other functions."""

    def __init__(self, function: UserFunction) -> None:
        self.function, self.scope = function, Scope(function)

    def call_helper(self, node: ast.Call, helper: UserFunction, arguments: list[ast.expr]) -> ast.expr:
        """A call of another user function; a function seen alone can call none."""
        raise self.wrong(node, f"calls {helper.name!r}, which cannot be included here")

    def wrong(self, node: ast.AST, what: str) -> DeclarationError:
        return self.function.error(getattr(node, "lineno", self.function.line), what)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, KEPT + CONTEXTS):
            return super().generic_visit(node)
        name = NAMES.get(type(node), type(node).__name__)
        raise self.wrong(node, f"{name} is not supported in a user function")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.scope.locals:
            return node
        return self._literal(node, node.id, self._free(node))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.value is None:
            raise self.wrong(node, "None is only supported in 'return None'")
        return self._literal(node, repr(node.value), node.value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        module = self._module(node.value)
        if module is None:
            return ast.Attribute(self.visit(node.value), node.attr, ast.Load())
        return self._literal(node, ast.unparse(node), self._member(node, module))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._binary(node, self.visit(node.left), self.visit(node.right))

    def _binary(self, node: ast.BinOp | ast.AugAssign, left: ast.expr, right: ast.expr) -> ast.expr:
        if isinstance(node.op, UNFAILING):
            return ast.BinOp(left, node.op, right)
        if type(node.op) not in BINARY:
            raise self.wrong(node, f"{NAMES[type(node.op)]} is not supported in a user function")
        return call(f"_checked.{BINARY[type(node.op)]}", fault(), left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self.visit(node.operand))
        constant = node.operand.value if isinstance(node.operand, ast.Constant) else None
        if isinstance(node.op, ast.USub) and type(constant) in (int, float):
            return self._literal(node, ast.unparse(node), -constant)  # type: ignore[operator]
        return call(f"_checked.{UNARY[type(node.op)]}", fault(), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if any(isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in node.ops):
            raise self.wrong(node, "'is' and 'in' are not supported in a user function; compare with ==")
        return ast.Compare(self.visit(node.left), node.ops, [self.visit(each) for each in node.comparators])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return call("_places.item", fault(), self.visit(node.value), self.visit(node.slice))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = self._called(node)
        if node.keywords:
            raise self.wrong(node, "arguments by keyword are not supported in a user function")
        arguments = [self.visit(each) for each in node.args]
        if isinstance(called, UserFunction):
            return self.call_helper(node, called, arguments)
        rule = allowed(called)
        if rule is None:
            raise self.wrong(node, f"calls {ast.unparse(node.func)!r}, which is neither a user function nor supported")
        if not rule.arguments_min <= len(arguments) <= rule.arguments_max:
            raise self.wrong(node, f"{ast.unparse(node.func)}() does not take {len(arguments)} arguments here")
        return _call_allowed(rule, arguments)

    # Names that are not local

    def _called(self, node: ast.Call) -> object:
        if isinstance(node.func, ast.Name) and node.func.id not in self.scope.locals:
            return self._free(node.func)
        if isinstance(node.func, ast.Attribute):
            module = self._module(node.func.value)
            if module is not None:
                return self._member(node.func, module)
        raise self.wrong(node, f"calls {ast.unparse(node.func)!r}; only functions known by name can be called")

    def _free(self, node: ast.Name) -> object:
        try:
            return self.scope.value(node.id)
        except UnknownNameError:
            raise self.wrong(node, f"the name {node.id!r} is not defined") from None

    def _module(self, node: ast.expr) -> ModuleType | None:
        if not isinstance(node, ast.Name) or node.id in self.scope.locals:
            return None
        value = self._free(node)
        if isinstance(value, ModuleType) and value in MODULES:
            return value
        return None

    def _member(self, node: ast.Attribute, module: ModuleType) -> object:
        try:
            return getattr(module, node.attr)
        except AttributeError:
            raise self.wrong(node, f"{module.__name__} has no {node.attr!r}") from None

    def _literal(self, node: ast.AST, name: str, value: object) -> ast.expr:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool):
            return ast.Constant(value)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise self.wrong(node, f"the integer {name} does not fit into int64")
            return ast.Constant(int(value))
        if isinstance(value, float):
            number = float(value)
            if np.isfinite(number):
                return ast.Constant(number)
            special: ast.expr = dotted("_math.nan" if np.isnan(number) else "_math.inf")
            return ast.UnaryOp(ast.USub(), special) if number < 0 else special
        kind = "text is" if isinstance(value, str) else f"{type(value).__name__} is"
        raise self.wrong(node, f"uses {name} as a value; {kind} not supported in a user function")


def _call_allowed(rule: Call, arguments: list[ast.expr]) -> ast.expr:
    if rule.form == "checked":
        return call(rule.target, fault(), *arguments)
    if rule.form == "finite":
        return call("_checked.finite", fault(), call(rule.target, *arguments))
    if rule.form == "range":
        start = arguments[0] if len(arguments) > 1 else ast.Constant(0)
        stop = arguments[1] if len(arguments) > 1 else arguments[0]
        step = arguments[2] if len(arguments) > 2 else ast.Constant(1)
        return call(rule.target, fault(), start, stop, step)
    return call(rule.target, *arguments)
