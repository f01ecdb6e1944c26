"""What came of the cases: counts by policy, and the worst."""

from __future__ import annotations

from typing import Any

import pandas as pd

KINDS = ("off", "violated", "prices", "inconsistent", "bound", "order")
WITHIN_DECADES = 6.0


def counts(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """Count outcomes by policy, with a total."""
    policies = list(dict.fromkeys(line["policy"] for line in lines))
    rows = [_row(name, [line for line in lines if line["policy"] == name]) for name in policies]
    return pd.DataFrame([*rows, _row("all", lines)])


def _row(name: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    answered = [line for line in lines if line["outcome"] == "answered"]
    near = [line for line in lines if line["decades"] <= WITHIN_DECADES]
    fine = sum(bool(line.get("certified")) for line in near)
    return {
        "policy": name,
        "problems": len(lines),
        "solved": len(answered),
        "certified": sum(line["certified"] for line in answered),
        **{kind: sum(kind in line["faults"] for line in answered) for kind in KINDS},
        "flagged": sum(line["flagged"] for line in answered),
        "wrong": sum(line["wrong"] for line in answered),
        "undecided": sum(bool(line["undecided"]) for line in answered),
        "failed": len(lines) - len(answered),
        "% certified": round(100 * fine / max(len(near), 1), 2),
    }


def is_wrong(line: dict[str, Any]) -> bool:
    """Whether a user of this answer is misled, or has none."""
    return line["outcome"] == "failed" or bool(line["wrong"])


def _asked(line: dict[str, Any]) -> str:
    words = [line["shape"], line["route"], *line["options"], *line["arguments"]]
    return ", ".join([" ".join(words), *line["traits"]])


def worst(lines: list[dict[str, Any]], most: int) -> pd.DataFrame:
    """List cases that are wrong and not flagged, by policy and kind, the largest first."""
    bad = [line for line in lines if is_wrong(line)]
    rows = []
    for line in bad:
        faults = line.get("faults") or {"failed": 1.0}
        kind = max(faults, key=lambda name: faults[name])
        rows.append(
            {
                "case": f"{line['policy']}:{line['number']}",
                "kind": kind,
                "size": faults[kind],
                "jobs": line["jobs"],
                "decades": line["decades"],
                "asked": " ".join(
                    [line["shape"], line["route"], *line["options"], *line["arguments"]]
                )
                + "".join(f", {trait}" for trait in line["traits"]),
                "note": "; ".join(line["notes"])[:150],
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    table["policy"] = table["case"].str.split(":").str[0]
    table = table.sort_values("size", ascending=False, kind="stable")
    table = table.groupby(["policy", "kind"], sort=False).head(most)
    return table.sort_values(["policy", "kind"], kind="stable").drop(columns="policy")
