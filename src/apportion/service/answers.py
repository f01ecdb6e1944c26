"""What a decision service answers, as JSON Schema: a type for each kind of answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.service.messages import COLUMNS, FORMAT, MESSAGES, OWN_COLUMN, messages_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

_NUMBER: Schema = {"type": "number"}
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TRUTH: Schema = {"type": "boolean"}
_MAYBE: Schema = {"type": ["number", "null"]}


def _of(schema: Mapping[str, Any], text: str) -> Schema:
    return {**schema, "description": text}


def _list(items: Mapping[str, Any]) -> Schema:
    return {"type": "array", "items": dict(items)}


def _by(values: Mapping[str, Any]) -> Schema:
    """Objects whose names are jobs or accelerators."""
    return {"type": "object", "additionalProperties": dict(values)}


def _object(text: str, *left_out: str, **fields: Mapping[str, Any]) -> Schema:
    """Return an object with these fields and no others; `left_out` need not be there."""
    return {
        "type": "object",
        "description": text,
        "properties": {name: dict(each) for name, each in fields.items()},
        "required": [name for name in fields if name not in left_out],
        "additionalProperties": False,
    }


_JOBS = _list(_TEXT)
_AGE: dict[str, Schema] = {
    "of_number": _of(_COUNT, "number of the last message that it knows of; 0: there was none yet"),
    "age_s": _of(_MAYBE, "seconds since then, by the times of the messages"),
    "late": _of(
        _TRUTH,
        "true: there was none in time, and this is the last one; a decision about devices that "
        "still stands is not late",
    ),
}
_STATUS = _of(_TEXT, "how well it is certified: optimal, ...; nobody where nobody can run")
_GAP = _of(_MAYBE, "certified relative distance of the objective from the optimum")
_CANNOT = _of(_JOBS, "jobs for which there are no GPUs, however free")
_VALID = _of(
    _MAYBE,
    "ask again after so many seconds, or after add, update, remove or cluster; null: only then. "
    "Asked before, the same decision stands",
)
_HELD: dict[str, Schema] = {
    "accelerator": _TEXT,
    "devices": _of(_list(_COUNT), "their numbers, from 0 within a type"),
}


def answer_types(refs: str = "#/$defs/") -> dict[str, Schema]:
    """Return the types of answers by name, with ``answer`` for any of them.

    Parameters
    ----------
    refs
        Where they stand, for references among them.
    """
    return {
        "answer": {"oneOf": [{"$ref": f"{refs}{name}"} for name in _answers(refs)]},
        **_answers(refs),
        **_decisions(),
        **_explanations(),
        "state": _state(),
        "health": _health(),
    }


def _answers(refs: str) -> dict[str, Schema]:
    """Return one type for each kind of message, and one for what is refused."""
    every = {
        "v": {"const": FORMAT},
        "id": _of({"type": ["string", "null"]}, "of the message"),
        "line": _of(
            _COUNT,
            "line of the message, from 1, in what this process reads; a message that is sent again "
            "has another, and for the rest the same answer",
        ),
    }

    def good(text: str, **more: Mapping[str, Any]) -> Schema:
        number = _of(_COUNT, "messages kept so far; that of this one, where it is kept")
        return _object(text, "line", ok={"const": True}, **every, number=number, **more)

    def one_of(*names: str) -> Schema:
        return {"oneOf": [{"$ref": f"{refs}{name}"} for name in names]}

    others = [op for op in MESSAGES if op not in ("decide", "explain", "state", "health")]
    reasons = ("explanation_of_shares", "explanation_of_devices", "explanation_of_cluster")
    return {
        "refused": _object(
            "Nothing has changed.",
            "line",
            ok={"const": False},
            **every,
            error=_of(_TEXT, "what is wrong, and what would be valid"),
            retry=_of(_TRUTH, "whether the same message may be taken a little later"),
        ),
        "noted": good(f"Answer to {', '.join(others)}."),
        "decided": good(
            "Answer to decide.", decision=one_of("decision_of_shares", "decision_of_devices")
        ),
        "explained": good("Answer to explain.", explanation=one_of(*reasons)),
        "told": good("Answer to state.", state={"$ref": f"{refs}state"}),
        "well": good("Answer to health.", health={"$ref": f"{refs}health"}),
    }


def _decisions() -> dict[str, Schema]:
    share = _object(
        "What a job has.",
        time=_of(_by(_NUMBER), "part of its time on each accelerator, where it is not 0"),
        steps_per_s=_NUMBER,
    )
    shares = _object(
        "Shares of time.",
        shares=_of(_by(share), "by job"),
        prices=_of(_by(_NUMBER), "what one more GPU of a type improves the objective by"),
        objective=_MAYBE,
        unit=_TEXT,
        gap=_GAP,
        status=_STATUS,
        cannot_run=_CANNOT,
        **_AGE,
    )
    devices = _object(
        "Who has which devices from now on.",
        *("gap", "status"),
        devices=_of(_by(_object("What a job has.", **_HELD)), "by job"),
        started=_of(_JOBS, "jobs that had none"),
        moved=_of(_JOBS, "jobs that have others than before, or theirs again that had gone"),
        preempted=_of(_JOBS, "jobs that lose theirs, or whose devices are gone"),
        waiting=_of(_JOBS, "jobs that had none and have none, those that cannot run among them"),
        valid_for_s=_VALID,
        mechanism=_TEXT,
        gap=_of(_GAP, "of the shares that devices follow, where a policy gives shares"),
        status=_STATUS,
        cannot_run=_CANNOT,
        **_AGE,
    )
    return {"decision_of_shares": shares, "decision_of_devices": devices}


def _explanations() -> dict[str, Schema]:
    every = {"job": _TEXT, "sentence": _of(_TEXT, "all of it in words"), **_AGE}
    kinds = _list(_TEXT)
    holder = _object("Who has how many GPUs, on average.", job=_TEXT, gpus=_NUMBER)
    shares = _object(
        "Why a job has its shares.",
        shares=_of(_by(_NUMBER), "part of its time by accelerator"),
        time=_of(_NUMBER, "their sum"),
        steps_per_s=_NUMBER,
        alone_steps_per_s=_of(_NUMBER, "on its fastest type all the time"),
        limited_by=_of(
            {"enum": ["time", "GPUs", "the policy"]},
            "it runs all the time; all that it could use is taken; or the policy gives no more",
        ),
        full=_of(kinds, "accelerators that it could use and that are taken"),
        prices=_of(_by(_NUMBER), "of these"),
        holders=_of(_by(_list(holder)), "who has most of these"),
        **every,
    )
    devices = _object(
        "Why a job has its devices, or none.",
        status={"enum": ["started", "extended", "moved", "preempted", "waiting"]},
        **{**_HELD, "accelerator": {"type": ["string", "null"]}},
        before=_of(_JOBS, "the first of the jobs with devices that stand before it"),
        before_it=_of(_COUNT, "how many these are"),
        waiting=_of(_COUNT, "jobs that wait"),
        valid_for_s=_VALID,
        **every,
    )
    cluster = _object("Why a job cannot run.", limited_by={"const": "the cluster"}, **every)
    return {
        "explanation_of_shares": shares,
        "explanation_of_devices": devices,
        "explanation_of_cluster": cluster,
    }


def _state() -> Schema:
    seconds = _by(_by(_NUMBER))
    facts = {"type": "object", "properties": dict(COLUMNS), "additionalProperties": OWN_COLUMN}
    cluster = _object(
        "The GPUs that are decided about.",
        gpus=_of(_by(_COUNT), "in their order"),
        gpus_per_machine=_COUNT,
        machines_per_rack={"type": ["integer", "null"]},
        prices_per_gpu_hour=_by(_NUMBER),
    )
    return _object(
        "Everything that is known.",
        cluster=cluster,
        gpus=_of(_by(_COUNT), "GPUs by accelerator now"),
        most=_of(_by(_COUNT), "the most that there were"),
        throughputs=_of(seconds, "steps/s by job and accelerator, as told"),
        facts=_of(_by(facts), "columns of the jobs table by job"),
        running=_of(_by(_object("What a job has.", **_HELD)), "devices by job"),
        since_s=_of(_by(_NUMBER), "when received and owed were worked out last, s"),
        shares=_of(seconds, "shares of time that devices follow, by job and accelerator"),
        received=_of(seconds, "seconds of devices by job and accelerator until then"),
        owed=_of(seconds, "seconds by which a job was behind its shares then"),
        seen=_of(
            _by(_by(_object("What was observed.", steps=_NUMBER, seconds=_NUMBER))),
            "too little to learn from yet, by job and accelerator",
        ),
        lost=_of(_JOBS, "jobs whose devices have gone since the last decision"),
        now_s=_of(_NUMBER, "time of the last message"),
        own_clock=_of({"type": ["boolean", "null"]}, "whether the clock of the service counts"),
        changed_by=_of(_COUNT, "number of the last message but observations that told something"),
        estimates={
            "type": ["object", "null"],
            "additionalProperties": _by(_NUMBER),
            "description": "steps/s by job type and accelerator, as learnt; null: no references",
        },
    )


def _health() -> Schema:
    return _object(
        "What the service is, and has done since it was started.",
        policy=_TEXT,
        cluster=_of(_by(_COUNT), "GPUs by accelerator"),
        jobs=_COUNT,
        kept_messages=_COUNT,
        uptime_s=_NUMBER,
        messages=_COUNT,
        refused=_COUNT,
        repeated=_of(_COUNT, "messages that were answered before"),
        late=_of(_COUNT, "answers that were the last one, as there was none in time"),
    )


def json_schema() -> Schema:
    """Return the schema of messages and answers, JSON Schema of draft 2020-12."""
    return {**messages_schema(), "$defs": answer_types()}
