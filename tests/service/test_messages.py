"""Messages that are none: refused in words, by line, and nothing changes."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

from apportion.errors import InputError
from apportion.service import DecisionService
from apportion.service.answers import json_schema
from apportion.service.lines import answer_lines
from apportion.service.messages import MESSAGES, read_message

ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1.5,
        1e300,
        "",
        "x",
        "a" * 300,
        [],
        [1],
        ["a", "a"],
        {},
        {"": 1},
        {"a": {}},
    ),
    *({"a": {"throughputs": []}}, {"a": {"throughputs": {"v100": -1}}}, {"v100": 1.5}, [[]]),
    *({"a": {"weight": [1]}}, {"a": 1}, {"v100": True}, [""]),
]


def odd_message(rng: np.random.Generator, valid: dict[str, Any]) -> dict[str, Any]:
    """Return a valid message with one thing about it changed."""
    message = dict(valid)
    name = str(rng.choice([*message, "jobs", "extra", "at_s", "v"]))
    if rng.random() < 0.3:
        message.pop(name, None)
    else:
        message[name] = ODD[rng.integers(len(ODD))]
    return message


@pytest.mark.thorough
def test_messages_are_checked_as_their_schema_says() -> None:
    """Held to another reader of the same schema."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    rng = np.random.default_rng(1)
    valid = drawn_messages(2, 60, asks=("decide", "explain", "state", "health"))
    for message in valid:
        assert validator.is_valid(message)
        read_message(message)
    told_apart = {True: 0, False: 0}
    for _ in range(2000):
        message = odd_message(rng, valid[rng.integers(len(valid))])
        try:
            read_message(message)
            taken = True
        except InputError:
            taken = False
        told_apart[taken] += 1
        assert validator.is_valid(message) == taken, message
    assert min(told_apart.values()) > 100


def test_what_is_refused_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    valid = drawn_messages(4, 300)
    refused = 0
    with DecisionService("max_min_fairness", CLUSTER) as service:
        for message in valid:
            before = json.dumps(service.answer({"op": "state"}))
            odd = odd_message(rng, message)
            odd.pop("id", None)
            answer = service.answer(odd)
            fits(answer)
            if not answer["ok"]:
                refused += 1
                assert len(answer["error"]) > 10
                assert json.dumps(service.answer({"op": "state"})) == before
            service.answer(message)
    assert refused > 50


def test_lines_are_answered_in_order_and_by_number() -> None:
    lines = [
        b'{"op": "health", "id": "one"}',
        b"",
        b"no json",
        b'{"op": "add", "jobs": {"a": {"throughputs": {"v100": NaN}}}}',
        b'{"op": "health", "op": "health"}',
        b"[" * 100_000,
        b'"text"',
        b"\xff\xfe",
        b'{"op": "add", "jobs": {"a": {"throughputs": {"w100": 1}}}}',
        b'{"op": "health"}',
    ]
    told, answers = io.BytesIO(b"\n".join(lines)), io.StringIO()
    with DecisionService("fifo", "v100=1") as service:
        answer_lines(service, told, answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [each["line"] for each in found] == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [each["ok"] for each in found] == [True, *[False] * 7, True]
    assert "accelerator of job 'a' 'w100'. Valid: v100." in found[7]["error"]
    assert "stands twice" in found[3]["error"]


@pytest.mark.parametrize("filling", [b"x", b" "])
def test_a_line_without_end_is_refused_and_the_next_one_read(
    filling: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apportion.service import lines

    monkeypatch.setattr(lines, "LONGEST_LINE", 100)
    told = io.BytesIO(filling * 1000 + b"\n" + b'{"op": "health"}\n')
    answers = io.StringIO()
    with DecisionService("fifo", "v100=1") as service:
        answer_lines(service, told, answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [(each["line"], each["ok"]) for each in found] == [(1, False), (2, True)]


def test_a_message_sent_twice_counts_once() -> None:
    with DecisionService("fifo", "v100=2") as service:
        message = {"op": "add", "id": "x", "jobs": {"a": {"throughputs": {"v100": 1}}}}
        first = service.answer(message)
        assert service.answer(message) == first
        assert service.answer({**message, "id": "y"})["ok"] is False
        assert service.health()["repeated"] == 1


def test_every_kind_of_message_is_answered() -> None:
    with DecisionService("fifo", "v100=2") as service:
        service.answer({"op": "add", "jobs": {"a": {"throughputs": {"v100": 1}}}})
        fields: dict[str, dict[str, Any]] = {
            "add": {"jobs": {"b": {"throughputs": {"v100": 1}}}},
            "update": {"jobs": {"a": {"weight": 2}}},
            "remove": {"jobs": ["b"]},
            "observe": {"job": "a", "accelerator": "v100", "steps": 1, "seconds": 1},
            "cluster": {"gpus": {"v100": 1}},
            "explain": {"job": "a"},
        }
        also = {"decide": ["decision"], "explain": ["explanation"]}
        also |= {op: [op] for op in ("state", "health")}
        for op in MESSAGES:
            answer = service.answer({"op": op, **fields.get(op, {})})
            assert answer["ok"], answer
            assert set(fits(answer)) == {"v", "ok", "id", "number", *also.get(op, [])}


def test_a_column_called_as_a_type_is_a_throughput() -> None:
    """In either message; a policy that reads such a column has it."""
    with DecisionService("max_min_fairness", "h100=1,a100=1") as service:
        ana = {"throughputs": {"a100": 18.0}, "h100": 40.0}
        assert service.answer({"op": "add", "jobs": {"ana": ana}, "at_s": 0})["ok"]
        assert service.answer({"op": "update", "jobs": {"ana": {"h100": 4.0}}, "at_s": 1})["ok"]
        decided = service.answer({"op": "decide", "at_s": 2})["decision"]
        assert decided["shares"]["ana"] == {"time": {"a100": 1.0}, "steps_per_s": 18.0}
        state = service.answer({"op": "state"})["state"]
        assert state["throughputs"] == {"ana": {"a100": 18.0, "h100": 4.0}}
        assert "h100" not in state["facts"]["ana"]
        for wrong, said in (
            ({"h100": "fast"}, "on h100 must be of type number"),
            ({"h100": None}, "on h100 must be of type number"),
            ({"h100": 1.0, "throughputs": {"h100": 2.0}}, "two speeds on 'h100'"),
            ({"H100": 4.0}, "column 'H100', and 'h100' is an accelerator type"),
            ({"b200": 4.0}, "Unknown accelerator of job 'ana' 'b200'"),
            ({"priority_weight": 2.0}, "Did you mean 'weight'"),
            ({"SLO": 2.0}, "Did you mean 'deadline_s'"),
        ):
            answer = service.answer({"op": "update", "jobs": {"ana": wrong}, "at_s": 3})
            assert not answer["ok"]
            assert said in answer["error"]
        assert service.answer({"op": "state"})["state"] == state
