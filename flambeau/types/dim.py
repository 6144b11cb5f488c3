"""Symbolic sizes: integers that are known only when a program runs.

A Dim is a polynomial with integer coefficients over *atoms*, kept in one normal form, so that two sizes
that are the same polynomial are equal and hash alike. An atom is a symbol, a floor
division that does not come out even, or a maximum. Whatever turns out constant is a plain int: a Dim never
stands for a known number.

>>> s = symbol("s")
>>> s - s, (s * 4) // 4 == s, 3 * s // 2, s % 2
(0, True, s + s//2, s - 2*(s//2))

A symbol stands for a size of 1 or more: whoever makes one keeps size 0 as a constant. `==` compares forms,
so a Dim never equals an int; `<` and `bool` answer where the bounds decide and raise TypeError where they
do not. `str(size)` is a Python expression that `parse_dim` reads back.
"""

import ast
import operator
from functools import lru_cache, wraps
from math import gcd


class Atom:
    """An indivisible factor: `kind` is 'symbol', 'floordiv' or 'max'; equal if the text is equal."""

    __slots__ = ("kind", "args", "text", "key", "low", "high", "_hash")

    def __init__(self, kind, args, text, low, high):
        self.kind, self.args, self.text = kind, args, text
        self.key = (len(text), text)            # s2 before s10, symbols before what is made of them
        self.low, self.high = low, high         # bounds, None if there is none
        self._hash = hash(text)

    def __eq__(self, other):
        return self is other or (isinstance(other, Atom) and self.text == other.text)

    def __hash__(self):
        return self._hash


def _operand_is_size(method):
    """An arithmetic method whose operand is an int or a Dim; other integers (NumPy's) are made ints first."""
    @wraps(method)
    def checked(self, other):
        if not isinstance(other, (int, Dim)):
            try:
                other = operator.index(other)
            except TypeError:
                return NotImplemented
        return method(self, other)
    return checked


class Dim:
    """A symbolic size. `terms` is a tuple of (monomial, coefficient), a monomial a sorted tuple of atoms.

    Made by `symbol`, arithmetic (+ - * // % with ints and Dims) and `parse_dim`, never by hand.
    """

    __slots__ = ("terms", "_hash")
    __array_ufunc__ = None          # NumPy's integers leave arithmetic with a Dim to the Dim

    def __init__(self, terms):
        self.terms = terms
        self._hash = hash(terms)

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, Dim):
            return self._hash == other._hash and self.terms == other.terms
        return False if isinstance(other, int) else NotImplemented

    def __hash__(self):
        return self._hash

    @_operand_is_size
    def __add__(self, other):
        if isinstance(other, int):
            return _collect(self.terms, (((), other),)) if other else self
        return _collect(self.terms, other.terms)

    __radd__ = __add__

    def __neg__(self):
        return Dim(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __pos__(self):
        return self

    @_operand_is_size
    def __sub__(self, other):
        return self + -other

    @_operand_is_size
    def __rsub__(self, other):
        return -self + other

    @_operand_is_size
    def __mul__(self, other):
        if isinstance(other, int):
            return Dim(tuple((m, c * other) for m, c in self.terms)) if other else 0
        return _multiply(self, other)

    __rmul__ = __mul__

    def __pow__(self, exponent):
        if not isinstance(exponent, int) or exponent < 0:
            return NotImplemented
        result = 1
        for _ in range(exponent):
            result = result * self
        return result

    @_operand_is_size
    def __floordiv__(self, other):
        return _floordiv(self, other)

    @_operand_is_size
    def __rfloordiv__(self, other):
        return _floordiv(other, self)

    @_operand_is_size
    def __mod__(self, other):
        return self - other * _floordiv(self, other)

    @_operand_is_size
    def __rmod__(self, other):
        return other - self * _floordiv(other, self)

    def __truediv__(self, other):
        raise TypeError(f"[size] a symbolic size has no fractions: got {self} / {other}\n"
                        "  hint: use // for a size; for a number, make a tensor of it first")

    __rtruediv__ = __truediv__

    def __lt__(self, other):
        return _decide(self, "<", other, other - self)

    def __gt__(self, other):
        return _decide(self, ">", other, self - other)

    def __le__(self, other):
        return not _decide(self, "<=", other, self - other)

    def __ge__(self, other):
        return not _decide(self, ">=", other, other - self)

    def __bool__(self):
        low, high = bounds(self)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return True
        raise TypeError(f"[size] whether {self} is zero is known only when the program runs\n"
                        "  hint: make the size constant (do not mark it dynamic), or use maximum(size, 1)")

    def __int__(self):
        raise TypeError(f"[size] {self} is a symbolic size: its number is known only when the program runs\n"
                        "  hint: compute with the size itself, or make it constant (do not mark it dynamic)")

    __index__ = __float__ = __int__

    def __repr__(self):
        return _show(self.terms)

    def __reduce__(self):
        return parse_dim, (str(self),)


def symbol(name):
    """The size called `name`, an identifier: at least 1, otherwise unknown."""
    if not name.isidentifier() or name in ("max", "min"):
        raise ValueError(f"[size] a symbol needs an identifier for its name: got {name!r}")
    return _of_atom(Atom("symbol", (), name, 1, None))


# ---------------------------------------------------------------------------------- normal form
def _of_atom(atom):
    return Dim((((atom,), 1),))


def _order(term):
    """Terms of high degree first; a graded lexicographic order, which long division relies on."""
    monomial = term[0]
    return -len(monomial), [atom.key for atom in monomial]


def _build(table):
    """The size of a dict monomial -> coefficient: an int if nothing symbolic is left."""
    terms = [term for term in table.items() if term[1]]
    if not terms:
        return 0
    if len(terms) > 1:
        terms.sort(key=_order)
    elif not terms[0][0]:
        return int(terms[0][1])
    return Dim(tuple(terms))


def _collect(*groups):
    table = {}
    for terms in groups:
        for monomial, coefficient in terms:
            table[monomial] = table.get(monomial, 0) + coefficient
    return _build(table)


def _terms(size):
    if isinstance(size, Dim):
        return size.terms
    return (((), int(size)),) if size else ()


def _product(a, b):
    """The product of two monomials."""
    if not a or not b:
        return a or b
    return tuple(sorted(a + b, key=lambda atom: atom.key))


def _multiply(a, b):
    table = {}
    for left, x in a.terms:
        for right, y in b.terms:
            monomial = _product(left, right)
            table[monomial] = table.get(monomial, 0) + x * y
    return _build(table)


def _quotient(monomial, divisor):
    """The monomial that times `divisor` is `monomial`, or None."""
    rest = list(monomial)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


# ---------------------------------------------------------------------------------- division
@lru_cache(maxsize=4096)
def _floordiv(a, b):
    """a // b. What divides evenly leaves the division; the rest becomes an atom in lowest terms."""
    if not isinstance(b, Dim):
        if b == 0:
            raise ZeroDivisionError(f"[size] {a} // 0")
        if not isinstance(a, Dim):
            return a // b
    a, b = _cancel(a, b)
    if not isinstance(b, Dim):
        return _floordiv_number(a, b)
    if b.terms[0][1] < 0:
        a, b = -a, -b
    whole, rest = _divide(a, b)
    if rest == 0:
        return whole
    if whole != 0:
        return whole + _floordiv(rest, b)
    if _at_least(rest, 0) and _at_least(b - rest, 1):
        return 0
    if _at_least(-rest, 1) and _at_least(b + rest, 0):
        return -1
    return _division_atom(rest, b)


def _floordiv_number(a, b):
    """a // b for an int b."""
    if b < 0:
        a, b = -a, -b
    whole = _build({monomial: c // b for monomial, c in _terms(a)})
    rest = {monomial: c % b for monomial, c in _terms(a)}
    constant = rest.pop((), 0)
    rest = {monomial: c for monomial, c in rest.items() if c}
    if not rest:
        return whole
    common = gcd(b, *rest.values())             # (g*x + c) // (g*b) = (x + c//g) // b
    b //= common
    if b == 1 or common > 1:
        inner = _build({monomial: c // common for monomial, c in rest.items()} | {(): constant // common})
        return whole + (inner if b == 1 else _floordiv_number(inner, b))
    (monomial, coefficient), *others = rest.items()
    if not others and coefficient == 1 and len(monomial) == 1 and monomial[0].kind == "floordiv":
        upper, lower = monomial[0].args         # (x//m + c) // b = (x + c*m) // (m*b)
        if not isinstance(lower, Dim):
            return whole + _floordiv(upper + constant * lower, lower * b)
    return whole + _division_atom(_build(rest | {(): constant}), b)


def _cancel(a, b):
    """Both sizes without their common factor (a number times a monomial)."""
    terms = _terms(a) + _terms(b)
    number = gcd(*(coefficient for _, coefficient in terms))
    shared = terms[0][0]
    for monomial, _ in terms:
        rest = list(monomial)
        shared = tuple(atom for atom in shared if atom in rest and not rest.remove(atom))
    if number == 1 and not shared:
        return a, b
    return tuple(_build({_quotient(m, shared): c // number for m, c in _terms(size)}) for size in (a, b))


def _divide(a, b):
    """Polynomial long division by the leading term of b: (whole, rest) with a == whole * b + rest."""
    lead, divisor = b.terms[0]
    whole, rest, position = 0, a, 0
    while position < len(_terms(rest)):
        monomial, coefficient = _terms(rest)[position]
        factor = _quotient(monomial, lead)
        if factor is None or coefficient // divisor == 0:
            position += 1
            continue
        step = _build({factor: coefficient // divisor})
        whole, rest = whole + step, rest - step * b
        position = 0
    return whole, rest


def _division_atom(a, b):
    low = high = None
    low_a, high_a = bounds(a)
    if not isinstance(b, Dim):
        low = None if low_a is None else low_a // b
        high = None if high_a is None else high_a // b
    elif _at_least(a, 0) and _at_least(b, 1):
        low, high = 0, None if high_a is None else high_a // bounds(b)[0]
    return _of_atom(Atom("floordiv", (a, b), f"{_operand(a)}//{_operand(b)}", low, high))


# ---------------------------------------------------------------------------------- maximum
def maximum(*sizes):
    """The largest of ints and Dims; an int where that is known."""
    kept = []
    for size in sizes:
        inner = _maximum_args(size)
        for candidate in inner:
            if any(_at_least(other - candidate, 0) for other in kept):
                continue
            kept = [other for other in kept if not _at_least(candidate - other, 0)] + [candidate]
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=lambda size: (not isinstance(size, Dim), len(str(size)), str(size)))
    ranges = [bounds(size) for size in kept]
    low = max((low for low, _ in ranges if low is not None), default=None)
    high = None if any(high is None for _, high in ranges) else max(high for _, high in ranges)
    return _of_atom(Atom("max", tuple(kept), f"max({', '.join(map(str, kept))})", low, high))


def _maximum_args(size):
    if isinstance(size, Dim) and len(size.terms) == 1:
        monomial, coefficient = size.terms[0]
        if coefficient == 1 and len(monomial) == 1 and monomial[0].kind == "max":
            return monomial[0].args
    return (size,)


def minimum(a, b):
    """The smaller of two ints or Dims."""
    return a + b - maximum(a, b)


# ---------------------------------------------------------------------------------- what is known
def bounds(size):
    """(lowest, highest) value that `size` can take, each None if unknown.

    >>> bounds(symbol("s") * 2 + 1)
    (3, None)
    """
    if not isinstance(size, Dim):
        return size, size
    low = high = 0
    for monomial, coefficient in size.terms:
        small, large = _monomial_bounds(monomial)
        if coefficient < 0:
            small, large = large, small
        low = None if low is None or small is None else low + coefficient * small
        high = None if high is None or large is None else high + coefficient * large
    return low, high


def _monomial_bounds(monomial):
    if len(monomial) == 1:
        return monomial[0].low, monomial[0].high
    low = high = 1
    for atom in monomial:
        if atom.low is None or atom.low < 0:
            return None, None
        low *= atom.low
        high = None if high is None or atom.high is None else high * atom.high
    return low, high


def _at_least(size, number):
    low = bounds(size)[0]
    return low is not None and low >= number


def _decide(a, sign, b, difference):
    """Whether difference > 0."""
    low, high = bounds(difference)
    if low is not None and low > 0:
        return True
    if high is not None and high <= 0:
        return False
    raise TypeError(f"[size] whether {a} {sign} {b} is known only when the program runs\n"
                    "  hint: use maximum or minimum of the two, or make the size constant")


def is_static(size):
    """True if `size` is a plain number."""
    return not isinstance(size, Dim)


def exactly_divides(divisor, size):
    """True if `size` is known to be a multiple of `divisor`.

    >>> s = symbol("s")
    >>> exactly_divides(4, 8 * s + 4), exactly_divides(4, s)
    (True, False)
    """
    return size % divisor == 0


def symbols(size):
    """The names of the symbols in `size`."""
    if not isinstance(size, Dim):
        return set()
    found = set()
    for monomial, _ in size.terms:
        for atom in monomial:
            if atom.kind == "symbol":
                found.add(atom.text)
            else:
                found.update(*map(symbols, atom.args))
    return found


def substitute(size, env):
    """`size` with the symbols named in `env` (a dict name -> int or Dim) replaced; others stay."""
    if not isinstance(size, Dim):
        return size
    total = 0
    for monomial, product in size.terms:
        for atom in monomial:
            product = product * _substitute_atom(atom, env)
        total = total + product
    return total


def _substitute_atom(atom, env):
    if atom.kind == "symbol":
        value = env.get(atom.text)
        return _of_atom(atom) if value is None else value
    args = [substitute(arg, env) for arg in atom.args]
    return args[0] // args[1] if atom.kind == "floordiv" else maximum(*args)


def evaluate(size, env):
    """The number that `size` is for symbols of the values in `env` (name -> int); KeyError if one lacks."""
    if not isinstance(size, Dim):
        return size
    value = substitute(size, env)
    if isinstance(value, Dim):
        missing = sorted(symbols(size) - set(env))
        raise KeyError(f"[size] no value for {', '.join(missing)} in {size}")
    return value


# ---------------------------------------------------------------------------------- text
def _show(terms):
    text = ""
    for monomial, coefficient in terms:
        factors = [f"({atom.text})" if atom.kind == "floordiv" and (len(monomial) > 1 or abs(coefficient) != 1
                                                                  or coefficient < 0) else atom.text
                   for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        if text:
            text += f" {sign} "
        elif sign == "-":
            text += "-"
        text += "*".join(factors)
    return text


def _operand(size):
    """The text of one side of //: in parentheses unless it is a symbol, a maximum or a number >= 0."""
    text = str(size)
    if not isinstance(size, Dim):
        return text if size >= 0 else f"({text})"
    monomial, coefficient = size.terms[0]
    single = len(size.terms) == 1 and coefficient == 1 and len(monomial) == 1
    return text if single and monomial[0].kind != "floordiv" else f"({text})"


def parse_dim(text):
    """The size that `text` says: integers, symbols, + - * // % and max, min; else ValueError.

    >>> parse_dim("2*s0 + s0 + 1"), parse_dim("(4*s0)//2 - 2*s0")
    (3*s0 + 1, 0)
    """
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError) as error:
        raise ValueError(f"[size] not a size: got {text!r}, wanted integers, names, + - * // %, max(a, b)\n"
                         f"  hint: a size reads like 2*s0 + 1 or (s0 + 1)//2 ({error})") from None


_OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
              ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b}


def _read(node):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_read(node.left), _read(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        args = [_read(arg) for arg in node.args]
        if node.func.id == "max" and args:
            return maximum(*args)
        if node.func.id == "min" and len(args) == 2:
            return minimum(*args)
    raise TypeError(ast.unparse(node))
