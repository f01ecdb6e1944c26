from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from tests.in_process import run_command

from apportion import __version__
from apportion.cli.parser import parse, whole_parser
from apportion.errors import InputError


def test_the_doctor_says_what_is_here_and_that_it_works() -> None:
    said = run_command(["doctor"]).out
    assert said.startswith(f"apportion {__version__}, Python {sys.version.split()[0]}")
    rows = [line.split() for line in said.splitlines()]
    for package in ("cvxpy", "highspy", "numpy"):
        assert [package, version(package)] in rows
    assert "HIGHS" in said
    assert "CLARABEL" in said
    assert "all is well" in said
    assert max(map(len, said.splitlines())) <= 100


def test_the_doctor_names_the_extra_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "apportion.cli.installed.find_spec", lambda name: None if name == "ray" else 1
    )
    assert "missing ray: pip install 'apportion[ray]'" in run_command(["doctor"]).out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(shell: str) -> None:
    pytest.importorskip("shtab")
    script = run_command(["completion", shell]).out
    _, commands, _ = whole_parser()
    assert [name for name in commands.choices if name not in script] == []
    assert "--gpus-per-machine" in script
    assert "--workers" not in script  # what once was a name is not offered
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_bash_completes_a_command_and_an_option() -> None:
    pytest.importorskip("shtab")
    script = run_command(["completion", "bash"]).out
    asked = """
COMP_WORDS=(apportion solve --clu); COMP_CWORD=2; _shtab_apportion; echo "${COMPREPLY[@]}"
COMP_WORDS=(apportion comp); COMP_CWORD=1; _shtab_apportion; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(
        ["bash", "-c", script + asked], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["--cluster", "compare completion"]


def test_an_option_is_found_by_what_it_was_called() -> None:
    assert parse(["solve", "x.csv", "--workers", "v100=1"]).workers == "v100=1"
    assert parse(["solve", "x.csv", "--cluster", "v100=1"]).workers == "v100=1"
    assert parse(["policies", "--json"]).format == "json"
    assert parse(["serve", "r.csv", "--gpus-per-node", "8"]).gpus_per_node == 8
    with pytest.raises(InputError, match="Unknown shell 'fish'"):
        parse(["completion", "fish"])
