"""The documentation site: ``sphinx-build -W --keep-going -c docs . out/site``, without a network.

Sources are the pages of the checkout where they lie, so that their links are the same on a server
of repositories and here. The reference is made of what packages offer, and of docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING

from latex2mathml.converter import convert
from sphinx.errors import ConfigError

from apportion import __version__
from apportion.faces import homes_of

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

project = "apportion"
copyright = "the apportion developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
include_patterns = [
    "docs/**",
    "benchmarks/README.md",
    "benchmarks/*/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = True

autosummary_generate = False
autodoc_typehints = "none"  # numpydoc shows what docstrings say of types
autodoc_member_order = "bysource"
default_role = "py:obj"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"apportion {version}"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"

HERE = Path(__file__).parent
PACKAGES = {
    "apportion.policies": "Policies: parts of the optimisation",
    "apportion.mechanism": "Mechanisms: parts of schedulers",
    "apportion.elastic": "Elastic jobs and inference",
    "apportion.estimators": "Estimated speeds",
    "apportion.sim.network": "Networks and topologies",
    "apportion.sim.links": "Jobs that share links, iteration by iteration",
    "apportion.sim.traces": "Files of traces",
    "apportion.experiments": "Experiments",
    "apportion.report": "Reports",
    "apportion.statistics": "Statistics",
    "apportion.exports": "Files for Slurm, Kueue, KAI and Volcano",
    "apportion.service": "The decision service",
    "apportion.testing": "Checks of parts of one's own",
}
GROUPS = {
    "solve": "Solve",
    "policies": "Policies",
    "sim": "Simulate",
    "experiments": "Compare and sweep",
    "report": "Plots",
    "answers": "Answers",
    "mechanisms": "Mechanisms, as values",
    "mechanism": "Schedulers and links",
    "estimators": "Estimate speeds",
    "testing": "Check parts of one's own",
    "errors": "Errors",
    "": "Inputs and results",
}
SOLVING = {"solve", "session", "audit", "policy_table"}


def group_of(name: str) -> str:
    """Give the group of a name of the face: what it is for, by the package where it is at home."""
    home = homes_of("apportion").get(name, ("apportion", name))[0].split(".")
    part = home[1] if len(home) > 1 else ""
    if part == "policies" and name in SOLVING:
        return "solve"
    return part if part in GROUPS else ""


def entries(package: str, names: list[str]) -> str:
    """Give a table of names with the first line of each docstring, and below it what each says."""
    module = importlib.import_module(package)
    names = sorted((name for name in names if not name.startswith("__")), key=str.lower)
    found = {name: getattr(module, name) for name in names}
    aliases = [name for name in names if isinstance(found[name], types.GenericAlias)]
    shown = [name for name in names if name not in aliases]
    lines = [".. autosummary::", "", *(f"   {package}.{name}" for name in shown), ""]
    lines += [f".. py:data:: {package}.{name}\n   :type: {found[name]}\n" for name in aliases]
    for name in shown:
        members = "\n   :members:" if inspect.isclass(found[name]) else ""
        kind = "class" if members else "function" if inspect.isroutine(found[name]) else "data"
        if typing.get_origin(found[name]) is not None:
            members = "\n   :no-value:"
        lines.append(f".. auto{kind}:: {package}.{name}{members}\n")
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def write_reference() -> None:
    """Write a page for each group of names that a package offers; nothing offered is left out."""
    pages = {}
    face = list(importlib.import_module("apportion").__all__)
    for group, heading in GROUPS.items():
        names = [name for name in face if group_of(name) == group]
        pages[f"apportion-{group or 'tables'}"] = (
            f"# {heading}\n\nNames of `apportion`.\n\n{entries('apportion', names)}"
        )
    seen = dict.fromkeys(face, "apportion")
    for package, title in PACKAGES.items():
        module = importlib.import_module(package)
        intro = (inspect.getdoc(module) or "").split("\n")[0]
        names = [name for name in module.__all__ if seen.setdefault(name, package) == package]
        again = sorted(set(module.__all__) - set(names), key=str.lower)
        text = f"# {title}\n\n`{package}`: {intro}\n\n{entries(package, names)}"
        if again:
            text += f"\nOffered here as well: {', '.join(f'`{name}`' for name in again)}.\n"
        pages[package] = text
    folder = HERE / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def github_mathematics(_app: Sphinx, _page: str, text: list[str]) -> None:
    """Read formulas as GitHub writes them in lines and tables: dollar, backtick, formula."""
    text[0] = re.sub(r"\$`(.+?)`\$", r"$\1$", text[0])


def formula(writer: HTML5Translator, node: Element) -> None:
    """Write a formula in a line as MathML, which browsers show without a script."""
    writer.body.append(convert(node.astext()))
    raise _done()


def displayed(writer: HTML5Translator, node: Element) -> None:
    """Write a formula in a line of its own as MathML."""
    source = node.astext().strip()
    if "\\\\" in source and "\\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    writer.body.append(f'<div class="math">{convert(source, display="block")}</div>')
    raise _done()


def _done() -> Exception:
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what pages need.

    Raises
    ------
    ConfigError
        If the source is another folder than the checkout, in which pages name each other.
    """
    checkout = Path(__file__).parents[1]
    if Path(app.srcdir).resolve() != checkout:
        raise ConfigError(
            f"The pages of the site begin at {checkout}, not at {app.srcdir}. Run there: "
            f"sphinx-build -c docs . out/site"
        )
    write_reference()
    app.connect("source-read", github_mathematics)
    app.add_html_math_renderer("mathml", (formula, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
