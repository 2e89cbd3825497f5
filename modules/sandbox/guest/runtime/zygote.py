"""The fork-server: a Python that has imported what programs need and makes a
freshly isolated copy of itself for each of them. It never runs a program
itself and knows nothing that one must not know.

Started with the modules to import. On descriptor 3 it gets the system-call
filters once, and then a request for each child, with four descriptors: the
child's control socket, its two outputs, and the file for its exit status.
"""

import sys

sys.path.insert(0, "/run/portico-python")
sys.dont_write_bytecode = True

from portico_runtime import keeper  # noqa: E402

# Returns in a second process, which imports the modules.
model, filters = keeper.start()

import portico_runtime.job  # noqa: E402

portico_runtime.job.prepare([name for name in sys.argv[1].split(",") if name])

from portico_runtime import rehearsal  # noqa: E402

rehearsal.rehearse()

# Returns in each child, when it is in a sandbox of its own.
keeper.copy(model, filters)
become = portico_runtime.job.receive()
become()
