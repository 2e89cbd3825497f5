"""A client of the older era of MCP: mcp 1 of PyPI, unmodified. Prints what it saw."""

import asyncio
import json
import os
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult

PROGRAMS = json.loads(sys.argv[2])


async def talk(answers):
    """Does all that one client does; without answers it cannot ask."""
    seen = {"asked": [], "progress": []}

    async def ask(_context, params):
        seen["asked"].append(params.message)
        return ElicitResult(**answers[len(seen["asked"]) - 1])

    async def progress(_done, _total, message):
        seen["progress"].append(message)

    async with streamablehttp_client(sys.argv[1], headers={"X-API-Key": os.environ["KEY"]}) as (read, write, _):
        async with ClientSession(read, write, elicitation_callback=ask if answers else None) as client:
            seen["version"] = (await client.initialize()).protocolVersion
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            seen["results"] = []
            for code in PROGRAMS:
                result = await client.call_tool("run_code", {"code": code}, progress_callback=progress)
                seen["results"].append({"error": result.isError, "value": result.structuredContent, "text": result.content[0].text})
            run = seen["results"][0]["value"]["run"]
            seen["resource"] = (await client.read_resource(run)).contents[0].text
    return seen


async def main():
    print(json.dumps([await talk(answers or []) for answers in json.loads(sys.argv[3])]))


asyncio.run(main())
