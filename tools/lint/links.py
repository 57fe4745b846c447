#!/usr/bin/env python3
"""Checks that what Markdown files link to within the repository is there, sections included."""

import re
import sys
from pathlib import Path

import tree

LINK = re.compile(r"\[[^\]]*\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The sections of a file as links name them."""
    titles = HEADING.findall(CODE.sub("", tree.text(path)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def complaint(path: Path, target: str, section: str) -> str | None:
    """What is wrong with a link of a file, or None."""
    linked = path.parent / target if target else path
    if not (tree.ROOT / linked).exists():
        return f"{path}: {target} does not exist"
    if section and section not in anchors(linked):
        return f"{path}: {linked} has no section #{section}"
    return None


def main() -> int:
    """Checks every Markdown file."""
    links = [
        (path, *match.groups(default=""))
        for path in tree.files(".md")
        for match in LINK.finditer(CODE.sub("", tree.text(path)))
    ]
    complaints = [text for link in links if (text := complaint(*link))]
    print("\n".join([*complaints, f"links: {len(links)}, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
