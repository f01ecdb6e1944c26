"""Source archives with the links of `src/apportion`, which setuptools leaves out."""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist


class ArchiveWithLinks(sdist):
    """Adds what `pyproject.toml` says of the folders: ``src/apportion/sim -> ../../sim``."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files, then make the links."""
        super().make_release_tree(base_dir, files)
        for name, folder in (self.distribution.package_dir or {}).items():
            link = Path(base_dir, "src", *name.split("."))
            if not link.exists():
                link.symlink_to(os.path.relpath(Path(base_dir, folder), link.parent))


setup(cmdclass={"sdist": ArchiveWithLinks})
