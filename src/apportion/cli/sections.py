"""Settings that belong to an option: in its value, or in a section of a file of settings.

``--mechanism "leases(lease_seconds=1800, timers=tuned)"`` says what
``--mechanism leases --lease-seconds 1800 --timers tuned`` says, and so does a TOML file:

    [mechanism]
    name = "leases"
    lease_seconds = 1800
    timers = "tuned"

Both become these words before they are read, so that every value passes one check. `--help` shows
the option that a section is named after; ``apportion settings`` shows what goes with it.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.checks import as_word
from apportion.errors import InputError, unknown_name
from apportion.mechanisms.setting_names import listed_settings, name_and_settings
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_INSTEAD = {
    "workload": ("generate",),
    "generate": ("workload",),
    "racks": ("cluster",),
    "cluster": ("cluster",),
    "mechanism": ("mechanism", "pair_estimates"),  # which not every mechanism heeds
}
"""Sections of a file that an option beside it, or one of its section, takes the place of."""

_OF_ONE_CALL = ("--config", "--out", "--restart", "--dry-run", "--verbose", "--help")
"""Options that say nothing of the runs."""


_OF_A_COMPARISON = {"seed": "seeds", "by": "", "against": ""}
"""What a sweep calls keys of a comparison's file; it has nothing of those that are about tables."""


class Settable(NamedTuple):
    """One setting of a section: its option, how its value is written, and what it is."""

    flag: str
    metavar: str
    help: str
    hidden: bool


def add_setting(
    parser: Any,
    section: str,
    flag: str,
    metavar: str,
    text: str,
    read: Callable[[str], Any] = str,
    *,
    key: str | None = None,
    hidden: bool = True,
    **how: Any,
) -> None:
    """Add an option that belongs to a section.

    Parameters
    ----------
    parser
        Of a command, or a group of its options.
    section
        Named after its first option, ``mechanism``.
    flag, metavar, text
        The option, ``--lease-seconds``, its value and what it is, as help shows them.
    read
        Reads the value from a word.
    key
        What the section calls it; by default as the option, with underscores.
    hidden
        Whether ``--help`` leaves it out.
    how
        What else `argparse.ArgumentParser.add_argument` is told.
    """
    own = flag.removeprefix("--").replace("-", "_")
    sections = parser.get_default("sections") or {}  # one for a parser and its groups
    sections.setdefault(section, {})[key or own] = Settable(flag, metavar, text, hidden)
    parser.set_defaults(sections=sections)
    told = argparse.SUPPRESS if hidden else text
    parser.add_argument(flag, type=read, metavar=metavar, help=told, **how)


def expanded(words: Sequence[str], sections: Mapping[str, Mapping[str, Settable]]) -> list[str]:
    """Write settings within values, and those of ``--config FILE.toml``, as options.

    Parameters
    ----------
    words
        The command and its options.
    sections
        What the command knows, by section and key.

    Raises
    ------
    InputError
        For what cannot be read, and unknown sections and keys, with the nearest.
    """
    found: list[str] = []
    given: dict[str, list[list[str]]] = {}
    file = None
    traces = {known["file"].flag: name for name, known in sections.items() if "file" in known}
    argument = "workload" in sections and not traces  # the trace is one
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        name = traces.get(flag, flag.removeprefix("--").replace("-", "_"))
        of_option = bool(found) and found[-1].startswith("--") and "=" not in found[-1]
        if argument and word.endswith(")") and not word.startswith("-") and not of_option:
            trace, *own = _with_settings("workload", "--workload", word, sections["workload"])
            found += [trace.removeprefix("--workload="), *own]
            continue
        if not flag.startswith("--") or name not in (*sections, "config"):
            found.append(word)
            continue
        value = value if equals else next(rest, "")
        if name == "config" and value.endswith(".toml"):
            file = value
        elif name == "config" or not value:
            found += [f"{flag}={value}"] if value or equals else [flag]
        else:
            own = _with_settings(name, flag, value, sections[name])
            given.setdefault(flag, []).append(own)
            found += own
    _refuse_brackets_of_one_of_several(given)
    return found if file is None else [*found[:1], *_of_file(file, found, sections), *found[1:]]


def _refuse_brackets_of_one_of_several(given: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Refuse settings in brackets of one of several values: options, they would hold for all."""
    for flag, values in sorted(given.items()):
        if len(values) > 1 and any(len(own) > 1 for own in values):
            raise InputError(
                f"{flag} stands {len(values)} times, and settings in the brackets of one would "
                f"hold for all; give them once, in the section [{flag.removeprefix('--')}] of a "
                f"file for --config."
            )


def _with_settings(section: str, flag: str, value: str, known: Mapping[str, Settable]) -> list[str]:
    """Return one option and the settings in its value as options."""
    within = name_and_settings(value)
    if section == "generate":
        words, text = [], value if within is None else within[1]
    elif within is None:
        return [f"{flag}={value}"]
    else:
        words, text = [f"{flag}={within[0]}"], within[1]
    for name, word in listed_settings(flag, value, text):
        words.append(f"{_known(f'setting of {flag}', name, known).flag}={word}")
    return words


def _known(what: str, key: str, known: Mapping[str, Settable]) -> Settable:
    if key not in known:
        raise unknown_name(what, key, known)
    return known[key]


def _of_file(
    file: str, given: Sequence[str], sections: Mapping[str, Mapping[str, Settable]]
) -> list[str]:
    """Return the settings of a file as options, but for those that are given beside it."""
    content = read_text(file, blank=True).toml()
    if given[:1] == ["sweep"]:
        content = _for_a_sweep(file, content)
    asked = {word.partition("=")[0] for word in given if word.startswith("--")}
    replaced = _replaced(asked, sections)
    words: list[str] = []
    for name, value in content.items():
        if not isinstance(value, dict):
            flag = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words += [flag] * value
            elif name not in sections:
                words += _option(flag, value, asked)
            elif name not in replaced:
                inner = _with_settings(name, flag, as_word(value), sections[name])
                words += [word for word in inner if word.partition("=")[0] not in asked]
            continue
        if name not in sections:
            raise unknown_name(f"section of {file}", name, sections)
        for key, each in value.items() if name not in replaced else ():
            known = _known(f"setting of [{name}] in {file}", key, sections[name])
            words += _option(known.flag, each, asked)
    return words


def _for_a_sweep(file: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Take the file of a comparison for one of a sweep: its seed is the only one."""
    if "seed" in content and "seeds" in content:
        raise InputError(
            f"{file!r} has both seed = {content['seed']} and seeds = {content['seeds']}; a sweep "
            f"takes one of the two, as seeds = [{content['seed']}]."
        )
    named = {_OF_A_COMPARISON.get(name, name): value for name, value in content.items()}
    named.pop("", None)
    return named


def _replaced(asked: set[str], sections: Mapping[str, Mapping[str, Settable]]) -> set[str]:
    """Return the sections of a file that options beside it take the place of."""
    home = {each.flag: name for name, known in sections.items() for each in known.values()}
    found: set[str] = set()
    for flag in asked:
        name = flag.removeprefix("--").replace("-", "_")
        found.update(_INSTEAD.get(name, ()))
        if home.get(flag) == "generate":
            found.update(_INSTEAD["generate"])
    return found


def _option(flag: str, value: Any, asked: set[str]) -> list[str]:
    if flag in asked:
        return []
    several = flag == "--workload" and isinstance(value, list)  # which a sweep takes several times
    return [f"{flag}={as_word(each)}" for each in (value if several else [value])]


def as_given(
    text: str, words: Sequence[str], sections: Mapping[str, Mapping[str, Settable]] | None
) -> str:
    """Call settings by their names, unless some were given as options.

    Parameters
    ----------
    text
        Of an error.
    words
        What was given.
    sections
        What the command knows, by section and key, if it has any.
    """
    sections = sections or {}
    hidden = {e.flag: key for known in sections.values() for key, e in known.items() if e.hidden}
    if hidden.keys() & {word.partition("=")[0] for word in words}:
        return text
    said = re.sub(r"--[a-z][a-z-]*", lambda found: hidden.get(found[0], found[0]), text)
    if said == text:
        return text
    named = {found for found in re.findall(r"--[a-z][a-z-]*", text) if found in hidden}
    homes = [home for home, known in sections.items() if named & {e.flag for e in known.values()}]
    files = homes in (["workload"], ["log"])
    example = f", --{homes[0]} 'FILE({hidden[min(named)]}=...)'" if files else ""
    return f"{said} (Given in brackets{example}: `apportion settings` lists where.)"


def as_toml(args: argparse.Namespace) -> str:
    """Write the options that are given as the text of a file that ``--config`` reads."""
    home = {
        each.flag: (section, key)
        for section, known in args.sections.items()
        for key, each in known.items()
    }
    tables: dict[str, list[str]] = {"": []}
    for name, flag in args.flags.items():
        value = getattr(args, name, None)
        if value is None or value is False or flag in _OF_ONE_CALL:
            continue
        section, key = home.get(flag, ("", flag.removeprefix("--").replace("-", "_")))
        tables.setdefault(section, []).append(f"{key} = {_toml(value)}")
    parts = [*tables.pop("")]
    for section, lines in tables.items():
        parts += ["", f"[{section}]", *lines]
    return "\n".join(parts) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, str) and value in ("yes", "no"):
        return "true" if value == "yes" else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
