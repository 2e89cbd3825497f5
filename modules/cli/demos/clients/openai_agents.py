"""The package openai-agents of PyPI: its runner, with a function of this process."""

import json
import sys

from agents import Agent, ModelSettings, OpenAIResponsesModel, ProgrammaticToolCallingTool, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

url, key, model, question = sys.argv[1:]
ORDERS = {1: {"city": "Oslo", "total": 14}, 2: {"city": "Cairo", "total": 28}}
calls = 0
set_tracing_disabled(True)


@function_tool(allowed_callers=["programmatic"])
def get_order(id: int) -> str:
    """One order: its city and its total."""
    global calls
    calls += 1
    return json.dumps(ORDERS.get(id))


client = AsyncOpenAI(base_url=url + "/v1", api_key=key)
agent = Agent(
    name="demo",
    model=OpenAIResponsesModel(model=model, openai_client=client),
    model_settings=ModelSettings(store=False, response_include=["reasoning.encrypted_content"]),
    tools=[ProgrammaticToolCallingTool(), get_order],
)
result = Runner.run_sync(agent, question, max_turns=20)
usage = result.context_wrapper.usage
print(
    json.dumps(
        {
            "requests": len(result.raw_responses),
            "prompt": usage.input_tokens,
            "completion": usage.output_tokens,
            "calls": calls,
            "answer": result.final_output,
        }
    )
)
