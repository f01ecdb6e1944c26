#!/usr/bin/env bash
# The site of every version: bash docs/versions.sh [FOLDER]
# A folder for each tag vX.Y.Z and one for this checkout, "latest", each built in an environment of
# its own, as pages are made of what is installed; index.html leads to them. What is there stays, but
# for "latest".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
site=$(realpath -m "${1:-out/versions}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$site"

built() { # REVISION FOLDER
    mkdir "$work/$2"
    git archive "$1" | tar -x -C "$work/$2"
    python3 -m venv "$work/$2/.venv"
    "$work/$2/.venv/bin/pip" install --quiet "$work/$2[docs]"
    (cd "$work/$2" && .venv/bin/sphinx-build -W --keep-going -q -c docs . "$site/$2")
}

names=latest
for tag in $(git tag --list 'v*' --sort=-version:refname); do
    names+=" $tag"
    [ -d "$site/$tag" ] || built "$tag" "$tag"
done
rm -rf "$site/latest"
built HEAD latest
{
    echo '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>apportion</title>'
    echo '<meta name="viewport" content="width=device-width"><h1>apportion: pages by version</h1><ul>'
    for name in $names; do echo "<li><a href=\"$name/docs/index.html\">$name</a></li>"; done
    echo '</ul></html>'
} >"$site/index.html"
echo "$site/index.html: $names"
