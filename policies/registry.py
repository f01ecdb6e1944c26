"""Policies by name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError, unknown_name, written
from apportion.names import (
    OTHER_POLICY_NAMES,
    POLICIES_OF,
    POLICY_NAMES,
    as_policy,
    comes_with_schedulers,
    is_scheduler_name,
    standard,
)
from apportion.policies.base import Policy
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable


def _of_file(name: str) -> type[Policy]:
    """Return the policy of a name, which stands in the file of this name."""
    module = import_module(f"apportion.policies.{name}")
    classes = (each for each in vars(module).values() if isinstance(each, type))
    return next(each for each in classes if getattr(each, "name", None) == name)


_COMES_WITH = {name: _of_file(name) for name in POLICY_NAMES}

WHOLE = {kind: tuple(_COMES_WITH[name] for name in names) for kind, names in POLICIES_OF.items()}
"""Policies that choose one option for each job, or none, by what the options have to be."""

BUILT_IN = WHOLE.pop("any jobs")
"""Policies for any jobs."""

SPECIALISED = WHOLE.pop("single GPUs, or pairs")
"""Policies for single-GPU jobs only, or for jobs that share GPUs only."""

POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    "apportion.policies",
    _COMES_WITH,
    lambda value: isinstance(value, type) and issubclass(value, Policy),
    beside=("scheduler", comes_with_schedulers),
)
"""Classes of policies by name; one of one's own is added by `register`."""

_SUFFIXES: dict[str, tuple[str, bool]] = {
    "_agnostic": ("heterogeneity_aware", False),
    "_space_sharing": ("space_sharing", True),
}
"""What an ending of a name stands for: an option and its value."""


def register(policy: type[Policy]) -> type[Policy]:
    """Make a policy class known by its ``name``; usable as a decorator.

    A class of one's own takes the place of one that was registered before by this name.

    Raises
    ------
    InputError
        If a policy that comes with the package has the name.
    """
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise InputError(f"{written(policy)} is no class of policies; derive it from Policy.")
    POLICIES[policy.name] = policy
    return policy


def get_policy(policy: Policy | str, **options: Any) -> Policy:
    """Return a policy by name, or the policy itself.

    A name ending in ``_agnostic`` gives the policy with ``heterogeneity_aware=False``, one ending
    in ``_space_sharing`` the policy with ``space_sharing=True``. Installed packages can offer
    policies through the entry point group ``apportion.policies``; it is looked up only for a name
    that is not known.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one, the name of a scheduler, or an option that the
        policy does not have.
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, type):
        raise InputError(f"policy is the class {policy.__name__}; write {policy.__name__}().")
    if not isinstance(policy, str):
        raise InputError(f"A policy is a name or a Policy object, not {type(policy).__name__}.")
    if not options and policy in _COMES_WITH:
        return _COMES_WITH[policy]()
    base, meant = _without_suffixes(policy)
    found: type[Policy] | None = POLICIES.get(base)
    if found is None and is_scheduler_name(policy):
        raise InputError(
            f"{policy!r} is a scheduler, not a policy: it decides who has GPUs and solves "
            f"no allocation. Use simulate({policy!r}, workload, cluster) or "
            f"compare([{policy!r}, ...], workload, cluster); get_scheduler({policy!r}) returns it."
            f"{as_policy(policy)}"
        )
    if found is None:
        raise unknown_policy(policy)
    options = meant | options
    for option in options:
        if option not in (valid := _options(found)):
            raise unknown_name(f"option of policy {base!r}", option, valid)
    return found(**options)


def unknown_policy(name: str, schedulers: Iterable[str] = ()) -> InputError:
    """Build the error for a name of no policy, and of none of `schedulers` where these do, too."""
    also = list(schedulers)
    shown = f"{', '.join(POLICIES)}; most of them also with {' or '.join(_SUFFIXES)} at the end"
    shown += f"; schedulers: {', '.join(also)}" if also else ""
    base = name.partition("(")[0]
    if base != name and is_known(base):
        return InputError(
            f"Unknown policy {name!r}. Options of a policy are given in Python: "
            f"get_policy({base!r}, option=value)."
        )
    varied = [
        f"{known}{ending}"
        for ending, (option, _) in _SUFFIXES.items()
        for known, policy in POLICIES.items()
        if option in _options(policy)
    ]
    return unknown_name("policy", name, [*POLICIES, *varied, *also], shown=shown)


def is_known(name: str, *, installed: bool = False) -> bool:
    """Tell whether a name, endings included, is known, at wish by a look at installed packages."""
    return _without_suffixes(name)[0] in (POLICIES if installed else list(POLICIES))


def policies_named(name: str) -> list[type[Policy]]:
    """Return the class that a name, endings included, stands for by now, if there is one."""
    base = _without_suffixes(name)[0]
    return [POLICIES[base]] if base in list(POLICIES) else []


def policy_table() -> pd.DataFrame:
    """List the policies: name, problem in one line, source."""
    rows = [(p.name, _problem(p), p.source) for p in POLICIES.values()]
    return pd.DataFrame(rows, columns=["name", "problem", "source"])


def _problem(policy: type[Policy]) -> str:
    """Read the problem that the docstring of a policy displays, or else the docstring's summary.

    A class without a docstring has the one of the class that it is made from.
    """
    for each in policy.__mro__:
        text = cleandoc(each.__doc__ or "")
        if text and not text.startswith(f"{each.__name__}("):  # that one is made by dataclasses
            break
    before, _, display = text.partition("::\n\n")
    lines = (display or before).split("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines)


def _options(policy: type[Policy]) -> list[str]:
    """Return the names of the options of a policy."""
    return [field.name for field in fields(policy)] if is_dataclass(policy) else []


def _without_suffixes(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name into the policy's own and the options that its endings stand for."""
    options: dict[str, Any] = {}
    while name not in list(POLICIES) and name.endswith(tuple(_SUFFIXES)):
        ending = next(filter(name.endswith, _SUFFIXES))
        options.update([_SUFFIXES[ending]])
        name = name.removesuffix(ending)
    other = standard(name, OTHER_POLICY_NAMES)
    return (other if name not in list(POLICIES) and other in _COMES_WITH else name), options
