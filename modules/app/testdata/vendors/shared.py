"""What the clients in Python have in common: the jobs, the tools that they run
themselves, and what is printed. JOBS is as shared.mjs says."""

import json
import os
import traceback

DESCRIPTION = "One order as JSON."
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": False}


def get_order(seen, arguments):
    """The function that the client runs; order 9 does not exist."""
    seen["calls"].append({"name": "get_order", "arguments": arguments})
    if arguments["id"] == 9:
        raise ValueError("order 9 not found")
    return {"id": arguments["id"], "total": 10 * arguments["id"]}


def failure(e):
    """What a client says of a refusal."""
    body = getattr(e, "body", None)
    error = body.get("error", body) if isinstance(body, dict) else {}
    error = error if isinstance(error, dict) else {}
    details = error.get("details") or {}
    return {
        "name": type(e).__name__,
        "status": getattr(e, "status_code", None),
        "code": getattr(e, "code", None) or details.get("error_code"),
        "type": error.get("type"),
        "message": str(e),
        "param": getattr(e, "param", None),
    }


async def refused(seen, attempt):
    """Runs what must be refused, and notes how."""
    try:
        await attempt
        seen["errors"].append(None)
    except Exception as e:  # whatever it is, it is noted
        seen["errors"].append(failure(e))


async def work(run):
    """Does each job in turn and prints what was seen, by the job's name."""
    everything = {}
    for job in json.loads(os.environ["JOBS"]):
        seen = {"texts": [], "calls": [], "items": [], "answers": 0, "deltas": 0, "usage": {"input": 0, "output": 0}, "asked": [], "errors": []}
        try:
            await run(job, seen)
        except Exception as e:  # whatever it is, it is printed
            seen["failed"] = failure(e)
            if os.environ.get("STACKS"):
                traceback.print_exc()
        everything[job["name"]] = seen
    print(json.dumps(everything))
