"""Jobs come and go: a session solves again what changed, and says how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apportion as ap

if TYPE_CHECKING:
    from apportion.policies import Session

STEPS_PER_S = {
    "resnet": {"v100": 40.0, "p100": 22.0, "k80": 10.0},
    "transformer": {"v100": 12.0, "p100": 4.0, "k80": 1.0},
    "a3c": {"v100": 100.0, "p100": 51.0, "k80": 25.0},
}
CLUSTER = "v100=4,p100=8,k80=16"


def main() -> None:
    with ap.session("max_min_fairness", CLUSTER) as session:
        session.add(
            {
                f"{model}-{place}": speeds
                for model, speeds in STEPS_PER_S.items()
                for place in range(20)
            }
        )
        show("60 jobs", session)
        session.add({"resnet-20": STEPS_PER_S["resnet"]})
        show("one more resnet", session)
        session.remove([f"a3c-{place}" for place in range(20)])
        show("no a3c left", session)
        session.add({"a3c-new": STEPS_PER_S["a3c"]}, {"a3c-new": {"weight": 2.0}})
        show("an a3c of weight 2", session)
        last = session.solve()
    print("\nShares of the last three jobs:")
    print(last.X.tail(3).round(3).to_string())


def show(what: str, session: Session) -> None:
    """Solve, and print the objective and which way it was found."""
    found = session.solve()
    print(
        f"{what + ':':20s}{len(session):3d} jobs, {found.stats['classes']} classes, least share "
        f"{found.objective:.4f}, gap {found.gap:.0e}, {found.stats['path']}"
    )


if __name__ == "__main__":
    main()
