"""Imports that are put off: nobody notices but by the time that they take."""

import subprocess
import sys

PROGRAM = """
import sys
from apportion.cli.entry import put_off
with put_off("statistics", "median"):
    from statistics import median
    import statistics as whole
print("statistics" in sys.modules)
print(median([1, 2, 9]), "statistics" in sys.modules)
print(whole.mean([1, 2, 9]), whole.median is not median)
import statistics
print(statistics.median([1, 2, 9]))
with put_off("statistics", "median"):
    print(sys.modules["statistics"] is statistics)
with put_off("no_such_module"):
    try:
        import no_such_module
    except ImportError:
        print("not there")
"""


def test_what_is_put_off_is_there_once_it_is_asked_for() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split("\n")[:-1] == ["False", "2 True", "4 True", "2", "True", "not there"]


def test_submodules_are_found_meanwhile() -> None:
    program = (
        "from apportion.cli.entry import put_off\n"
        "with put_off('xml.etree', 'nothing'):\n"
        "    import xml.etree.ElementTree as tree\n"
        "print(tree.Element('a').tag)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "a\n"
