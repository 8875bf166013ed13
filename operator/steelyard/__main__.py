"""`python -m steelyard`: the operator, which ends when it is told to from its first moment on."""

import signal
import sys

if __name__ == "__main__":
    # Imports take a second or two, and the kernel would not end the first process of a container that has no handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from steelyard.run import main

    main()
