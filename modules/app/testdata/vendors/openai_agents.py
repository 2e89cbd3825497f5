"""The package openai-agents of PyPI, unmodified: its runner, with function tools and
the programmatic tool. Modes: history sends everything again, previous lets the runner
name the last response, chat is Chat Completions."""

import asyncio
import json

from agents import (
    Agent,
    FunctionTool,
    HostedMCPTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    ProgrammaticToolCallingTool,
    Runner,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from shared import DESCRIPTION, SCHEMA, get_order, work

set_tracing_disabled(True)


def order_tool(job, seen):
    async def call(_context, arguments):
        try:
            return json.dumps(get_order(seen, json.loads(arguments)))
        except ValueError as e:
            return f"error: {e}"

    callers = None if job["mode"] == "chat" else ["programmatic"]
    return FunctionTool(name="get_order", description=DESCRIPTION, params_json_schema=SCHEMA, on_invoke_tool=call, allowed_callers=callers)


def code_tool():
    async def call(_context, _arguments):
        raise RuntimeError("the server runs programs")

    schema = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"], "additionalProperties": False}
    return FunctionTool(name="run_code", description="Runs a program.", params_json_schema=schema, on_invoke_tool=call)


def approvals(job, seen):
    def decide(request):
        asked = request.data
        seen["asked"].append({"tool": asked.name, "arguments": asked.arguments, "server": asked.server_label})
        return {"approve": True} if job["scenario"] == "approval_allow" else {"approve": False, "reason": "no need"}

    config = {"type": "mcp", "server_label": "demo", "server_url": "https://demo.invalid/mcp", "require_approval": "always"}
    return HostedMCPTool(tool_config=config, on_approval_request=decide)


def tools(job, seen):
    if job["scenario"] in ("no_tools", "chat_plain"):
        return []
    if job["mode"] == "chat":
        return [code_tool(), order_tool(job, seen)]
    list_ = [ProgrammaticToolCallingTool(), order_tool(job, seen)]
    return [*list_, approvals(job, seen)] if job["scenario"].startswith("approval") else list_


async def run(job, seen):
    async with AsyncOpenAI(base_url=job["url"] + "/v1", api_key=job["key"]) as client:
        model = (OpenAIChatCompletionsModel if job["mode"] == "chat" else OpenAIResponsesModel)(model=job["model"], openai_client=client)
        settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"]) if job["mode"] == "history" else ModelSettings(include_usage=True)
        agent = Agent(name="test", model=model, tools=tools(job, seen), model_settings=settings)
        options = {"auto_previous_response_id": True} if job["mode"] == "previous" else {}
        if "stream" in job["scenario"]:
            result = Runner.run_streamed(agent, job["prompt"], max_turns=10, **options)
            async for event in result.stream_events():
                seen["deltas"] += event.type == "raw_response_event" and event.data.type.endswith(".delta")
        else:
            result = await Runner.run(agent, job["prompt"], max_turns=10, **options)
    seen["answers"] = len(result.raw_responses)
    seen["items"] = [[item.type for item in response.output] for response in result.raw_responses]
    seen["usage"] = {"input": result.context_wrapper.usage.input_tokens, "output": result.context_wrapper.usage.output_tokens}
    seen["texts"].append(result.final_output)


asyncio.run(work(run))
