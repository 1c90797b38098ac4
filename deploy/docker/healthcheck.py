"""Exit 0 when the process in this container is ready. Standard library only: the image has no curl."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Ask /readyz on the metrics port; says why when it is not ready."""
    url = f"http://127.0.0.1:{int(os.environ.get('HUBWATCH_METRICS_PORT') or 9600)}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=4):  # loopback
            return 0
    except urllib.error.HTTPError as error:
        sys.stderr.write(error.read(2000).decode(errors="replace"))
    except OSError as error:
        sys.stderr.write(f"{url}: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
