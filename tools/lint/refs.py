#!/usr/bin/env python3
"""Checks that shipped files refer to nothing that a reader does not have.

No issue numbers, no absolute paths of somebody's machine, no notes to self.
"""

import re
import sys

import tree

RULES = [
    (
        re.compile(
            r"(?<![\w&/\"'#$(\[{])(?<!UAX )(?<!UTS )#\d+\b|\bissues?\s+#?\d+\b|\bGH-\d+\b",
            re.IGNORECASE,
        ),
        "an issue number",
    ),
    (
        re.compile(r"(?<![\w.~}\-])/(?:work|root|home|Users|mnt|opt|tmp)/(?!somebody)[\w.]"),
        "an absolute path",
    ),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "a note to self"),
]
BINARY = {".gguf", ".npy", ".npz", ".png", ".bin", ".pt2", ".zip"}
SKIPPED = ("LICENSE", "tests/fuzz/corpus/")


def main() -> int:
    """Checks every text file, line by line."""
    complaints = []
    paths = [
        path
        for path in tree.files()
        if path.suffix not in BINARY and not path.as_posix().startswith(SKIPPED)
    ]
    for path in paths:
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for pattern, what in RULES:
                found = pattern.search(line)
                if found:
                    complaints.append(f"{path}:{number}: `{found.group()}` is {what}")
    print("\n".join([*complaints, f"refs: {len(paths)} files, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
