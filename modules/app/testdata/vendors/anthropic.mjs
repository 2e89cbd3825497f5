// The npm package @anthropic-ai/sdk, unmodified. Modes: loop is the loop of its
// documentation, runner its tool runner, which asks for threads.
import { description, getOrder, load, refused, schema, work } from "./shared.mjs";

const { default: Anthropic } = await load("@anthropic-ai/sdk/index.mjs");
const { betaTool } = await load("@anthropic-ai/sdk/helpers/beta/json-schema.mjs");

const version = "code_execution_20260521";
const code = { type: version, name: "code_execution" };
const order = { name: "get_order", description, input_schema: schema, allowed_callers: [version] };
const approvalSchema = { type: "object", properties: { call: { type: "string" }, tool: { type: "string" }, arguments: { type: "object" } }, required: ["call", "tool", "arguments"] };
const approval = { name: "portico_approval", description: "Asks whether a call may be made.", input_schema: approvalSchema, allowed_callers: [version] };

const client = (job, key) => new Anthropic({ baseURL: job.url, apiKey: key ?? job.key });

function decide(job, seen, input) {
  seen.asked.push({ tool: input.tool, arguments: JSON.stringify(input.arguments) });
  return JSON.stringify(job.scenario === "approval_allow" ? { decision: "allow" } : { decision: "refuse", reason: "no need" });
}

function result(job, seen, call) {
  const block = { type: "tool_result", tool_use_id: call.id };
  if (call.name === "portico_approval") return { ...block, content: decide(job, seen, call.input) };
  try {
    return { ...block, content: JSON.stringify(getOrder(seen, call.input)) };
  } catch (e) {
    return { ...block, content: e.message, is_error: true };
  }
}

function note(seen, message) {
  seen.answers++;
  seen.usage.input += message.usage.input_tokens;
  seen.usage.output += message.usage.output_tokens;
  seen.zero = message.usage.input_tokens === 0 && message.usage.output_tokens === 0;
  seen.items.push(message.content.map((block) => block.type));
  for (const block of message.content) if (block.type === "text") seen.texts.push(block.text);
  seen.stop = message.stop_reason;
}

async function loop(job, seen) {
  const tools = job.scenario === "no_tools" ? undefined : [code, order];
  if (job.scenario.startsWith("approval")) tools.push(approval);
  const messages = [{ role: "user", content: job.prompt }];
  const send = async (messages, container, key) => {
    const request = { model: job.model, max_tokens: 4096, messages, tools, ...(container && { container }) };
    if (job.scenario !== "stream") return client(job, key).messages.create(request);
    const stream = client(job, key).messages.stream(request);
    stream.on("text", () => seen.deltas++);
    stream.on("inputJson", () => seen.deltas++);
    return stream.finalMessage();
  };
  let container;
  for (let round = 0; round < 10; round++) {
    const message = await send(messages, container);
    note(seen, message);
    container = message.container?.id ?? container;
    messages.push({ role: "assistant", content: message.content });
    if (message.stop_reason === "pause_turn") continue;
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return;
    const results = calls.map((call) => result(job, seen, call));
    const next = (list) => [...messages, { role: "user", content: list }];
    if (job.scenario === "missing_result") {
      seen.missing = results.at(-1).tool_use_id;
      await refused(seen, () => send(next(results.slice(0, -1)), container));
    }
    if (job.scenario === "foreign_container") {
      await refused(seen, () => send(next(results), container, job.other));
      await refused(seen, () => send(next(results), "container_nonsense"));
      await refused(seen, () => send(next(results)));
    }
    messages.push({ role: "user", content: results });
  }
  throw new Error("no end after ten rounds");
}

async function runner(job, seen) {
  const run = betaTool({ name: "get_order", description, inputSchema: schema, run: (args) => JSON.stringify(getOrder(seen, args)) });
  const tools = job.scenario === "no_tools" ? [] : [code, { ...run, allowed_callers: [version] }];
  if (job.scenario.startsWith("approval")) {
    const ask = betaTool({ name: approval.name, description: approval.description, inputSchema: approvalSchema, run: (args) => decide(job, seen, args) });
    tools.push({ ...ask, allowed_callers: [version] });
  }
  const stream = job.scenario === "stream";
  const answers = client(job).beta.messages.toolRunner({ model: job.model, max_tokens: 4096, messages: [{ role: "user", content: job.prompt }], tools, stream, max_iterations: 10 });
  for await (const answer of answers) {
    if (stream) answer.on("text", () => seen.deltas++);
    note(seen, stream ? await answer.finalMessage() : answer);
  }
}

await work((job, seen) => (job.mode === "runner" ? runner : loop)(job, seen));
