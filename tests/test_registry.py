from __future__ import annotations

import pickle
from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion import registry
from apportion.errors import InputError
from apportion.policies.registry import POLICIES
from apportion.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def numbers() -> Registry[int]:
    return Registry("number", "example.numbers", {"one": 1, "two": 2}, lambda n: isinstance(n, int))


def test_own_things_are_known_by_their_name(numbers: Registry[int]) -> None:
    numbers["three"] = 3
    assert dict(numbers) == {"one": 1, "two": 2, "three": 3}
    numbers["three"] = 33
    assert numbers.own() == {"three": numbers["three"]} == {"three": 33}
    del numbers["three"]
    assert "three" not in numbers


def test_a_name_has_one_meaning_and_the_right_kind(numbers: Registry[int]) -> None:
    with pytest.raises(InputError, match="already a number 'one'"):
        numbers["one"] = 11
    with pytest.raises(InputError, match="'x' is no number; 'three' must be one"):
        numbers["three"] = "x"  # type: ignore[assignment]
    with pytest.raises(InputError, match="Did you mean 'two'"):
        numbers["twoo"]


@pytest.mark.parametrize("name", ["", " ", " a", "a,b", "a(b=1)", "'a'", 3])
def test_a_name_is_one_that_can_be_given(numbers: Registry[int], name: Any) -> None:
    with pytest.raises(InputError, match="cannot be the name of a number"):
        numbers[name] = 5


def test_policies_and_schedulers_have_different_names() -> None:
    with pytest.raises(InputError, match="already a policy 'fifo'"):
        ap.DECIDERS["fifo"] = ap.get_scheduler("srsf_1")
    with pytest.raises(InputError, match="already a scheduler 'dally'"):
        POLICIES["dally"] = ap.MaxMinFairness


def test_installed_packages_are_asked_for_unknown_names(
    numbers: Registry[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = EntryPoints(
        [
            EntryPoint("maxsize", "sys:maxsize", "example.numbers"),
            EntryPoint("path", "sys:path", "example.numbers"),
            EntryPoint("other", "sys:maxsize", "example.others"),
        ]
    )
    monkeypatch.setattr(registry, "offered", lambda **wanted: offered.select(**wanted))
    assert numbers["maxsize"] > 2**30
    assert "other" not in numbers
    with pytest.raises(InputError, match="already a number 'maxsize'"):
        numbers["maxsize"] = 5
    with pytest.raises(InputError, match="is no number; 'path' must be one"):
        numbers["path"]


def test_what_cannot_be_loaded_names_its_package(
    numbers: Registry[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offered = EntryPoints(
        [
            EntryPoint("absent", "no_such_module:x", "example.numbers"),
            EntryPoint("maxsize", "sys:maxsize", "example.numbers"),
            EntryPoint("path", "sys:path", "example.numbers"),
        ]
    )
    monkeypatch.setattr(registry, "offered", lambda **wanted: offered.select(**wanted))
    with pytest.raises(InputError, match="offers 'no_such_module:x' as the number 'absent', which"):
        numbers["absent"]
    assert list(numbers) == ["one", "two"]
    numbers.load()  # all at once, as for a list: what is wrong is told, the others are there
    assert list(numbers) == ["one", "two", "maxsize"]
    assert numbers.added().keys() == {"maxsize"}
    assert not numbers.own()
    assert "ModuleNotFoundError" in caplog.text
    assert "is no number; 'path' must be one" in caplog.text


def test_what_is_installed_later_is_found(
    numbers: Registry[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was read of installed packages holds until a folder of theirs changes."""
    monkeypatch.syspath_prepend(tmp_path)
    assert "maxsize" not in numbers
    for place, name in enumerate(("maxsize", "hash_width")):
        about = tmp_path / f"late_{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: late-{name}\n")
        value = "sys:maxsize" if place == 0 else "sys:hash_info.width"
        (about / "entry_points.txt").write_text(f"[example.numbers]\n{name} = {value}\n")
        assert numbers[name] > 2
    assert "absent" not in numbers


def test_pickled_it_is_a_reference(numbers: Registry[int]) -> None:
    assert pickle.loads(pickle.dumps(numbers)) is numbers
    assert Registry.all["example.numbers"] is numbers
