"""Registries, in which kernels, criteria, posteriors and scalings are looked up by name."""

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from sparsegp.errors import UnknownNameError

T = TypeVar("T")


class Registry(dict[str, T]):
    """Members of a family by name, sorted by name."""

    def __init__(self, family: str) -> None:
        super().__init__()
        self.family = family  # its name in the singular, for error messages ("kernel")

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds its argument under `name`.

        Raises
        ------
        ValueError
            If the name is taken.
        """

        def add(member: T) -> T:
            if name in self:
                raise ValueError(f"{self.family} {name!r} is registered already")
            self[name] = member
            return member

        return add

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownNameError.of(self.family, name, self)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.keys()))
