"""python -m sluice: the command-line program that stands beside the package."""

import os
import shutil
import sys

from ._lib import places


def main() -> None:
    named = os.environ.get("SLUICE_PROGRAMS")
    own = [os.path.join(named, "sluice")] if named else places("bin", "sluice")
    program = next(iter(own), None) or shutil.which("sluice")
    if not program or not os.access(program, os.X_OK):
        sys.exit(
            f"sluice: {program or 'the program'}: is not there: `make` builds it; SLUICE_PROGRAMS "
            "names its folder"
        )
    os.execv(program, ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
