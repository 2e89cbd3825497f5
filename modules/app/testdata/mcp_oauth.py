"""A client of MCP that gets tokens by OAuth: mcp of PyPI, version 1 or 2, unmodified.

Arguments: the address of the server, and of a browser, which is asked for a page and
answers with the address that the page led back to. Prints what it saw.
"""

import asyncio
import json
import sys
import urllib.parse
import urllib.request
from importlib.metadata import version

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata

ADDRESS, BROWSER = sys.argv[1:]
NEWER = version("mcp").startswith("2.")
seen = {"pages": 0, "results": []}
back = {}


class Storage:
    tokens = info = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.info

    async def set_client_info(self, info):
        self.info = info


def visit(page):
    address = BROWSER + "?" + urllib.parse.urlencode({"page": page})
    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


async def redirect(page):
    seen["pages"] += 1
    went = await asyncio.to_thread(visit, page)
    back.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(went).query))


async def callback():
    if NEWER:
        from mcp.shared.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(code=back["code"], state=back["state"], iss=back["iss"])
    return back["code"], back["state"]


def provider():
    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=["http://127.0.0.1:7100/callback"])
    return OAuthClientProvider(ADDRESS, metadata, Storage(), redirect_handler=redirect, callback_handler=callback)


async def use(client):
    seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    for _ in range(2):
        result = await client.call_tool("run_code", {"code": "print(get_weather(city='Oslo', days=1)['city'])"})
        seen["results"].append((result.structured_content if NEWER else result.structuredContent)["stdout"])
        await asyncio.to_thread(visit, "expire")


async def main():
    if NEWER:
        from mcp import Client
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

        async with create_mcp_http_client(auth=provider()) as http:
            async with Client(streamable_http_client(ADDRESS, http_client=http)) as client:
                await use(client)
    else:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(ADDRESS, auth=provider()) as (read, write, _):
            async with ClientSession(read, write) as client:
                await client.initialize()
                await use(client)
    print(json.dumps(seen))


asyncio.run(main())
