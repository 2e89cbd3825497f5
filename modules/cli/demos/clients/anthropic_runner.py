"""The package anthropic of PyPI: its tool runner, with a function of this process."""

import json
import sys

from anthropic import Anthropic, beta_tool

url, key, model, question = sys.argv[1:]
CODE = "code_execution_20260521"
ORDERS = {1: {"city": "Oslo", "total": 14}, 2: {"city": "Cairo", "total": 28}}
seen = {"requests": 0, "prompt": 0, "completion": 0, "calls": 0, "answer": ""}


@beta_tool(allowed_callers=[CODE])
def get_order(id: int) -> str:
    """One order: its city and its total."""
    seen["calls"] += 1
    return json.dumps(ORDERS.get(id))


runner = Anthropic(base_url=url, api_key=key).beta.messages.tool_runner(
    model=model,
    max_tokens=4096,
    messages=[{"role": "user", "content": question}],
    tools=[{"type": CODE, "name": "code_execution"}, get_order],
    max_iterations=20,
)
for message in runner:
    seen["requests"] += 1
    seen["prompt"] += message.usage.input_tokens
    seen["completion"] += message.usage.output_tokens
    seen["answer"] = "".join(block.text for block in message.content if block.type == "text")
print(json.dumps(seen))
