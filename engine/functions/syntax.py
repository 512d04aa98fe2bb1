"""The syntax of user functions: how it is read, which operators are checked by what, and small pieces of tree.

Invariant: a node that no table here and no rule of the rewriters names is refused.
"""

from __future__ import annotations

import ast
import inspect

from engine.functions.udf import UserFunction

RESERVED = ("_fault", "_checked", "_places", "_memory", "_held", "_function", "_math", "_numpy", "_min", "_max", "_len")
DECORATOR = "@_njit(error_model='numpy', nogil=True)"

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "modulo",
    ast.Pow: "power",
    ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}
UNFAILING = (ast.BitAnd, ast.BitOr, ast.BitXor)
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "negate", ast.UAdd: "plus", ast.Invert: "invert"}
KEPT = (ast.Pass, ast.Break, ast.Continue, ast.If, ast.Return, ast.BoolOp, ast.IfExp, ast.Tuple)
CONTEXTS = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
NAMES: dict[type[ast.AST], str] = {
    ast.Try: "try",
    ast.With: "with",
    ast.Lambda: "a lambda",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "an f-string",
    ast.FunctionDef: "a nested function",
    ast.AsyncFunctionDef: "a nested function",
    ast.ClassDef: "a class",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Slice: "a slice",
    ast.List: "a list",
    ast.Set: "a set",
    ast.Dict: "a dictionary",
    ast.Starred: "a starred expression",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Assert: "assert",
    ast.Raise: "raise",
    ast.Delete: "del",
    ast.Match: "match",
    ast.MatMult: "@",
}


def parse(function: UserFunction) -> ast.FunctionDef:
    """The tree of the user's own text, with the line numbers of the user's file."""
    try:
        text, first = inspect.getsourcelines(function.python)
    except (OSError, TypeError):
        raise function.error(function.line, "its source cannot be read; define it in a file") from None
    # A block around it instead of a dedent, which a docstring at the margin would defeat.
    tree = ast.parse("if True:\n" + "".join(text) if text[0][0].isspace() else "\n" + "".join(text))
    ast.increment_lineno(tree, first - 2)
    statement = tree.body[0]
    definition = statement.body[0] if isinstance(statement, ast.If) else statement
    if not isinstance(definition, ast.FunctionDef):
        raise function.error(function.line, "must be a plain function written with def")
    return definition


def statements(node: ast.AST) -> list[ast.stmt]:
    """Every statement below `node`, in an order that depends on the shape of the tree only."""
    return [each for each in ast.walk(node) if isinstance(each, ast.stmt)]


def dotted(name: str) -> ast.expr:
    """The expression that `name` writes."""
    return ast.parse(name, mode="eval").body


def fault() -> ast.expr:
    """The fault cell, as an argument."""
    return ast.Name("_fault", ast.Load())


def loaded(node: ast.expr) -> ast.expr:
    """A copy of a stored-to expression, to be read."""
    tree = dotted(ast.unparse(node))
    for each in ast.walk(tree):
        if isinstance(each, ast.expr):
            each.lineno = node.lineno
    return tree


def call(target: str, *arguments: ast.expr) -> ast.expr:
    """A call of `target` in the generated module."""
    return ast.Call(dotted(target), list(arguments), [])
