"""``python -m benchmarks.readability [--at COMMIT]``: how READMEs and docs read, in figures.

For each page: words, sentences, the mean and 90th percentile of words a sentence, sentences of more
than 30 words, and terms of the glossary that stand there before they are explained, a thousand
words. ``--at`` measures the pages of an earlier commit; ``--longest`` lists the longest sentences.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.reporting import show

ROOT = Path(__file__).parents[1]
LONG = 30
PLACES = ("README.md", "docs", "benchmarks")
JARGON = (
    *("water filling", "lexicographic", "certificate", "gang", "tier", "lease", "duty cycle"),
    *("dual value", "kappa", "goodput", "entity", "entities", "space sharing", "agnostic"),
    *("carry over", "warm", "gate", "rotation", "affinity graph", "incommensurate", "matching"),
    *("second stage", "first stage", "mechanism", "decider", "tensor", "row", "class of"),
)
"""Words that only those know who have read the papers, or the code."""


def prose(text: str) -> str:
    """Give what is read as sentences: no code, tables, headings, formulas, marks."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    lines = [
        "" if re.match(r"\s*(#|\||!\[|    \S|<)", line) else line for line in text.splitlines()
    ]
    text = "\n".join(re.sub(r"^\s*([-*]|\d+\.) ", "\n\n", line) for line in lines)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    return re.sub(r"[*_]", "", text)


def sentences(text: str) -> list[str]:
    """Split a page into sentences; a paragraph, or an item of a list, ends one."""
    found = []
    for paragraph in re.split(r"\n\s*\n", prose(text)):
        flat = " ".join(paragraph.split())
        parts = re.split(r"(?<=[.!?:;])\s+(?=[A-Z\"(c])", flat)
        found += [part for part in parts if len(part.split()) > 2]
    return found


def measured(text: str) -> dict[str, float]:
    """Give the figures of a page."""
    lengths = np.array([len(each.split()) for each in sentences(text)] or [0])
    words = int(lengths.sum())
    low = prose(text).lower()
    jargon = sum(len(re.findall(rf"\b{re.escape(word)}s?\b", low)) for word in JARGON)
    return {
        "words": words,
        "sentences": len(lengths),
        "mean": float(lengths.mean()),
        "p90": float(np.percentile(lengths, 90)),
        f"> {LONG}": int((lengths > LONG).sum()),
        "jargon/1000": 1000 * jargon / max(1, words),
    }


def pages_at(commit: str | None) -> dict[str, str]:
    """Give READMEs and the pages of docs by path, as they are or as they were at a commit."""
    if commit is None:
        files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        files += sorted((ROOT / "benchmarks").rglob("README.md"))
        kept = [file for file in files if file.parent.name != "generated"]
        return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in kept}

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout

    listed = git("ls-tree", "-r", "--name-only", commit, *PLACES).split()
    pages = [name for name in listed if name.endswith(".md")]
    return {name: git("show", f"{commit}:{name}") for name in pages}


def main() -> None:
    """Print the figures of each page, and of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readability", description=__doc__)
    parser.add_argument("--at", metavar="COMMIT", help="(default: the pages as they are)")
    parser.add_argument("--longest", type=int, metavar="N", help="list the N longest sentences")
    parser.add_argument("--quick", action="store_true", help="the same; it takes a second")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write readability.csv there")
    options = parser.parse_args()
    pages = pages_at(options.at)
    rows = [{"page": name, **measured(text)} for name, text in pages.items()]
    for place in PLACES[1:]:
        whole = "\n\n".join(text for name, text in pages.items() if name.startswith(place))
        rows.append({"page": f"{place}, all", **measured(whole)})
    table = pd.DataFrame(rows)
    show(table)
    if options.longest:
        found = [(len(s.split()), name, s) for name, text in pages.items() for s in sentences(text)]
        for words, name, sentence in sorted(found, reverse=True)[: options.longest]:
            print(f"\n{words} words, {name}: {sentence}")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.out / "readability.csv", index=False)


if __name__ == "__main__":
    main()
