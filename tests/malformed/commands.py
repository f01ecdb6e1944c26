"""Command lines that are right, of which something is then made wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.malformed.files import RIGHT, malformed_file

from apportion.cli import main

if TYPE_CHECKING:
    import random
    from pathlib import Path

_WORDS = (
    *("", " ", "x", "nan", "inf", "-1", "0", "1.5", "1e400", "9" * 30, "v100=", "=1", "v100=1=2"),
    *("v100=-1", "v100=" + "9" * 30, ",", "a,b", "\0", "../..", "/", "é", "--", "-", "yes", "1,x"),
    *(
        "v100=0",
        "v100=1,v100=1",
        "1,1",
        "none",
        "dally",
        "fifo,fifo",
        "fifo_agnostic",
        "\n",
        "[red]",
    ),
)


def right_commands(folder: Path) -> list[list[str]]:
    """Return a command line for every command; files are in the folder."""
    for name, content in RIGHT.items():
        (folder / name).write_text(content)
    out = ["--out", str(folder / "out")]
    files = {name: str(folder / name) for name in RIGHT}
    small = ["--generate", "jobs=2,jobs_per_hour=20,scale_factors=single"]
    drawn = ["--generate-jobs", "2", "--jobs-per-hour", "20", "--scale-factors", "single"]
    quick = ["--policies", "fifo", "--jobs", "1", "--cluster", "v100=2,p100=1,k80=1", *out]
    racks = ["--racks", "1", "--policies", "dally_no_wait", "--jobs", "1", "--generate", "jobs=1"]
    workers = ["--cluster", "v100=1,k80=1"]
    settings = "round_seconds=360,resolve_seconds=0,placement=random,carry_over=yes"
    timing = ["--mechanism", f"rounds({settings})"]
    return [
        [
            "solve",
            files["speeds.csv"],
            *workers,
            "--policy",
            "fifo",
            "--out",
            str(folder / "x.json"),
        ],
        ["solve", files["speeds.csv"], *workers, "--jobs-table", files["table.csv"]],
        ["compare", *small, *quick, *timing, "--seed", "1"],
        ["compare", "--workload", f"{files['itp.csv']}(limit=1)", *quick, "--too-large", "drop"],
        ["compare", *racks, *out, "--mechanism", "(network=none,lease_seconds=3600)"],
        ["sweep", *small, *quick, "--seeds", "0", "--loads", "1", "--dry-run"],
        ["sweep", "--workload", files["jobs.csv"], *quick, "--dry-run", "--format", "csv"],
        ["workload", "describe", files["helios.csv"], "--cluster", "v100=2", "--seed", "0"],
        ["workload", "describe", files["itp.csv"], "--cluster", "a100=2", "--speed", "a100=2.3"],
        ["workload", "describe", f"{files['gavel.trace']}(throughputs={files['oracle.json']})"],
        ["workload", "generate", str(folder / "made.csv"), *drawn, "--kind", "types"],
        ["policies", "--format", "json"],
    ]


def malformed_command(rng: random.Random, folder: Path) -> list[str]:
    """Draw a command line, and make something of it wrong: a word, a file, or its order."""
    words = list(rng.choice(right_commands(folder)))
    for _ in range(rng.choice([1, 1, 2])):
        files = [at for at, word in enumerate(words) if word.rsplit("/", 1)[-1] in RIGHT]
        kind = rng.random()
        if files and kind < 0.5:
            at = rng.choice(files)
            words[at] = str(malformed_file(rng, folder, words[at].rsplit("/", 1)[-1]))
        elif kind < 0.85:
            words[rng.randrange(len(words) > 1, len(words))] = rng.choice(_WORDS)
        elif kind < 0.92:
            words.insert(rng.randrange(1, len(words) + 1), rng.choice(["--nope", "--seed", "x"]))
        else:
            del words[rng.randrange(len(words))]
        words = words or ["policies"]
    return words


def outcome(words: list[str]) -> int:
    """Run a command in this process; a request for help ends as Python programs do."""
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)
