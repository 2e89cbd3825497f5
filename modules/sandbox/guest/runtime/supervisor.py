"""Process 1 of a sandbox that has a kernel of its own: it holds the program,
and carries its files in and out.

Started with the modules to import and, if it will be saved and come back in
another sandbox, the word "saved". On descriptor 0 it gets the system-call
filters and the limits of its folders, and then a byte for each time it is to go on.
"""

import sys

sys.path.insert(0, "/run/portico-python")
sys.dont_write_bytecode = True

import portico_runtime.job  # noqa: E402

portico_runtime.job.prepare([name for name in sys.argv[1].split(",") if name])

from portico_runtime import supervise  # noqa: E402

# Returns in the one child, when it is bound for good.
supervise.serve("saved" in sys.argv[2:])
become = portico_runtime.job.receive()
become()
