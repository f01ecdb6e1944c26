"""Types on which a job has not yet held several GPUs: speeds from a type where it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.checks import whole
from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.estimators.goodput.step_times import StepTimes

__all__ = ["bootstrapped"]


def bootstrapped(
    times: Mapping[str, StepTimes], most_gpus: Mapping[str, int], local_batch: int
) -> dict[str, StepTimes]:
    r"""Step times on every type, where most were tried on one GPU only.

    .. math:: thr(k, A) = \frac{thr(1, A)}{thr(1, B)} \, thr(k, B)

    for a type A that was tried on one GPU, and the type B that was tried on most (ties: the first
    given). All times of A are those of B times :math:`T_{grad,A}(m) / T_{grad,B}(m)` at one batch
    per GPU m, so that the formula is exact there and the model stays one of `StepTimes`.
    (Jayaram Subramanya et al., SOSP 2023, section 3.2.)

    Parameters
    ----------
    times
        Fitted step times by accelerator type.
    most_gpus
        Most GPUs on which the job was observed, by type: 1 or more.
    local_batch
        Batch per GPU, samples, at which single GPUs are compared.

    Returns
    -------
    dict
        Step times by type, as they were where the job ran on several GPUs, or nowhere did.

    Raises
    ------
    InputError
        If a type lacks its number of GPUs, or nothing was observed at all.
    """
    whole("The batch per GPU", local_batch, 1)
    if not times:
        raise InputError("No accelerator type was tried; types cannot be told from each other.")
    for name in times:
        if name not in most_gpus:
            raise unknown_name("accelerator among those tried", name, most_gpus)
        whole(f"The most GPUs tried on {written(name)}", most_gpus[name], 1)
    source = max(times, key=lambda name: most_gpus[name])
    if most_gpus[source] == 1:
        return dict(times)
    basis = times[source].gradient_s(local_batch)
    return {
        name: own
        if most_gpus[name] > 1
        else times[source].scaled(own.gradient_s(local_batch) / basis)
        for name, own in times.items()
    }
