"""A client of the newer era of MCP: mcp 2 of PyPI, unmodified. Prints what it saw."""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
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

    async with create_mcp_http_client(headers={"X-API-Key": os.environ["KEY"]}) as http:
        async with Client(streamable_http_client(sys.argv[1], http_client=http), elicitation_callback=ask if answers else None) as client:
            seen["version"] = client.protocol_version
            seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
            seen["results"] = []
            for code in PROGRAMS:
                result = await client.call_tool("run_code", {"code": code}, progress_callback=progress)
                seen["results"].append({"error": result.is_error, "value": result.structured_content, "text": result.content[0].text})
            run = seen["results"][0]["value"]["run"]
            seen["resource"] = (await client.read_resource(run)).contents[0].text
    return seen


async def main():
    print(json.dumps([await talk(answers or []) for answers in json.loads(sys.argv[3])]))


asyncio.run(main())
