"""Settings that belong to an option: in its value, or in a section of a file of settings.

``--mechanism "leases(lease_seconds=1800, timers=tuned)"`` says what a TOML file says:

    [mechanism]
    name = "leases"
    lease_seconds = 1800
    timers = "tuned"

A setting is no option of its own. It passes a check of its own, and stands among what is read by
the name that it has in Python.
"""

from __future__ import annotations

import argparse
import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.checks import as_word
from apportion.cli.commands import Once
from apportion.errors import InputError, unknown_name
from apportion.mechanisms.setting_names import in_brackets, listed_settings, name_and_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_INSTEAD = {
    "workload": ("generate",),
    "generate": ("workload", "generate"),
    "racks": ("cluster",),
    "cluster": ("cluster",),
    "mechanism": ("mechanism",),
}
"""Sections of a file that an option beside it takes the place of."""

_OF_ONE_CALL = ("--config", "--out", "--restart", "--dry-run", "--verbose", "--help")
"""Options that say nothing of the runs."""

_OF_A_COMPARISON = {"seed": "seeds", "by": "", "against": ""}
"""What a sweep calls keys of a comparison's file; it has nothing of those that are about tables."""

_ALIKE = 0.75
"""Least share of letters that a misspelt option has in common with the setting that is meant."""


class Settable(NamedTuple):
    """What a section holds: its name among what is read, and what reads it.

    ``flag`` is its option, empty for a setting; ``of`` are the names that it stands behind.
    """

    dest: str
    read: Callable[[str], Any]
    flag: str = ""
    of: tuple[str, ...] = ()


_Section = dict[str, Settable]


def add_setting(
    parser: Any,
    section: str,
    key: str,
    read: Callable[[str], Any],
    *of: str,
    dest: str | None = None,
) -> None:
    """Let the brackets of an option hold a setting.

    Parameters
    ----------
    parser
        Of a command, or a group of its options.
    section
        Called as the option, ``mechanism``.
    key
        What the setting is called in brackets.
    read
        Reads the value from a word.
    of
        Names that it stands behind.
    dest
        What it is called among what is read; by default `key`.
    """
    _section(parser, section)[key] = Settable(dest or key, read, of=of)
    parser.set_defaults(**{dest or key: None})


def add_named(
    parser: Any,
    section: str,
    key: str,
    flag: str,
    metavar: str,
    text: str,
    read: Callable[[str], Any] = str,
    **how: Any,
) -> None:
    """Add an option of a section; the first one takes brackets.

    Parameters
    ----------
    parser, section, key, read
        As of `add_setting`.
    flag, metavar, text
        The option as help shows it; an argument has no hyphens.
    how
        What else `argparse.ArgumentParser.add_argument` is told.
    """
    known = _section(parser, section)
    how |= {"type": read} if known else {"action": _InBrackets, "section": section}
    action = parser.add_argument(flag, metavar=metavar, help=text, **how)
    known[key] = Settable(action.dest, read, flag if flag.startswith("-") else "")


def _section(parser: Any, name: str) -> _Section:
    """Return a section of a command, a new one where there is none yet."""
    sections: dict[str, _Section] = parser.get_default("sections") or {}
    parser.set_defaults(sections=sections)  # one for a parser and its groups
    return sections.setdefault(name, {})


class _InBrackets(Once):
    """Keep a value, and the settings in its brackets."""

    def __init__(self, *args: Any, section: str, several: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.several = section, several

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        known = parser.get_default("sections")[self.section]
        what = option_string or str(self.metavar)
        value, settings = _with_settings(self.section, what, values, known)
        if self.several:
            asked = parser.__dict__.setdefault("asked", set())
            before = getattr(namespace, self.dest) or []
            if before and (settings or asked & {e.dest for e in known.values() if not e.flag}):
                raise InputError(
                    f"{what} stands several times, and settings in the brackets of one would hold "
                    f"for all; give them once, in the section [{self.section}] of a file for "
                    f"--config."
                )
            setattr(namespace, self.dest, [*before, value])
        elif value is not None or self.dest in parser.__dict__.get("asked", ()):
            super().__call__(parser, namespace, value, option_string)
        for key, each in settings.items():
            self.keep(parser, namespace, known[key].dest, each)


def _with_settings(
    section: str, what: str, text: str, known: _Section
) -> tuple[Any, dict[str, Any]]:
    """Return what stands before the brackets, and the settings in them by key."""
    within = name_and_settings(text)
    main = next(iter(known.values()))
    settings = dict(list(known.items())[1:])
    if section == "generate":
        name, inner = "", text if within is None else within[1]
    else:
        name, inner = (text, "") if within is None else within
    found: dict[str, Any] = {}
    for key, word in listed_settings(what, text, inner):
        if key in found:
            raise InputError(f"{what} has {key} twice in its brackets; it takes one value.")
        each = _known(f"setting of {what}", key, settings, name)
        found[key] = _read(f"{what}, {key}", each.read, word)
    if inner and not name and main.flag:  # beside what a file or a policy chooses
        return None, found
    return _read(what, main.read, name), found


def _known(what: str, key: str, known: _Section, name: str = "") -> Settable:
    if key not in known:
        own = [other for other, each in known.items() if name in each.of] or list(known)
        raise unknown_name(what, key, known, shown=", ".join(own))
    return known[key]


def _read(what: str, read: Callable[[str], Any], word: str) -> Any:
    """Read a value, and say whose it is where it cannot be read."""
    try:
        return read(word)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{what}: {error}.") from error


def defaults_of(
    file: str, content: Mapping[str, Any], words: Sequence[str], parser: argparse.ArgumentParser
) -> dict[str, Any]:
    """Read options of a file: what holds where words do not say otherwise.

    Parameters
    ----------
    file, content
        Named by ``--config``, and what it holds by section.
    words
        The command and its options.
    parser
        Of the command.

    Raises
    ------
    InputError
        For what cannot be read, and unknown sections and keys, with the nearest.
    """
    if words[0] == "sweep":
        content = _for_a_sweep(file, content)
    sections, flags = parser.get_default("sections"), parser._option_string_actions
    asked = {
        flag.removeprefix("--").replace("-", "_")
        for word, following in zip(words, [*words[1:], ""], strict=True)
        for flag, equals, value in [word.partition("=")]
        if not (value if equals else following).startswith("(")  # beside those of the file
    }
    replaced = {section for name in asked for section in _INSTEAD.get(name, ())}
    found: dict[str, Any] = {}
    for name, value in content.items():
        known = sections.get(name)
        flag = f"--{name.replace('_', '-')}"
        if name in replaced:
            continue
        if isinstance(value, dict):
            if known is None:
                raise unknown_name(f"section of {file}", name, sections)
            for key, given in value.items():
                each = _known(f"setting of [{name}] in {file}", key, known)
                if isinstance(given, list) and getattr(flags.get(each.flag), "several", False):
                    found[each.dest] = given
                else:
                    what = f"[{name}] in {file}, {key}"
                    found[each.dest] = _read(what, each.read, as_word(given))
        elif known is not None:
            main, own = _with_settings(name, flag, as_word(value), known)
            action = flags[flag]
            found[action.dest] = [main] if getattr(action, "several", False) else main
            found |= {known[key].dest: each for key, each in own.items()}
        elif flag not in flags:
            raise unknown_name(f"option in {file}", flag, flags)
        else:  # which argparse reads
            found[flags[flag].dest] = value if isinstance(value, bool) else as_word(value)
    return found


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


def called(args: argparse.Namespace, name: str, value: object = "...") -> str:
    """Return how the command line gives an option, or a setting in brackets."""
    if name in args.flags:
        return f"{args.flags[name]} {value}".removesuffix(" ...")
    return next((given for _, _, given in _homes(args, name, value)), name)


def _homes(args: argparse.Namespace, name: str, value: object) -> Iterator[tuple[str, str, str]]:
    """Key of a setting, the option in whose brackets it stands, and how it is given there."""
    for section, known in args.sections.items():
        main, *_ = known.values()
        for key, each in known.items():
            if each.dest != name or each.flag or each is main:
                continue
            before = "" if section == "generate" else getattr(args, main.dest)
            before = before if before in ("", *each.of) else each.of[0]
            given = in_brackets(before, {key: value})
            given = given if before else given[1:-1]
            mark = '"' if "'" in given else "'"
            yield key, main.flag or "FILE", f"{main.flag} {mark}{given}{mark}".lstrip()


def setting_for(args: argparse.Namespace, option: str, value: str) -> str | None:
    """Return what to say to who takes a setting for an option; None if none is called so."""
    asked = option.lstrip("-").replace("-", "_")
    names = {each.dest for known in args.sections.values() for each in known.values()}
    settings = sorted(names - args.flags.keys())
    near = [each for each in settings if f"_{asked}".endswith(f"_{each}")]  # as it was called
    if not near and not get_close_matches(asked, [*args.flags], 1, _ALIKE):
        near = get_close_matches(asked, settings, 1, _ALIKE)
    for name in near[:1]:
        for key, flag, given in _homes(args, name, value or "..."):
            return f"{key} is a setting of {flag}: {given}"
    return None


def _given(args: argparse.Namespace) -> Iterator[tuple[str, str, str, Any]]:
    """Section, key, flag and value of what is given."""
    home = {
        each.dest: (section, key)
        for section, known in args.sections.items()
        for key, each in known.items()
    }
    for name in dict.fromkeys([*args.flags, *home]):
        value, flag = getattr(args, name, None), args.flags.get(name, "")
        if not (value is None or (value is False and flag) or flag in _OF_ONE_CALL):
            key = flag.removeprefix("--").replace("-", "_")
            yield *home.get(name, ("", key)), flag, value


def as_words(args: argparse.Namespace, file: str, without: set[str]) -> list[str]:
    """Write options that are given, but for some keys, as words about a workload from a file."""
    words: dict[str, Any] = {"--workload": file}
    inner: dict[str, dict[str, Any]] = {}
    for section, key, flag, value in _given(args):
        if flag and key not in without:
            words[flag] = as_word(value)
        elif not flag and value != file:
            inner.setdefault(f"--{section.replace('_', '-')}", {})[key] = value
    words |= {flag: in_brackets(words.get(flag, ""), own) for flag, own in inner.items()}
    return [word for option in words.items() for word in option]


def as_sections(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are given as a file has them: by themselves, or in a section."""
    found: dict[str, Any] = {}
    for section, key, _, value in _given(args):
        (found.setdefault(section, {}) if section else found)[key] = value
    return found


def as_toml(args: argparse.Namespace) -> str:
    """Write the options that are given as the text of a file that ``--config`` reads."""
    given, lines = as_sections(args), list[str]()
    sections = {name: given.pop(name) for name in args.sections if name in given}
    for section, own in {"": given, **sections}.items():
        lines += ["", f"[{section}]"] * bool(section)
        lines += [f"{key} = {_toml(each)}" for key, each in own.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
