"""A FastMCP server of either era: of stdio, or over HTTP on the port that is the
first argument."""

import asyncio
import sys

try:
    from mcp.server import MCPServer as FastMCP
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("py")


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def split(text: str) -> list[str]:
    """Splits a text into its words."""
    return text.split()


@server.tool()
def describe(name: str, tags: list[str] | None = None) -> dict:
    """Describes a thing."""
    return {"name": name, "tags": tags or []}


@server.tool()
def refuse(reason: str) -> str:
    """Fails with a reason."""
    raise ValueError(reason)


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    """Works in steps."""
    for i in range(count):
        await asyncio.sleep(0.01)
        await ctx.report_progress(i + 1, count)
    return "%d steps" % count


if len(sys.argv) > 1:
    try:
        server.run("streamable-http", port=int(sys.argv[1]))
    except TypeError:
        server.settings.port = int(sys.argv[1])
        server.run("streamable-http")
else:
    server.run()
