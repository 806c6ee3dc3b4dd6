"""`python -m skillyard.interop`: check packages in a pipeline."""

import sys

from skillyard.interop.package_checks import main

if __name__ == "__main__":
    sys.exit(main())
