"""Numbers that remember how large the terms were of which they are the sum.

Where large terms cancel, the result says nothing about what rounding may leave of them; their size does.
"""

from mpmath import mpf


class Sized(mpf):
    """A number with `size`: of an input or of a function's result its absolute value; sums add sizes, products multiply them."""

    def __new__(cls, value, size=None):
        self = mpf.__new__(cls, value)
        self.size = size_of(value) if size is None else size
        return self

    def __add__(self, other):
        return Sized(plain(self) + plain(other), self.size + size_of(other))

    def __sub__(self, other):
        return Sized(plain(self) - plain(other), self.size + size_of(other))

    def __rsub__(self, other):
        return Sized(plain(other) - plain(self), self.size + size_of(other))

    def __mul__(self, other):
        return Sized(plain(self) * plain(other), self.size * size_of(other))

    def __truediv__(self, other):
        return Sized(plain(self) / plain(other), self.size / abs(plain(other)))

    def __rtruediv__(self, other):
        return Sized(plain(other) / plain(self), size_of(other) / abs(plain(self)))

    def __pow__(self, power):
        return Sized(plain(self) ** power, self.size ** power)

    def __neg__(self):
        return Sized(-plain(self), self.size)

    __radd__, __rmul__ = __add__, __mul__


def plain(x):
    return mpf(x) if isinstance(x, Sized) else x


def size_of(x):
    return x.size if isinstance(x, Sized) else abs(mpf(x))
