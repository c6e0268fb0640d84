"""`make test`: everything that needs no vLLM on two workers, then the end-to-end tests alone.

The real node and its load would starve beside other tests on two cores, so they run by themselves.
"""

from __future__ import annotations

import subprocess
import sys
import time


def main() -> int:
    started = time.monotonic()
    runs = (
        ("without vLLM", ["-n", "2", "-m", "not e2e"]),
        ("end to end with the real node", ["-m", "e2e", "-p", "no:randomly", "--timeout", "600"]),
    )
    status = 0
    for name, options in runs:
        print(f"== tests {name} ({time.monotonic() - started:.0f} s)", flush=True)
        status |= subprocess.run([sys.executable, "-m", "pytest", "-q", *options], check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
