"""The interpreter of one execution, from its start to the user's code.

Runs inside the sandbox: it imports the modules named in its argument, reports
ready on descriptor 3, waits there for one job and becomes the program.
"""

import sys

sys.path.insert(0, "/run/portico-python")
sys.dont_write_bytecode = True

import portico_runtime.job  # noqa: E402

portico_runtime.job.prepare([name for name in sys.argv[1].split(",") if name])
become = portico_runtime.job.receive()
become()
