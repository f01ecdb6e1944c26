"""Files of every format that is read, of which something is then made wrong."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import apportion as ap
from apportion.sim.traces.oracle import read_oracle, read_pair_oracle, read_throughputs

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

_LM, _RESNET = "('LM (batch size 5)', 1)", "('ResNet-18 (batch size 16)', 1)"
_ORACLE = {"v100": {_LM: {"null": 4.0, _RESNET: [2.0, 1.0]}, _RESNET: {"null": 2.0}}}

RIGHT: dict[str, str] = {
    "jobs.csv": "# a note\njob,job_type,total_steps,scale_factor,entity\n"
    "a,ResNet-18 (batch size 16),100,1,x\nb,LM (batch size 5),50,1,y\n",
    "gavel.trace": "ResNet-18 (batch size 16)\tcmd\tdir\tn\t0\t100\t1\t1\t-1\t0\n"
    "LM (batch size 5)\tcmd\tdir\tn\t0\t50\t1\t1\t2\t10\n",
    "itp.csv": "job_id,submission_time,duration,num_gpu\na,0,60,1\nb,5,90,2\n",
    "elastic.csv": "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,"
    "duration\na,0,100,bert,80,64,1,60\nb,5,90,vgg16,99,32,2,90\n",
    "philly.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-03 13:45:00,60,1,60,x\n2017-10-03 13:46:00,90,2,180,y\n",
    "helios.csv": "job_id,user,vc,gpu_num,state,submit_time,duration\n"
    "1,u,v,1,COMPLETED,2020-04-01 00:00:03,60\n2,u,v,2,FAILED,2020-04-01 00:00:09,70\n",
    "throughputs.csv": "job_type,scale_factor,v100\nlm,1,4\ngan,1,2\n",
    "oracle.json": json.dumps(_ORACLE),
    "schedule.csv": "policy,job,accelerator,machines,devices,start_s,end_s\n"
    "fifo,a,v100,0,0-3 6,0,60\nfifo,b,v100,1,7,0.5,90\n",
    "speeds.csv": "job,v100,k80\na,4,1\nb,2,1\n",
    "table.csv": "job,weight,scale_factor,entity\na,1,1,x\nb,2,1,y\n",
}
"""Content of a file of every format, by a name that fits."""

TRACES = ("jobs.csv", "gavel.trace", "itp.csv", "elastic.csv", "philly.csv", "helios.csv")

_READERS: dict[str, Callable[[Path], Any]] = {
    **{
        name: ap.read_workload
        for name in (
            "jobs.csv",
            "gavel.trace",
            "itp.csv",
            "elastic.csv",
            "philly.csv",
            "helios.csv",
        )
    },
    "throughputs.csv": read_throughputs,
    "oracle.json": read_pair_oracle,
    "schedule.csv": ap.read_schedule,
}
_CELLS = (
    *("", " ", "NA", "null", "nan", "NaN", "inf", "-inf", "None", "-1", "0", "0.5", "1e400", "x"),
    *(
        "9" * 30,
        "9" * 400,
        "1_000",
        "0x10",
        "=HYPERLINK(1)",
        "'",
        '"',
        '"a',
        "a\nb",
        "\0",
        "é",
        "\u202e",
    ),
    *("2017-99-01", "1e308", "-0", "+1", "٣", "True", "1,2", "\t", "#", "y" * 3000, "\r", ";"),
    *("é", "\u202e"),
)


def malformed_file(rng: random.Random, folder: Path, name: str) -> Path:
    """Write a file of which something is wrong."""
    content = RIGHT[name].encode()
    for _ in range(rng.choice([1, 1, 2])):
        content = rng.choice(_CHANGES)(rng, content)
    path = folder / rng.choice([name, name, f"{name}.gz", f"{name}.zip", "other"])
    if rng.random() < 0.25:
        content = rng.choice(_PACKINGS)(content)
    if rng.random() < 0.1:
        content = content[: rng.randrange(len(content) + 1)]
    path.write_bytes(content)
    return path


def malformed_read(rng: random.Random, folder: Path) -> tuple[str, Callable[[], Any]]:
    """Draw a reader, and a file for it."""
    name = rng.choice(list(_READERS))
    path = malformed_file(rng, folder, name)
    if name == "oracle.json" and rng.random() < 0.5:
        return f"{name} as {path.name}", lambda: read_oracle(path, unconsolidated=True)
    return f"{name} as {path.name}", lambda: _READERS[name](path)


def _cell(rng: random.Random, content: bytes) -> bytes:
    """Replace one cell, with or without the first line."""
    lines = content.decode(errors="replace").split("\n")
    place = rng.randrange(len(lines))
    mark = next((mark for mark in ("\t", ",", " ") if mark in lines[place]), ",")
    cells = lines[place].split(mark)
    cells[rng.randrange(len(cells))] = rng.choice(_CELLS)
    lines[place] = mark.join(cells)
    return "\n".join(lines).encode(errors="replace")


def _drop_column(rng: random.Random, content: bytes) -> bytes:
    """Leave out a cell of every line."""
    lines = content.decode(errors="replace").split("\n")
    place = rng.randrange(8)
    cut = [line.split(",") for line in lines]
    return "\n".join(",".join(cells[:place] + cells[place + 1 :]) for cells in cut).encode()


def _bytes(rng: random.Random, content: bytes) -> bytes:
    """Change single bytes."""
    changed = bytearray(content or b"x")
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _json(rng: random.Random, content: bytes) -> bytes:
    """Write what is json, and no oracle."""
    deep = 100_000
    return rng.choice(
        [
            b"[" * deep + b"]" * deep,
            b'{"a":' * deep + b"1" + b"}" * deep,
            b'{"v100": {"(\'lm\', 1)": {"null": ' + b"9" * 400 + b"}}}",
            b'{"v100": {"(\'lm\', 1)": {"null": true}}}',
            b'{"v100": {"(\'lm\', ' + b"9" * 40 + b')": {"null": 1}}}',
            b'{"v100": {"' + b"(" * 5000 + b'": {"null": 1}}}',
            b'{"v100": {"(\'lm\', 1)": {"null": 1, "(\'lm\', 1)": [1, null]}}}',
            b'{"v100": {"(\'lm\', 1)": {"null": NaN}}}',
            b'{"v100": []}',
            b'{"v100": {"lm": 3}}',
            b"[]",
            b"null",
            b"{}",
            b'{"v100": {"(\'lm\', 1)": {"null": ' + b"9" * 5000 + b"}}}",
        ]
    )


_CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _cell,
    _cell,
    _cell,
    _drop_column,
    _bytes,
    _json,
    lambda rng, content: b"",
    lambda rng, content: b"\n" * 5000,
    lambda rng, content: b"# a comment\n" * 2000 + content,
    lambda rng, content: b"\xef\xbb\xbf" + content,
    lambda rng, content: content.replace(b"\n", b"\r\n"),
    lambda rng, content: content.replace(b",", b";"),
    lambda rng, content: content.replace(b",", b"\t"),
    lambda rng, content: content.decode(errors="replace").encode("utf-16"),
    lambda rng, content: content[: rng.randrange(len(content) + 1)],
    lambda rng, content: content.split(b"\n")[0] + b"\n",
    lambda rng, content: content + content,
    lambda rng, content: content + b"a,b,c,d,e,f,g,h,i,j,k,l,m\n",
    lambda rng, content: content[::-1],
    lambda rng, content: content.upper(),
    lambda rng, content: bytes(rng.randrange(256) for _ in range(200)),
    lambda rng, content: b"\x1f\x8b" + content,
)


def _zipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", content)
    return packed.getvalue()


def _tarred(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


_PACKINGS: tuple[Callable[[bytes], bytes], ...] = (
    gzip.compress,
    lzma.compress,
    bz2.compress,
    _zipped,
    _tarred,
    lambda content: gzip.compress(content)[:-6],
    lambda content: gzip.compress(content)[:12] + b"\0\0" + gzip.compress(content)[14:],
)
