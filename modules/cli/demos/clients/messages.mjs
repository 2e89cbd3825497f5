// The package @anthropic-ai/sdk of npm: the loop of its documentation.
import { pathToFileURL } from "node:url";

const [root, url, key, model, question] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${root}/node_modules/${file}`).href);
const { default: Anthropic } = await load("@anthropic-ai/sdk/index.mjs");

const code = "code_execution_20260521";
const input_schema = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
const tools = [
  { type: code, name: "code_execution" },
  { name: "get_order", description: "One order: its city and its total.", input_schema, allowed_callers: [code] },
];
const orders = { 1: { city: "Oslo", total: 14 }, 2: { city: "Cairo", total: 28 } };
const seen = { requests: 0, prompt: 0, completion: 0, calls: 0, answer: "" };
const client = new Anthropic({ baseURL: url, apiKey: key });
const messages = [{ role: "user", content: question }];
let container;
while (!seen.answer && seen.requests < 20) {
  const message = await client.messages.create({ model, max_tokens: 4096, messages, tools, ...(container && { container }) });
  seen.requests++;
  seen.prompt += message.usage.input_tokens;
  seen.completion += message.usage.output_tokens;
  container = message.container?.id ?? container;
  messages.push({ role: "assistant", content: message.content });
  const calls = message.content.filter((block) => block.type === "tool_use");
  seen.calls += calls.length;
  if (calls.length === 0) seen.answer = message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
  else messages.push({ role: "user", content: calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: JSON.stringify(orders[call.input.id] ?? null) })) });
}
console.log(JSON.stringify(seen));
