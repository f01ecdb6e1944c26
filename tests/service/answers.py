"""Answers held to the published schema, by a reader of JSON Schema that is not ours."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from apportion.service.answers import json_schema


@cache
def validator() -> Any:
    schema = json_schema()
    whole = {"$ref": "#/$defs/answer", "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def fits(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that is of exactly one of the published types."""
    validator().validate(json.loads(json.dumps(answer, allow_nan=False)))
    return answer
