"""How plots look: one colour per policy, labels, and SVG that is the same bytes every time."""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every common kind of colour blindness; its yellow
# is left out because it vanishes on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":", "-.")

_TOLD = "_apportion_told"
_LARGEST = 1.25
"""How many times as large as on paper a plot is at most."""

TITLE: dict[str, Any] = {"x": 0.01, "ha": "left", "fontsize": 10.5, "fontweight": "bold"}
"""How what stands above several panels is written."""

HEAT_MAP = "Blues"
"""Colour map of the heat maps: one hue, light to dark, so that it survives greyscale."""

_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "apportion",
    # Names come from users; a dollar sign in one is not the start of a formula.
    "text.parse_math": False,
}


def line_styles(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give every policy a colour, and a dash pattern once the colours are used up."""
    return {
        policy: {
            "color": COLOURS[rank % len(COLOURS)],
            "linestyle": _DASHES[rank // len(COLOURS) % len(_DASHES)],
        }
        for rank, policy in enumerate(policies)
    }


@contextmanager
def plotting_style() -> Iterator[None]:
    """Draw with the settings of the report and put the caller's back afterwards.

    Raises
    ------
    ApportionError
        If matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise no_matplotlib(error) from error
    with matplotlib.rc_context(_SETTINGS):
        yield


def no_matplotlib(error: ImportError) -> ApportionError:
    """Make the error that names what to install."""
    return ApportionError(f"Plots need matplotlib: pip install apportion[plot] ({error}).")


def new_figure(width: float = 6.4, height: float = 3.8) -> Figure:
    """Return an empty figure, inches, that belongs to no window and no global state."""
    from apportion.report.figure import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained")


def panels_of(
    count: int, width: float, row_height: float, **shared: Any
) -> tuple[Figure, list[Any]]:
    """Return a figure of so many panels in rows of three, or of two where that leaves no gap.

    Parameters
    ----------
    count
        How many there are.
    width, row_height
        Inches, of the figure and of a row.
    shared
        Which axes they share, as of ``Figure.subplots``; x is shared, with its numbers below each.
    """
    columns = min(count, 2 if count == 4 else 3)
    rows = -(-count // columns)
    figure = new_figure(width, 1.2 + row_height * rows)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False, **shared).ravel()
    for axes in panels[count:]:
        axes.set_visible(False)
    for axes in panels[:count]:
        axes.tick_params(labelbottom=True)
    return figure, list(panels[:count])


def heading(figure: Figure, text: str, shown: int = 0, of: int = 0) -> None:
    """Write what stands above all panels, and that only the first of the runs are shown."""
    cut = f"the first {shown} of {of} policies" if shown < of else ""
    if words := ", ".join(filter(None, (text, cut))):
        figure.suptitle(words[0].upper() + words[1:], **TITLE)


def plain_numbers(axis: Any) -> None:
    """Label a logarithmic axis 0.1, 1, 10 rather than with powers of ten."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter("")


def with_legend(figure: Figure, axes: Any) -> Figure:
    """Put the legend under the axes of a figure or a part of one, where it covers no data."""
    per_row = int(figure.bbox.width / figure.dpi // 2)
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=min(per_row, len(labels))
    )
    for rank, (label, text) in enumerate(zip(labels, legend.get_texts(), strict=True)):
        text.set_gid(f"legend-{rank}")  # by which the page shows and hides what it names
        for place, artist in enumerate(_named(figure, label)):
            artist.set_gid(f"series-{rank}-{place}")
    return figure


def _named(figure: Figure, label: str) -> list[Any]:
    """Return the lines, layers and bars of a label, in all axes of a figure or a part of one."""
    groups: list[Any] = [
        group
        for axes in figure.axes
        for group in (*axes.lines, *axes.collections, *axes.containers)
    ]
    return [
        artist
        for group in groups
        if group.get_label() == label
        for artist in (group if hasattr(group, "patches") else [group])
    ]


def tell(artist: Any, text: str) -> None:
    """Say what a bar or a dot is, which a page shows beside the pointer."""
    setattr(artist, _TOLD, text)  # a label of it would stand in the legend


def _svg(figure: Figure) -> str:
    """Return the ``<svg>`` element as matplotlib draws it, which takes nearly all of the time."""
    stream = io.StringIO()
    unsaid = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with plotting_style(), warnings.catch_warnings():
        # Names stay text, which the browser writes in fonts that have their letters.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure.savefig(stream, format="svg", metadata=unsaid)
    text = stream.getvalue()
    return text[text.index("<svg") :]


def inline_svg(figure: Figure, name: str) -> str:
    """Return the figure as an ``<svg>`` element for an HTML page, ids prefixed by `name`.

    What has a name or was told (`tell`) has it as its title, and axes say what their numbers are:
    by these the script of the page reads values and zooms.
    """
    titles = _titles(figure)
    for rank, axes in enumerate(figure.axes):
        axes.set_gid(f"axes-{rank}")
    text = _svg(figure)
    says = {axes.get_gid(): _measures(axes, figure) for axes in figure.axes}
    says |= {each.get_gid(): ' data-values=""' for each in _curves(figure)}

    def tag(found: re.Match[str]) -> str:
        """Write a tag as a page has it, with what a group is behind it."""
        written = found[0]
        # HTML knows the namespaces of SVG by itself, and figures on one page share their ids.
        for old, new in (
            (' xmlns:xlink="http://www.w3.org/1999/xlink"', ""),
            (' xmlns="http://www.w3.org/2000/svg"', ""),
            (' id="', f' id="{name}-'),
            ('href="#', f'href="#{name}-'),
            ("url(#", f"url(#{name}-"),
        ):
            written = written.replace(old, new)
        own = re.fullmatch(r'<g id="([^"]*)">', found[0])
        if own is None:
            return written
        title = f"<title>{escape(titles[own[1]])}</title>" if own[1] in titles else ""
        return f"{written[:-1]}{says.get(own[1], '')}>{title}"

    text = re.sub("<[^>]*>", tag, text)
    widest = _LARGEST * figure.get_size_inches()[0]  # letters larger than any other help nobody
    return text.replace("<svg", f'<svg style="max-width: {widest:.4g}in"', 1)


def _titles(figure: Figure) -> dict[str, str]:
    """Return what bars, dots and lines are, by their ids; the first two get one here."""
    told = [each for each in figure.findobj() if hasattr(each, _TOLD)]
    for rank, artist in enumerate(told):
        artist.set_gid(artist.get_gid() or f"told-{rank}")
    named = {str(each.get_gid()): str(each.get_label()) for each in _curves(figure)}
    return named | {str(each.get_gid()): getattr(each, _TOLD) for each in told}


def _curves(figure: Figure) -> list[Any]:
    """Return lines, and layers of stacks, that have a name and so values to be read."""
    found = [each for axes in figure.axes for each in (*axes.lines, *axes.collections)]
    return [each for each in found if each.get_gid() and not hasattr(each, _TOLD)]


def _measures(axes: Any, figure: Figure) -> str:
    """Return attributes of axes: their place in points, what their numbers are, whether they zoom.

    Axes zoom along x where that has numbers, and no markers, which would be drawn out.
    """
    from matplotlib.ticker import FixedLocator

    pixel, place = 72 / figure.dpi, axes.bbox
    top = figure.bbox.height - place.y1
    box = (pixel * each for each in (place.x0, top, place.width, place.height))
    said = {"box": " ".join(f"{each:.2f}" for each in box), "name": axes.get_xlabel()}
    for side, limits in (("x", axes.get_xlim()), ("y", axes.get_ylim())):
        said[side] = " ".join(
            [*(f"{each:.9g}" for each in limits), getattr(axes, f"get_{side}scale")()]
        )
    titles = (axes.get_title(side) for side in ("left", "center"))
    said["title"] = next(filter(None, titles), "") or axes.get_ylabel()
    named = isinstance(axes.xaxis.get_major_locator(), FixedLocator)
    marked = any(line.get_marker() not in ("None", "|") for line in axes.lines)
    if not (named or marked or axes.get_label() == "<colorbar>"):
        said["zooms"] = ""
    return "".join(f' data-{name}="{escape(text)}"' for name, text in said.items())
