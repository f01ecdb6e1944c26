"""Whatever a file of a user holds, a command says in one line what is wrong with it."""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path

import pytest

import apportion as ap
from apportion.cli import main

ROOT = Path(__file__).parents[1]

NO_TEXT = {
    "latin-1": "job_type,v100\ncafé,3\n".encode("latin-1"),
    "utf-16": "job_type,v100\na,1\n".encode("utf-16"),
    "zeros": b"\0\0\0",
    "nothing": b"",
    "half of a gzip": gzip.compress(b"job_type,v100\n" + b"a,1\n" * 1000)[:40],
    "zip": b"PK\x03\x04" + b"a" * 100,
}
NO_TABLE = {
    "ragged": b"job_type,v100\na,1,2,3\nb,1\nc,1,2,3,4,5\n",
    "quote": b'job_type,v100\n"a,1\n',
    "column twice": b"job_type,v100,v100\na,1,2\n",
    "row twice": b"job_type,v100\na,1\na,2\n",
    "a word": b"job_type,v100\na,x\n",
    "below 0": b"job_type,v100\na,-1\n",
    "no end": b"job_type,v100\na,inf\n",
    "no rows": b"job_type,v100\n",
    "no name": b"job_type,v100\n,1\n",
}
NO_OBJECT = {
    "brackets": b"[" * 100_000,
    "digits": b'{"a": ' + b"9" * 100_000 + b"}",
    "digits in TOML": b"a = " + b"9" * 100_000,
    "list": b"[1, 2]",
    "half": b'{"a": 1,\n "b":',
}
TABLES = {
    "references": ("decide", "--cluster", "v100=1", "--references", "FILE"),
    "throughputs": ("solve", "FILE", "--cluster", "v100=1"),
    "overheads": ("compare", "--cluster", "v100=1", "--start-costs", "FILE"),
}
OBJECTS = {
    "config": ("compare", "--config", "FILE.toml"),
    "recorded": ("compare", "--config", "FILE.json"),
    "topology": (
        "compare",
        "--cluster",
        "a100=24",
        "--mechanism",
        "(network=phases,topology=FILE.toml)",
    ),
    "state": ("forecast", "FILE", "--cluster", "v100=1", "--log", "LOG"),
}


def refusal(
    words: tuple[str, ...], content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return what a command says to a file of its options, in one line that names the file."""
    named = re.search(r"FILE(\.\w+)?", " ".join(words))
    ending = (named and named[1]) or ".csv"
    file = folder / f"given{ending}"
    file.write_bytes(content)
    log = folder / "log.csv"
    log.write_text("job,arrival_s,total_steps,scale_factor,job_type\na,0,60,1,A3C\n")
    put = {"LOG": str(log), f"FILE{ending}": str(file), "FILE": str(file)}
    given = [re.sub(rf"LOG|FILE({ending})?", lambda found: put[found[0]], word) for word in words]
    try:
        status = main(given)
    except SystemExit as stopped:  # of an option that argparse reads
        status = stopped.code  # type: ignore[assignment]
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert status == 2, said
    assert file.name in said
    return said


@pytest.mark.parametrize("content", NO_TEXT.values(), ids=NO_TEXT)
@pytest.mark.parametrize("door", [*TABLES, "config", "recorded", "topology", "state", "token"])
def test_what_is_no_text_is_refused_at_every_door(
    door: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = ("decide", "--cluster", "v100=1", "--http", "1", "--token-file", "FILE")
    words = {**TABLES, **OBJECTS, "token": token}[door]
    if door == "token":
        pytest.importorskip("fastapi")
        pytest.importorskip("prometheus_client")
    if door == "config" and not content:
        return  # an empty file asks for nothing
    refusal(words, content, tmp_path, capsys)


@pytest.mark.parametrize("content", NO_TABLE.values(), ids=NO_TABLE)
def test_references_that_are_no_table_of_speeds_are_refused(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal(TABLES["references"], content, tmp_path, capsys)


@pytest.mark.parametrize("content", NO_OBJECT.values(), ids=NO_OBJECT)
@pytest.mark.parametrize("door", ["config", "recorded", "topology", "state"])
def test_files_of_settings_and_states_that_are_none_are_refused(
    door: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal(OBJECTS[door], content, tmp_path, capsys)


def test_the_line_is_the_line_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    above = b"# one\n\n# three\n"
    latin = refusal(TABLES["references"], above + NO_TEXT["latin-1"], tmp_path, capsys)
    assert "line 5" in latin
    assert "UTF-8" in latin
    settings = refusal(OBJECTS["config"], above + b"seed = 1\nseed = 2\n", tmp_path, capsys)
    assert "line 5" in settings
    file = tmp_path / "allocation.json"
    file.write_bytes(b'{"X": 1,\n\n "gap" 0}')
    with pytest.raises(ap.InputError, match=r"allocation\.json, line 3"):
        ap.Allocation.from_json(file)


INSIDE = {
    # what the package has written for itself, or what was installed with it
    "src/apportion/whole_files.py",
    "src/apportion/experiments/machine/leases.py",
    "src/apportion/experiments/machine/cells.py",
    "src/apportion/experiments/machine/store.py",
    "src/apportion/service/store.py",
    "sim/fingerprint.py",
    "sim/job_types.py",
    # what checks by itself: schedules of any size, lines of the service
    "sim/schedule_files.py",
    "src/apportion/service/lines.py",
    # the readers
    "src/apportion/text_files.py",
    "sim/traces/table.py",
}
FUNCTIONS = {
    *("pd.read_csv", "pd.read_table", "pd.read_json", "pd.read_parquet", "pd.read_excel"),
    *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "csv.DictReader"),
    *("np.loadtxt", "np.genfromtxt", "open", "yaml.safe_load"),
}
METHODS = {"read_text", "read_bytes"}


def test_text_from_outside_is_read_by_the_checked_readers_only() -> None:
    found = set()
    for folder in ("src/apportion", "policies", "mechanism", "estimators", "sim"):
        for file in (ROOT / folder).rglob("*.py"):
            if any(link.is_symlink() for link in file.parents):
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func)
                    if name in FUNCTIONS or (name.rpartition(".")[2] in METHODS and "." in name):
                        found.add((str(file.relative_to(ROOT)), name))
    outside = {(file, name) for file, name in found if file not in INSIDE}
    assert outside == {("src/apportion/cli/for_schedulers.py", "open")}  # the standard input
    assert {file for file, _ in found} >= INSIDE
