"""What workloads say of themselves where they are printed."""

from __future__ import annotations

import apportion as ap


def test_a_line_each() -> None:
    rigid = ap.generate_workload(jobs=3, seed=1)
    kinds = rigid.jobs["job_type"].nunique()
    assert repr(rigid) == f"<Workload {rigid.name}: 3 jobs of {kinds} types, on v100, p100, k80>"
    elastic = ap.generate_elastic_workload(jobs=2, seed=0)
    trained = ", ".join(sorted(set(elastic.jobs["application"])))
    assert repr(elastic) == f"<ElasticWorkload elastic: 2 jobs, which train {trained}>"
