"""Settings in brackets and in files are the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from apportion.cli import main
from apportion.cli.parser import parse
from apportion.cli.sections import as_toml
from apportion.errors import InputError
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import settings_of

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ["compare", "sweep"]
TYPES = {"LM (batch size 20)": 60.0, "others": 20.0}


def drawn(name: str, draw: random.Random) -> dict[str, str]:
    """Return words for some of a mechanism's settings."""
    chosen = {}
    for setting in settings_of(MECHANISMS[name]):
        if draw.random() < 0.5:
            continue
        if "bool" in setting.kind:
            chosen[setting.name] = draw.choice(["yes", "no"])
        elif "Mapping" in setting.kind:
            chosen[setting.name] = draw.choice(["7.5", "LM (batch size 20)=60,others=20"])
        elif "float" in setting.kind:
            chosen[setting.name] = repr(draw.uniform(0.0, 1e4))
        else:
            chosen[setting.name] = draw.choice(["a_name", "3600,7200", "file.toml"])
    return chosen


def read(*words: str) -> dict[str, Any]:
    return vars(parse(words)) | {"sections": None}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_brackets_and_a_file_say_the_same(command: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    settings = drawn(name, random.Random(command))
    inner = ", ".join(f"{key}='{value}'" for key, value in settings.items())
    words = [command, "--mechanism", f"{name}({inner})"]
    args = read(*words)
    assert args["mechanism"] == name
    for key, word in settings.items():
        told = {"yes": True, "no": False, "LM (batch size 20)=60,others=20": TYPES}
        assert args[key] == told.get(word, word) or args[key] == pytest.approx(float(word))
    file.write_text(as_toml(parse(words)))
    assert read(command, "--config", str(file)) == args
    if settings:
        assert read(command, "--mechanism", f"({inner})") == args | {"mechanism": None}


def test_options_beside_a_file_take_the_place_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        "seed = 3\npolicies = ['fifo', 'sjf']\n[generate]\njobs = 5\n[cluster]\n"
        "gpus = {v100 = 4, k80 = 8}\n[mechanism]\nname = 'leases'\nlease_seconds = 60\n"
        "preemption_overhead_seconds = {bert = 60, others = 20}\n"
    )
    config = ("compare", "--config", str(file))
    args = parse(config)
    assert (args.seed, args.policies, args.generate_jobs) == (3, "fifo,sjf", 5)
    assert (args.cluster, args.mechanism, args.lease_seconds) == ("v100=4,k80=8", "leases", 60.0)
    assert args.preemption_overhead_seconds == {"bert": 60.0, "others": 20.0}
    other = parse([*config, "--mechanism", "rounds(round_seconds=600)", "--seed", "4"])
    assert (other.mechanism, other.lease_seconds, other.round_seconds) == ("rounds", None, 600.0)
    assert other.seed == 4
    assert parse([*config, "--workload", "a.csv(limit=3)"]).generate_jobs is None
    assert parse([*config, "--workload", "a.csv(limit=3)"]).limit == 3
    assert parse([*config, "--racks", "2"]).cluster is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanism", "leases(lease_second=1)"], "Did you mean 'lease_seconds'?"),
        (["--mechanism", "leases(1800)"], "cannot be read from '1800' on"),
        (["--mechanism", "leases(lease_seconds=1", "--seed", "1"], "Unknown mechanism"),
        (["--generate", "jobs=3,job=4"], "'job'. Did you mean 'jobs'?"),
        (["--mechanism", "leases(lease_seconds=1, lease_seconds=2)"], "lease_seconds twice"),
        (["--mechanism", "rounds(xyz=1)"], "Valid: round_seconds, resolve_seconds"),
        (
            ["--lease-seconds", "60"],
            "lease_seconds is a setting of --mechanism: --mechanism 'leases",
        ),
        (["--workload", "a.csv(limit=3)", "--workload", "b.csv"], "--workload: is given twice"),
        (["--mechanism", "leases(lease_seconds=a)"], "lease_seconds: 'a' must be"),
        (["--generate", "jobs=a"], "jobs: 'a' must be"),
    ],
)
def test_what_cannot_be_read_is_named(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=r".") as error:
        parse(["compare", *words])
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["a (old) [x], 'q' é.csv", "a(1)(2).csv", "-a.csv"])
def test_files_keep_the_brackets_of_their_names(name: str, tmp_path: Path) -> None:
    within = f"{name}(limit=3, throughputs=s (1).csv)"
    args = read("compare", f"--workload={within}")
    assert (args["workload"], args["limit"], args["throughputs"]) == (name, 3, "s (1).csv")
    file = tmp_path / "own.toml"
    for text in (
        f'workload = "{within}"',
        f'[workload]\nfile = "{name}"\nlimit = 3\nthroughputs = "s (1).csv"',
    ):
        file.write_text(text, encoding="utf-8")
        assert read("compare", "--config", str(file)) == args


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["workload", "describe"], ["--cluster", "v100=4"]),
        (["advise", "--seed", "1"], ["--cluster", "v100=4"]),
        (["forecast", "state.json", "--log"], ["--cluster", "v100=4"]),
    ],
)
def test_a_log_takes_brackets_wherever_it_stands(before: list[str], after: list[str]) -> None:
    within = vars(parse([*before, "a (1).csv(limit=3, states=FAILED)", *after]))
    assert (within["limit"], within["states"]) == (3, "FAILED")
    assert "a (1).csv" in within.values()
    with pytest.raises(InputError, match=r"'limt'\. Did you mean 'limit'"):
        parse([*before, "a.csv(limt=3)", *after])


def test_a_name_with_brackets_is_not_garbled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "no such.csv(limit=9)", "--cluster", "v100=1"]) == 2
    assert "no such.csv(limit=9)" in capsys.readouterr().err


def test_a_sweep_takes_several_files_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    by_options = parse(["sweep", "--workload", "a,b.csv", "--workload", "c (1).csv"])
    file.write_text(as_toml(by_options))
    assert parse(["sweep", "--config", str(file)]).workload == ["a,b.csv", "c (1).csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[mechanisms]\nname = 'leases'\n", "Did you mean 'mechanism'?"),
        ("[mechanism]\nlease_second = 1\n", "'lease_second'. Did you mean 'lease_seconds'?"),
        ("lease seconds = 1", "is no TOML"),
        ("jobbs = 1", "'--jobbs'. Did you mean '--jobs'?"),
    ],
)
def test_files_that_cannot_be_read(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(content)
    with pytest.raises(InputError, match=r".") as error:
        parse(["compare", "--config", str(file)])
    assert message in str(error.value)


def test_help_shows_some_twenty_options_and_a_mechanism_its_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            parse([command, "--help"])
        shown = capsys.readouterr().out
        assert shown.count("\n  -") <= 29
        assert len(shown.splitlines()) <= 48  # two screens of 80 by 24
    for name, mechanism in MECHANISMS.items():
        assert main(["policies", name]) == 0
        listed = capsys.readouterr().out
        assert all(f"\n{each.name}: " in listed for each in settings_of(mechanism))
