"""Fingerprints follow all code that a result hangs on, and nothing else."""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import logging
import math
import subprocess
import sys
import threading
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.mechanism.placements.registry import PLACEMENTS
from apportion.registry import Registry
from apportion.sim.fingerprint import content, fingerprint, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTS = {
    "helper": "def helper(x):\n    return x * {0} + len(inner(x))\n",
    "inner": "def inner(x):\n    return [each + {0} for each in range(x)]\n",
    "constant": "LIMIT = {0}\n",
    "table": "TABLE = {{'a': [{0}, 2.5], 'b': ({{3, 4}}, b'x')}}\n",
    "array": "import numpy as np\nARRAY = np.arange(3) + {0}\n",
    "lambda": "rank = lambda x: x - {0}\n",
    "default": "def with_default(x, y={0}, *, z=0):\n    return x + y + z\n",
    "keyword": "def with_keyword(x, *, z={0}):\n    return x + z\n",
    "closure": (
        "def make(k):\n    def made(x):\n        return x + k\n    return made\nmade = make({0})\n"
    ),
    "base": "class Base:\n    step = {0}\n    def scale(self, x):\n        return x * self.step\n",
    "property": "class Has:\n    @property\n    def one(self):\n        return {0}\n",
    "static": "class Static:\n    @staticmethod\n    def two(x):\n        return x + {0}\n",
    "cached": ("import functools\n@functools.lru_cache\ndef cached(x):\n    return x // {0}\n"),
    "wrapped": (
        "import functools\ndef decorate(f):\n    @functools.wraps(f)\n"
        "    def around(*a):\n        return f(*a) + {0}\n    return around\n"
        "@decorate\ndef wrapped(x):\n    return x\n"
    ),
    "partial": "import functools\npart = functools.partial(max, {0})\n",
    "meta": (
        "class Meta(type):\n    def size(cls):\n        return {0}\n"
        "class Made(metaclass=Meta):\n    pass\n"
    ),
    "instance": (
        "class Held:\n    def __init__(self):\n        self.value = {{'k': {0}}}\nheld = Held()\n"
    ),
    "slots": "class Slot:\n    __slots__ = ('v',)\nslot = Slot()\nslot.v = {0}\n",
    "named": (
        "from collections import namedtuple\n"
        "Point = namedtuple('Point', 'a b')\npoint = Point(1, {0})\n"
    ),
    "enum": "import enum\nclass Kind(enum.Enum):\n    A = {0}\n    B = 7\n",
    "dataclass": (
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Data:\n    width: int = {0}\n"
    ),
}
"""Parts of a module, each with a number that an edit changes."""

USE = """
def use(x):
    a = helper(x), LIMIT, TABLE, ARRAY, rank(x), with_default(x), with_keyword(x), made(x)
    b = Sub().scale(x), Has().one, Static.two(x), cached(x), wrapped(x), part(x), Made.size()
    return a, b, held.value, slot.v, point, Kind.A, Data()
class Sub(Base):
    pass
class Rule:
    def __call__(self, x):
        return use(x)
RULE = Rule()
"""
"""Reaches all of them; the root is `RULE`."""


def written(values: dict[str, int], notes: str = "") -> str:
    """Return the source of the module."""
    parts = [notes + text.format(values.get(name, 1)) for name, text in PARTS.items()]
    return "".join(parts) + USE


def loaded(source: str, name: str = "its_own") -> dict[str, Any]:
    """Carry out the source of a module."""
    space: dict[str, Any] = {"__name__": name}
    exec(compile(source, "its_own.py", "exec", dont_inherit=True), space)
    return space


def mark(source: str) -> str:
    return content(loaded(source)["RULE"])


@pytest.mark.parametrize("part", PARTS)
def test_an_edit_of_any_part_that_is_reached_changes_the_digest(part: str) -> None:
    assert mark(written({part: 2})) != mark(written({}))


@pytest.mark.parametrize("seed", each_seed(2, 200))
def test_drawn_edits_change_the_digest_and_what_does_not_matter_does_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = {str(each): int(rng.integers(1, 4)) for each in rng.choice([*PARTS], 6)}
    other = chosen | {str(each): int(rng.integers(1, 4)) for each in rng.choice([*PARTS], 2)}
    same = {**dict.fromkeys(PARTS, 1), **chosen} == {**dict.fromkeys(PARTS, 1), **other}
    assert (mark(written(chosen)) == mark(written(other))) == same
    # Comments, blank lines, other things in the file, and having been called change nothing.
    notes = "".join("\n# note" * int(rng.integers(0, 4))) + "\n"
    unused = "\ndef unused():\n    return 5\nOTHER = 3\n"
    space = loaded(written(chosen, notes) + unused)
    for _ in range(int(rng.integers(0, 30))):
        space["RULE"](3)
    assert content(space["RULE"]) == mark(written(chosen))


def test_docstrings_count_for_nothing() -> None:
    with_docstring = 'def f(x):\n    """{}"""\n    return x + 0.5\nclass C:\n    """{}"""\n'
    first, second = (loaded(with_docstring.format(each, each)) for each in ("one", "two"))
    assert content(first["f"], first["C"]) == content(second["f"], second["C"])


MODULE = """
from __future__ import annotations
import threading
LOCK = threading.Lock()
UNUSED = {unused}
def rank(x):
    return x * {used}
"""
USES = {
    "attribute": "import own_helper\ndef f(x):\n    return own_helper.rank(x)\n",
    "name": "from own_helper import rank\ndef f(x):\n    return rank(x)\n",
    "inside": "def f(x):\n    from own_helper import rank\n    return rank(x)\n",
    "nested": "import own_helper\ndef f(x):\n    return [own_helper.rank(y) for y in x]\n",
    "in lambda": "import own_helper\ndef f(x):\n    return lambda: own_helper.rank(x)\n",
}


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Write a module of one's own, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str, **values: int) -> None:
        sys.modules.pop("own_helper", None)
        (tmp_path / "own_helper.py").write_text(text.format(**values))
        importlib.invalidate_caches()

    yield write
    sys.modules.pop("own_helper", None)


@pytest.mark.parametrize("use", USES)
def test_what_is_taken_from_a_module_of_ones_own_counts_and_the_rest_does_not(
    use: str, helper: Callable[..., None]
) -> None:
    marks = []
    for used, unused in ((1, 1), (1, 2), (2, 2), (1, 1)):
        helper(MODULE, used=used, unused=unused)
        marks.append(content(loaded(USES[use])["f"]))
    assert marks[0] == marks[1] == marks[3] != marks[2]


def test_all_of_a_module_counts_where_it_is_used_as_a_value(helper: Callable[..., None]) -> None:
    source = "import own_helper\ndef f(x):\n    return getattr(own_helper, x)\n"
    marks = []
    for used in (1, 2, 1):
        helper("def rank(x):\n    return x * {used}\n", used=used)
        marks.append(content(loaded(source)["f"]))
    assert marks[0] == marks[2] != marks[1]


def test_no_value_that_differs_has_the_same_digest() -> None:
    values: list[Any] = [
        *(
            None,
            True,
            False,
            0,
            1,
            1.0,
            -0.0,
            0.0,
            math.nan,
            math.inf,
            1j,
            "",
            "1",
            b"1",
            ...,
            [],
            (),
        ),
        *(
            {},
            set(),
            frozenset(),
            [1],
            (1,),
            {1},
            frozenset({1}),
            {1: 2},
            {2: 1},
            [[1], 2],
            [1, [2]],
        ),
        *([1, 2], {1: 2, 3: 4}, {3: 4, 1: 2}, "[]", np.arange(2), np.arange(2.0), np.zeros((2, 1))),
        *(np.zeros((1, 2)), np.float64(1), np.float32(1), np.array(["a", None], dtype=object)),
        *(
            int,
            float,
            len,
            max,
            math.sin,
            math.cos,
            np.add,
            np.sin,
            str.upper,
            "a".upper,
            "b".upper,
        ),
        *(
            math,
            itertools,
            functools.partial(max, 1),
            functools.partial(min, 1),
            range(3),
            range(4),
        ),
        *(types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), slice(1), ap.Cluster({"a": 1})),
        *(ap.Cluster({"a": 2}), ap.get_policy("fifo"), ap.get_policy("makespan"), np.mean, np.sum),
    ]
    marks = [content(value) for value in values]
    alike = [
        (values[i], values[k])
        for i, k in itertools.combinations(range(len(values)), 2)
        if marks[i] == marks[k]
    ]
    assert alike == []
    assert [content(value) for value in values] == marks


def test_a_circle_is_gone_through_once() -> None:
    first: list[Any] = [1]
    first.append(first)
    second: list[Any] = [2]
    second.append(second)
    assert content(first) != content(second)


@dataclass
class _Holds:
    thing: Any
    notes: list[int] = field(default_factory=list)

    @functools.cached_property
    def worked_out(self) -> int:
        return len(self.notes)


def test_what_an_object_has_worked_out_counts_for_nothing() -> None:
    holds = _Holds(1)
    before = content(holds)
    assert holds.worked_out == 0
    assert content(holds) == before != content(_Holds(2))


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(threading.Lock(), id="lock"),
        pytest.param((each for each in "a"), id="generator"),
        pytest.param(np.frompyfunc(lambda x: x, 1, 1), id="ufunc"),
        pytest.param(ctypes.CDLL(None), id="library"),
    ],
)
def test_what_cannot_be_told_is_never_the_same_and_is_said_once(
    thing: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apportion.sim.fingerprint._SAID", set[str]())
    with caplog.at_level(logging.WARNING):
        assert len({content(_Holds(thing)) for _ in range(3)}) == 3
    (line,) = caplog.messages
    assert line.startswith("Nobody can tell whether thing is as it was (")
    assert "\n" not in line


def test_a_registered_part_counts_where_its_name_is_met() -> None:
    def placement(number: int) -> type[Any]:
        from apportion.mechanism.placements import Strategy

        class Own(Strategy):
            name = "own_placement"

            def choose(self, gang: Any, devices: Any) -> Any:
                return number

        return Own

    marks = []
    for number in (1, 2, 1):
        PLACEMENTS["own_placement"] = placement(number)
        settings = {"placement": "own_placement"}
        marks.append((content(settings), content({"placement": "packed"}), content(PLACEMENTS)))
        del PLACEMENTS["own_placement"]
    assert marks[0][0] == marks[2][0] != marks[1][0]
    assert marks[0][2] == marks[2][2] != marks[1][2]
    assert len({others for _, others, _ in marks}) == 1


@pytest.mark.parametrize(
    "named",
    [
        *("asked.csv", "asked.csv(gpus=8)"),
        *(Path("asked.csv"), {"serving": ("asked.csv", 3)}, ap.Configurations(serving="asked.csv")),
        types.SimpleNamespace(table="asked.csv"),
    ],
    ids=repr,
)
def test_a_file_counts_by_what_it_holds_where_it_is_named(
    named: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    marks = []
    for held in ("a\n1\n", "a\n2\n", "a\n1\n"):
        Path("asked.csv").write_text(held)
        marks.append((content(named), content(1, names=["asked.csv"])))
    assert marks[0] == marks[2]
    assert marks[0][0] != marks[1][0]
    assert marks[0][1] == marks[1][1]
    Path("beside.csv").write_text("a\n3\n")
    assert content(named) == marks[0][0]
    Path("asked.csv").unlink()
    assert content(named) not in {mark for mark, _ in marks}


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, each in Registry.all.items() for name in each]
)
def test_all_that_comes_with_the_package_can_be_told(group: str, name: str) -> None:
    part = Registry.all[group][name]
    assert content(part) == content(part)


def test_every_policy_can_be_told_from_every_other() -> None:
    names = list(ap.policy_table()["name"])
    marks = [content(ap.get_policy(name)) for name in names]
    assert marks == [content(ap.get_policy(name)) for name in names]
    assert len(set(marks)) == len(names)


RESTARTED = """
import sys, random
sys.path.insert(0, sys.argv[1])
from tests.sim.fingerprints.test_content import loaded, written
from apportion.sim.fingerprint import fingerprint
import apportion as ap
print(fingerprint(loaded(written({}))["RULE"], {"a", "b", "c"}, ap.get_policy("makespan")))
"""


@pytest.mark.thorough
def test_a_restart_changes_nothing() -> None:
    root = __file__.rpartition("/tests/")[0]
    done = subprocess.run(
        [sys.executable, "-c", RESTARTED, root],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    here = fingerprint(loaded(written({}))["RULE"], {"a", "b", "c"}, ap.get_policy("makespan"))
    assert done.stdout.strip() == here
    assert len(program()) == 64
