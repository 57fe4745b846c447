#!/usr/bin/env python3
"""Checks that every operator under tilewright/ops/ is listed in the catalog.

An operator that is missing there would be built, but neither tested nor offered.
"""

import re
import sys

import tree

CATALOG = "tilewright/ops/catalog.h"


def main() -> int:
    """Compares the folder with the includes of the catalog."""
    listed = set(
        re.findall(r'#include "(tilewright/ops/\w+\.h)"', (tree.ROOT / CATALOG).read_text())
    )
    there = {
        path.as_posix() for path in tree.files(".h") if path.parent.as_posix() == "tilewright/ops"
    }
    missing = sorted(there - listed - {CATALOG})
    print(
        "\n".join([*(f"{path} is not in {CATALOG}" for path in missing), f"catalog: {len(listed)}"])
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
