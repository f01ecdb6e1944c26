"""Options of estimators by name, as scikit-learn has them."""

from __future__ import annotations

import inspect
from typing import Any, Self

from apportion.errors import unknown_name

__all__ = ["WithOptions"]


class WithOptions:
    """Reads and changes the options of a class that stores them as given, under their names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Options by name, as given to the class."""
        return {name: getattr(self, name) for name in _options(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change options by name.

        Raises
        ------
        InputError
            For an option that the class does not have, with the nearest one.
        """
        for name, value in params.items():
            if name not in _options(type(self)):
                raise unknown_name(f"option of {type(self).__name__}", name, _options(type(self)))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({options})"


def _options(kind: type) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name != "self"]
