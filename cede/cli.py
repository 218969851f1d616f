"""The entry of the `cede` command, also `kubectl cede`: what it does is in cede/commands."""

import logging
import sys
from collections.abc import Sequence

from cede.extra import missing_sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: see `cede --help`."""
    # warnings of libraries are not for the user of a command
    logging.disable(logging.WARNING)
    try:
        # a training image has none of the packages that it imports
        from cede.commands.app import run

        return run(arguments)
    except ModuleNotFoundError as missing:
        print(f"cede: {missing_sentence(missing)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
