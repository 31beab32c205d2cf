"""Where a small change can be planted in a function, and the function with the change."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_CALCULATED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
# What people read, and what only type checkers do.
_LEFT_OUT = frozenset(("__repr__", "__str__", "__hash__"))
_LOGGED = frozenset(("_LOG", "logging", "warnings"))


@dataclass(frozen=True)
class Mutation:
    """A change of a few characters.

    Attributes:
        path: of the file, from the repository's top.
        module: its name.
        line: where.
        function: the outermost function that it is in, by its qualified name.
        function_line: where that one begins, with its decorators.
        start: first byte that is replaced.
        end: the byte behind.
        old: what stood there.
        new: what stands there instead.
    """

    path: str
    module: str
    line: int
    function: str
    function_line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.function}: {old[:60]} -> {new[:60]}"

    def code(self, root: Path) -> CodeType:
        """The outermost function with the change."""
        source = (root / self.path).read_bytes()
        changed = source[: self.start] + self.new.encode() + source[self.end :]
        module = compile(changed, str(root / self.path), "exec", dont_inherit=True)
        for code in _codes(module):
            if code.co_qualname == self.function and code.co_firstlineno == self.function_line:
                return code
        raise LookupError(f"{self}: the function is not there any more")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def mutations_of(root: Path, path: Path) -> list[Mutation]:
    """All changes that can be planted in a file."""
    source = path.read_bytes()
    relative = path.relative_to(root)
    module = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    return list(_Finder(source, str(relative), module).run())


def sample(root: Path, packages: list[str], count: int, seed: int) -> list[Mutation]:
    """So many mutations, about as many of each package; the same for the same seed and sources.

    A change of one function changes the choice among its own mutations only.
    """
    found: list[Mutation] = []
    for number, package in enumerate(packages):
        share = count * (number + 1) // len(packages) - count * number // len(packages)
        possible = [
            mutation
            for path in sorted((root / "replica_client" / package).rglob("*.py"))
            if "spark" not in path.parts  # its tests need Java
            for mutation in mutations_of(root, path)
        ]
        found += sorted(possible, key=functools.partial(_drawn, seed, Counter()))[:share]
    return found


def _drawn(seed: int, seen: Counter[str], mutation: Mutation) -> bytes:
    """What a mutation draws: it is planted where that is low."""
    name = f"{mutation.path} {mutation.function} {mutation.old} {mutation.new}"
    seen[name] += 1
    return hashlib.sha256(f"{seed} {name} {seen[name]}".encode()).digest()


def listed(root: Path, lines: list[str]) -> list[Mutation]:
    """The mutations that lines name, as :meth:`Mutation.__str__` writes them; what follows in a line is ignored.

    Raises:
        LookupError: there is none of that name any more.
    """
    found: list[Mutation] = []
    for line in filter(None, map(str.strip, lines)):
        path = root / line.partition(":")[0]
        same = [one for one in mutations_of(root, path) if line.startswith(str(one))]
        if not same:
            raise LookupError(f"no such mutation: {line}")
        found.append(max(same, key=lambda one: len(str(one))))
    return found


class _Finder:
    def __init__(self, source: bytes, path: str, module: str) -> None:
        self._source, self._path, self._module = source, path, module
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._function = ("", 0)
        self._is_number = False

    def run(self) -> Iterator[Mutation]:
        yield from self._body(ast.parse(self._source).body, "")

    def _body(self, body: list[ast.stmt], prefix: str) -> Iterator[Mutation]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from self._body(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name in _LEFT_OUT or _is_a_stub(node):
                    continue
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                self._function = (prefix + node.name, first)
                # Compiled, it gives a C number, and cannot give None.
                self._is_number = node.returns is not None and ast.unparse(node.returns).startswith(
                    "cython."
                )
                for statement in node.body:
                    yield from self._walk(statement)

    def _walk(self, node: ast.AST) -> Iterator[Mutation]:
        if _says_something(node):
            return
        yield from self._changes(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and isinstance(
                node, ast.AnnAssign | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._walk(child)

    def _changes(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                if type(operator) in _COMPARED:
                    yield from self._between(left, right, *_COMPARED[type(operator)])
            case ast.BinOp(left=left, op=operator, right=right):
                if type(operator) in _CALCULATED and not (_is_text(left) or _is_text(right)):
                    yield from self._between(left, right, *_CALCULATED[type(operator)])
            case ast.BoolOp(op=operator, values=[left, right, *_]):
                both = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                if len(node.values) == 2:
                    yield from self._between(left, right, *both)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(node, self._text(operand))
            case ast.Constant(value=bool(value)):
                yield self._replaced(node, str(not value))
            case ast.Constant(value=int(value)):
                yield self._replaced(node, str(value + 1))
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not isinstance(test, ast.Constant):
                    yield self._replaced(test, f"(not ({self._text(test)}))")
            case ast.Return(value=ast.expr() as value):
                # False is as good as None to those who ask; True for it is planted, too.
                if not self._is_number and not (
                    isinstance(value, ast.Constant)
                    and (value.value is None or value.value is False)
                ):
                    yield self._replaced(value, "None")
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                yield self._replaced(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._replaced(node, "pass")
            case ast.Continue():
                yield self._replaced(node, "break")

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutation]:
        start, end = self._bounds(left)[1], self._bounds(right)[0]
        between = self._source[start:end]
        at = between.find(old.encode())
        if at >= 0 and between.count(old.encode()) == 1:
            yield self._mutation(left.lineno, start + at, start + at + len(old), new)

    def _replaced(self, node: ast.stmt | ast.expr, new: str) -> Mutation:
        return self._mutation(node.lineno, *self._bounds(node), new)

    def _mutation(self, line: int, start: int, end: int, new: str) -> Mutation:
        old = self._source[start:end].decode()
        return Mutation(self._path, self._module, line, *self._function, start, end, old, new)

    def _bounds(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node: ast.expr) -> str:
        start, end = self._bounds(node)
        return self._source[start:end].decode()


def _is_a_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body of its own: of a Protocol, or an overload."""
    last = node.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)


def _says_something(node: ast.AST) -> bool:
    """Whether only people read what is in it: messages of errors, logs, docstrings."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.keyword(arg="strict"):  # zip's own assertion
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in _LOGGED
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
