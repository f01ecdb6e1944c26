from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from apportion.errors import InputError
from apportion.sim.network import Exchange, model_profiles, read_astra_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

FIRST = "conv\t-1\t100\tNONE\t0\t90\tNONE\t0\t80\tALLREDUCE\t4096\t5\t"
SECOND = "fc -1 10 ALLGATHER 64 20 ALLTOALL 32 30 REDUCESCATTER 16 1"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_lines(*lines: str) -> Path:
        path = tmp_path / "small.txt"
        path.write_text("\r\n".join(lines), encoding="utf-8")
        return path

    return write_lines


def test_cycles_are_nanoseconds_and_sizes_bytes(write: Write) -> None:
    profile = read_astra_workload(write("HYBRID_DATA_MODEL", "2", FIRST, SECOND))
    conv, fc = profile.layers
    assert profile.name == "small"
    assert (conv.forward_s, conv.input_gradient_s, conv.weight_gradient_s) == pytest.approx(
        (100e-9, 90e-9, 80e-9)
    )
    assert conv.weight_gradient == Exchange("all_reduce", 4096)
    assert conv.forward.size_bytes == 0
    assert fc.forward == Exchange("all_gather", 64)
    assert fc.input_gradient == Exchange("all_to_all", 32)
    assert fc.weight_gradient == Exchange("reduce_scatter", 16)
    assert profile.all_reduce_bytes == 4096


def test_data_parallel_models_need_no_gradient_of_their_inputs(write: Write) -> None:
    path = write("DATA", "1", FIRST)
    assert read_astra_workload(path).compute_s == pytest.approx(180e-9)
    assert read_astra_workload(path, cycle_s=1e-6).compute_s == pytest.approx(180e-6)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("conv -1 100 NONE 0", "line 4: 5 columns; a layer has 12"),
        (SECOND.replace("10", "ten"), "line 4, forward pass: compute is 'ten'"),
        (SECOND.replace(" 32 ", " -32 "), "line 4, input gradient: number of bytes is '-32'"),
        (SECOND.replace(" 30 ", " nan "), "line 4, weight gradient: compute is 'nan'"),
        (SECOND[:-1] + "x", "line 4: update delay is 'x'"),
        (SECOND.replace("ALLTOALL", "NONE"), "line 4, input gradient: 32 bytes of NONE"),
        (SECOND.replace("REDUCESCATTER", "ALLREDUCED"), "Unknown communication type in"),
    ],
)
def test_the_malformed_line_is_named(write: Write, line: str, message: str) -> None:
    path = write("DATA", "2", FIRST, line)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_astra_workload(path)
    assert str(path) in str(caught.value)
    assert "line 4" in str(caught.value)


@pytest.mark.parametrize("lines", [("DATA",), ("job,gpus", "a,b"), ("DATA", "2 3", FIRST)])
def test_other_files_are_recognized(write: Write, lines: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"line 2: .*no workload file of ASTRA-sim 1\.0"):
        read_astra_workload(write(*lines))


def test_the_number_of_layers_is_checked(write: Write) -> None:
    with pytest.raises(InputError, match="line 2: 1 layers, but 2 follow"):
        read_astra_workload(write("DATA", "1", FIRST, SECOND))
    with pytest.warns(UserWarning, match=r"line 2: 3 layers, but 2 follow. Only these are read"):
        profile = read_astra_workload(write("DATA", "3", FIRST, SECOND))
    assert len(profile.layers) == 2
    with pytest.raises(InputError, match="no layer that computes"):
        read_astra_workload(write("DATA", "1", FIRST.replace("100", "0").replace("80", "0")))
    with pytest.raises(InputError, match="line 2: 0 layers, but 0 follow"):
        read_astra_workload(write("DATA", "0"))


def test_a_number_behind_the_last_layer_is_passed_over(write: Write) -> None:
    # As in the files that Dally's authors publish.
    profile = read_astra_workload(write("DATA", "2", FIRST, "732195" + SECOND, "732195"))
    assert [layer.name for layer in profile.layers] == ["conv", "732195fc"]


@pytest.mark.parametrize(
    ("name", "layers", "megabytes"),
    [
        ("Resnet50_DataParallel", 54, 102.01),
        ("DLRM_HybridParallel", 8, 3.19),
        ("Transformer_HybridParallel", 57, None),
        ("MLP_HybridParallel_Data_Model", 6, None),
    ],
)
def test_public_workload_files_are_read(
    public_data: Path, name: str, layers: int, megabytes: float | None
) -> None:
    path = public_data / "astra_sim" / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"needs the public data {path}, which is not there")
    profile = read_astra_workload(path)
    assert len(profile.layers) == layers
    if megabytes is not None:
        assert round(profile.all_reduce_bytes / 1e6, 2) == megabytes


def test_the_public_resnet50_has_the_derived_layers(public_data: Path) -> None:
    path = public_data / "astra_sim" / "Resnet50_DataParallel.txt"
    if not path.exists():
        pytest.skip(f"needs the public data {path}, which is not there")
    public, derived = read_astra_workload(path), model_profiles()["ResNet50"]
    assert len(public.layers) == len(derived.layers)
    # It leaves out biases and normalizations, 0.2 % of all parameters.
    assert public.all_reduce_bytes == pytest.approx(derived.all_reduce_bytes, rel=3e-3)
    assert public.skew == pytest.approx(derived.skew, rel=0.02)
