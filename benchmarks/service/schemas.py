"""Exports held to the schemas of the systems that read them.

``python -m benchmarks.service.schemas CRD.yaml ...`` takes the custom resource definitions of Kueue
(cluster queues, local queues, resource flavors), KAI and Volcano (queues), from their repositories,
and holds 200 drawn exports to the schema of each kind and version.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import yaml

from apportion.exports import kai_queues, kueue_objects, volcano_queues

DRAWS = 200


def main() -> None:
    """Read the schemas, and count the objects that fit them."""
    schemas: dict[tuple[str, str], Any] = {}
    for path in sys.argv[1:]:
        for content in yaml.safe_load_all(Path(path).read_text(encoding="utf-8")):
            spec = content["spec"]
            for version in spec["versions"]:
                name = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                schemas[name] = closed(version["schema"]["openAPIV3Schema"])
    counts: dict[tuple[str, str], int] = {}
    for each in drawn_objects():
        name = each["apiVersion"], each["kind"]
        if name in schemas:
            jsonschema.validate(each, schemas[name])
            counts[name] = counts.get(name, 0) + 1
    for (version, kind), count in counts.items():
        print(f"{version} {kind}: {count} objects fit the schema")
    if not counts:
        raise SystemExit("None of the files defines a kind that is exported.")


def closed(schema: Any) -> Any:
    """Refuse fields that a schema does not name, as the API server does."""
    if not isinstance(schema, dict):
        return schema
    inside = {
        name: {k: closed(v) for k, v in each.items()} if name == "properties" else closed(each)
        for name, each in schema.items()
    }
    if "properties" in inside and "additionalProperties" not in inside:
        inside["additionalProperties"] = False
    return inside


def drawn_objects() -> list[dict[str, Any]]:
    """Return exports of drawn quotas."""
    rng, found = np.random.default_rng(0), []
    for draw in range(DRAWS):
        groups = [f"Team {draw} {k}" for k in range(rng.integers(1, 6))]
        counts = rng.integers(0, 50, size=(len(groups), 3))
        gpus = pd.DataFrame(counts, groups, ["v100", "a100-80", "k80"])
        weights = dict.fromkeys(groups, float(rng.integers(1, 5)))
        found += kueue_objects(gpus, weights=weights if draw % 2 else None)
        found += [*kai_queues(gpus, weights=weights), *volcano_queues(gpus, weights=weights)]
    return found


if __name__ == "__main__":
    main()
