"""The package anthropic of PyPI, unmodified. Modes: loop is the loop of its
documentation, runner its tool runner, which asks for threads."""

import asyncio
import json

from anthropic import AsyncAnthropic, beta_async_tool

from shared import DESCRIPTION, SCHEMA, get_order, refused, work

VERSION = "code_execution_20260521"
CODE = {"type": VERSION, "name": "code_execution"}
ORDER = {"name": "get_order", "description": DESCRIPTION, "input_schema": SCHEMA, "allowed_callers": [VERSION]}
APPROVAL = {
    "name": "portico_approval",
    "description": "Asks whether a call may be made.",
    "input_schema": {
        "type": "object",
        "properties": {"call": {"type": "string"}, "tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["call", "tool", "arguments"],
    },
    "allowed_callers": [VERSION],
}


def decide(job, seen, tool, args):
    seen["asked"].append({"tool": tool, "arguments": json.dumps(args)})
    return json.dumps({"decision": "allow"} if job["scenario"] == "approval_allow" else {"decision": "refuse", "reason": "no need"})


def result(job, seen, call):
    block = {"type": "tool_result", "tool_use_id": call.id}
    if call.name == "portico_approval":
        return block | {"content": decide(job, seen, call.input["tool"], call.input["arguments"])}
    try:
        return block | {"content": json.dumps(get_order(seen, call.input))}
    except ValueError as e:
        return block | {"content": str(e), "is_error": True}


def note(seen, message):
    seen["answers"] += 1
    seen["usage"]["input"] += message.usage.input_tokens
    seen["usage"]["output"] += message.usage.output_tokens
    seen["items"].append([block.type for block in message.content])
    seen["texts"] += [block.text for block in message.content if block.type == "text"]
    seen["stop"] = message.stop_reason


async def loop(job, seen):
    async def send(messages, container=None, key=None):
        request = {"model": job["model"], "max_tokens": 4096, "messages": messages}
        if job["scenario"] != "no_tools":
            request["tools"] = [CODE, ORDER] + ([APPROVAL] if job["scenario"].startswith("approval") else [])
        if container:
            request["container"] = container
        async with AsyncAnthropic(base_url=job["url"], api_key=key or job["key"]) as client:
            if job["scenario"] != "stream":
                return await client.messages.create(**request)
            async with client.messages.stream(**request) as stream:
                async for event in stream:
                    seen["deltas"] += event.type in ("text", "input_json")
                return await stream.get_final_message()

    messages, container = [{"role": "user", "content": job["prompt"]}], None
    for _ in range(10):
        message = await send(messages, container)
        note(seen, message)
        container = message.container.id if message.container else container
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason == "pause_turn":
            continue
        results = [result(job, seen, block) for block in message.content if block.type == "tool_use"]
        if not results:
            return
        if job["scenario"] == "missing_result":
            seen["missing"] = results[-1]["tool_use_id"]
            await refused(seen, send([*messages, {"role": "user", "content": results[:-1]}], container))
        messages.append({"role": "user", "content": results})
        if job["scenario"] == "foreign_container":
            await refused(seen, send(messages, container, job["other"]))
            await refused(seen, send(messages, "container_nonsense"))
            await refused(seen, send(messages))
    raise RuntimeError("no end after ten rounds")


async def runner(job, seen):
    @beta_async_tool(name="get_order", description=DESCRIPTION, input_schema=SCHEMA, allowed_callers=[VERSION])
    async def order(id):
        return json.dumps(get_order(seen, {"id": id}))

    @beta_async_tool(name="portico_approval", description=APPROVAL["description"], input_schema=APPROVAL["input_schema"], allowed_callers=[VERSION])
    async def approve(tool, arguments, **_more):
        return decide(job, seen, tool, arguments)

    tools = [] if job["scenario"] == "no_tools" else [CODE, order]
    if job["scenario"].startswith("approval"):
        tools.append(approve)
    stream = job["scenario"] == "stream"
    async with AsyncAnthropic(base_url=job["url"], api_key=job["key"]) as client:
        messages = [{"role": "user", "content": job["prompt"]}]
        async for answer in client.beta.messages.tool_runner(
            model=job["model"], max_tokens=4096, messages=messages, tools=tools, max_iterations=10, stream=stream
        ):
            if stream:
                async for event in answer:
                    seen["deltas"] += event.type in ("text", "input_json")
                answer = await answer.get_final_message()
            note(seen, answer)


asyncio.run(work(lambda job, seen: (runner if job["mode"] == "runner" else loop)(job, seen)))
