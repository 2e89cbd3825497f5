// The package openai of npm: the loop of its documentation.
import { pathToFileURL } from "node:url";

const [root, url, key, model, question] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${root}/node_modules/${file}`).href);
const { default: OpenAI } = await load("openai/index.mjs");

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const parameters = { type: "object", properties: { id: { type: "integer" } }, required: ["id"], additionalProperties: false };
const tools = [
  { type: "programmatic_tool_calling" },
  { type: "function", name: "get_order", description: "One order: its city and its total.", parameters, strict: true, allowed_callers: ["programmatic"] },
];
const orders = { 1: { city: "Oslo", total: 14 }, 2: { city: "Cairo", total: 28 } };
const seen = { requests: 0, prompt: 0, completion: 0, calls: 0, answer: "" };
let input = [{ role: "user", content: question }];
for (let waits = true; waits && seen.requests < 20; ) {
  const response = await client.responses.create({ model, input, tools, store: false });
  seen.requests++;
  seen.prompt += response.usage.input_tokens;
  seen.completion += response.usage.output_tokens;
  seen.answer = response.output_text;
  input = [...input, ...response.output];
  const calls = response.output.filter((item) => item.type === "function_call");
  waits = calls.length > 0;
  for (const call of calls) {
    seen.calls++;
    const order = JSON.stringify(orders[JSON.parse(call.arguments).id] ?? null);
    input.push({ type: "function_call_output", call_id: call.call_id, output: order, caller: call.caller });
  }
}
console.log(JSON.stringify(seen));
