"""`python -m millrace`, the same as the `millrace` command."""

import sys

from services.cli import main

if __name__ == "__main__":
    sys.exit(main())
