"""The package openai of PyPI, unmodified, with the loop of its own documentation.
Modes: history sends everything again, previous names the last response, chat is Chat
Completions."""

import asyncio
import json

from openai import AsyncOpenAI

from shared import DESCRIPTION, SCHEMA, get_order, refused, work

FUNCTION = {"type": "function", "name": "get_order", "description": DESCRIPTION, "parameters": SCHEMA, "strict": True, "allowed_callers": ["programmatic"]}


def text_of(seen, arguments):
    try:
        return json.dumps(get_order(seen, json.loads(arguments)))
    except ValueError as e:
        return f"error: {e}"


def results(job, seen, response):
    added = []
    for item in response.output:
        if item.type == "function_call":
            output = {"type": "function_call_output", "call_id": item.call_id, "output": text_of(seen, item.arguments)}
            if item.caller:
                output["caller"] = item.caller.to_dict()
            added.append(output)
        if item.type == "mcp_approval_request":
            seen["asked"].append({"tool": item.name, "arguments": item.arguments, "server": item.server_label})
            answer = {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": job["scenario"] == "approval_allow"}
            added.append(answer if answer["approve"] else answer | {"reason": "no need"})
    return added


async def wrong(job, seen, send, given, response, added):
    """Sends continuations that have to be refused."""
    calls = [item for item in response.output if item.type == "function_call"]
    history = job["mode"] == "history"
    if not calls:
        return
    if job["scenario"] == "missing_result":
        few = [item for item in added if item["call_id"] != calls[-1].call_id]
        seen["missing"] = calls[-1].call_id
        await refused(seen, send([*given, *response.output, *few] if history else few, response.id))
    if job["scenario"] != "foreign_container":
        return
    if not history:
        await refused(seen, send(added, response.id, job["other"]))
        await refused(seen, send(added, "resp_nonsense"))
        return
    forged = [item.model_copy(update={"fingerprint": item.fingerprint + "x"}) if item.type == "program" else item for item in response.output]
    await refused(seen, send([*given, *forged, *added]))
    await refused(seen, send([*given, *response.output, *added], None, job["other"]))


async def responses(job, seen):
    async def send(given, previous=None, key=None):
        request = {"model": job["model"], "input": given}
        if job["scenario"] != "no_tools":
            request["tools"] = [{"type": "programmatic_tool_calling"}, FUNCTION]
        if job["mode"] == "history":
            request |= {"store": False, "include": ["reasoning.encrypted_content"]}
        elif previous:
            request["previous_response_id"] = previous
        async with AsyncOpenAI(base_url=job["url"] + "/v1", api_key=key or job["key"]) as client:
            if job["scenario"] != "stream":
                return await client.responses.create(**request)
            async with client.responses.stream(**request) as stream:
                async for event in stream:
                    seen["deltas"] += event.type.endswith(".delta")
                return await stream.get_final_response()

    given, previous = [{"role": "user", "content": job["prompt"]}], None
    for _ in range(10):
        response = await send(given, previous)
        seen["answers"] += 1
        seen["usage"]["input"] += response.usage.input_tokens
        seen["usage"]["output"] += response.usage.output_tokens
        seen["items"].append([item.type for item in response.output])
        if response.output_text:
            seen["texts"].append(response.output_text)
        added = results(job, seen, response)
        if not added and response.output_text:
            return
        await wrong(job, seen, send, given, response, added)
        given = [*given, *response.output, *added] if job["mode"] == "history" else added
        previous = response.id
    raise RuntimeError("no end after ten rounds")


def function_of(name, text, parameters):
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


async def chat(job, seen):
    code = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
    messages = [{"role": "user", "content": job["prompt"]}]
    async with AsyncOpenAI(base_url=job["url"] + "/v1", api_key=job["key"]) as client:
        for _ in range(10):
            request = {"model": job["model"], "messages": messages}
            if job["scenario"] != "chat_plain":
                request["tools"] = [function_of("run_code", "Runs a program.", code), function_of("get_order", DESCRIPTION, SCHEMA)]
            if job["scenario"] == "chat_stream":
                async with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
                    async for event in stream:
                        seen["deltas"] += event.type == "content.delta"
                    answer = await stream.get_final_completion()
            else:
                answer = await client.chat.completions.create(**request)
            message = answer.choices[0].message
            seen["answers"] += 1
            seen["usage"]["input"] += answer.usage.prompt_tokens
            seen["usage"]["output"] += answer.usage.completion_tokens
            seen["items"].append([answer.choices[0].finish_reason])
            if message.content:
                seen["texts"].append(message.content)
            if not message.tool_calls:
                return
            messages.append(message)
            added = [{"role": "tool", "tool_call_id": c.id, "content": text_of(seen, c.function.arguments)} for c in message.tool_calls]
            if job["scenario"] == "missing_result":
                seen["missing"] = added[-1]["tool_call_id"]
                await refused(seen, client.chat.completions.create(**request | {"messages": messages + added[:-1]}))
            messages += added
    raise RuntimeError("no end after ten rounds")


asyncio.run(work(lambda job, seen: (chat if job["mode"] == "chat" else responses)(job, seen)))
