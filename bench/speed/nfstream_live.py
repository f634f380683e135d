"""NFStream on an interface, without a look at payload: `nfstream_live.py INTERFACE`.

Prints each second what it has counted, until it is interrupted.
"""

import sys

from nfstream import NFStreamer


def main() -> None:
    # Its reports are lines for a person at a terminal; here they are awaited.
    sys.stdout.reconfigure(line_buffering=True)
    for _ in NFStreamer(source=sys.argv[1], n_dissections=0, performance_report=1):
        pass


if __name__ == "__main__":
    main()
