"""``python -m benchmarks.trust``: random problems of all policies against independent oracles.

The oracles are written from the definitions with scipy and Clarabel. Counted by policy: *certified*
(the library says optimal and the oracle agrees), *off* by more than 1e-6, *violated* constraints,
*prices* that do not prove the optimum or are not its derivatives, *inconsistent* objective or
throughput, a *bound* that does not hold, *flagged* by the library itself, *wrong* and not flagged,
*undecided* by the oracle, *failed* with an error. Running it again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from benchmarks.reporting import show, write_csv
from benchmarks.trust.run import names, plan, record, run
from benchmarks.trust.table import counts, is_wrong, worst

QUICK = 209


def main() -> int:
    """Run the cases, print the tables; 1 if anything is wrong and not flagged."""
    options = _options()
    logging.disable(logging.WARNING)  # what the library says of its gaps is in the table
    if options.case:
        return _one(options.case, options.seed)
    cases = plan(QUICK if options.quick else options.problems, options.policies or names())
    file = None if options.quick else options.out / f"seed{options.seed}.jsonl"
    print(f"Seed {options.seed}, {len(cases)} problems")
    lines = run(cases, options.seed, file, options.jobs)
    table = counts(lines)
    show(table, digits=4)
    bad = worst(lines, options.worst)
    if not bad.empty:
        print("\nWrong and not flagged, or failed; --case NAME runs one again:")
        show(bad)
    decades = sorted(line["decades"] for line in lines)
    print(
        f"\nDecades that the data of a problem span: median {decades[len(decades) // 2]:.1f}, ",
        end="",
    )
    print(f"most {decades[-1]:.1f}; '% certified' counts those up to 6.")
    write_csv(table, None if options.quick else options.out, "trust")
    return int(any(is_wrong(line) for line in lines))


def _one(name: str, seed: int) -> int:
    """Run one case again and show both numbers."""
    policy, _, number = name.partition(":")
    line = record(policy, int(number), seed)
    for key, value in line.items():
        print(f"{key:15s} {value}")
    return int(is_wrong(line))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--problems", type=int, default=2000, metavar="N", help="(default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="K", help="processes (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("out/trust"), metavar="DIR")
    parser.add_argument("--policies", nargs="+", choices=names(), help="(default: all)")
    parser.add_argument("--case", metavar="POLICY:NUMBER", help="run one case and show it")
    parser.add_argument("--worst", type=int, default=3, help="cases listed by policy and kind")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} problems, nothing kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
