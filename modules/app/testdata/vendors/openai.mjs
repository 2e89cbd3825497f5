// The npm package openai, unmodified, with the loop of its own documentation.
// Modes: history sends everything again, previous names the last response, chat is
// Chat Completions.
import { description, getOrder, load, refused, schema, work } from "./shared.mjs";

const { default: OpenAI } = await load("openai/index.mjs");

const functions = [{ type: "function", name: "get_order", description, parameters: schema, strict: true, allowed_callers: ["programmatic"] }];

function output(seen, call) {
  let text;
  try {
    text = JSON.stringify(getOrder(seen, JSON.parse(call.arguments)));
  } catch (e) {
    text = `error: ${e.message}`;
  }
  return { type: "function_call_output", call_id: call.call_id, output: text, caller: call.caller };
}

function results(job, seen, response) {
  const list = [];
  for (const item of response.output) {
    if (item.type === "function_call") list.push(output(seen, item));
    if (item.type === "mcp_approval_request") {
      seen.asked.push({ tool: item.name, arguments: item.arguments, server: item.server_label });
      const approve = job.scenario === "approval_allow";
      list.push({ type: "mcp_approval_response", approval_request_id: item.id, approve, ...(approve ? {} : { reason: "no need" }) });
    }
  }
  return list;
}

// wrong sends continuations that have to be refused.
async function wrong(job, seen, send, { input, response, added }) {
  const last = response.output.findLast((item) => item.type === "function_call");
  if (job.scenario === "missing_result" && last) {
    const few = added.filter((item) => item.call_id !== last.call_id);
    await refused(seen, () => send(job.mode === "history" ? [...input, ...response.output, ...few] : few, response.id));
    seen.missing = last.call_id;
  }
  if (job.scenario !== "foreign_container" || !last) return;
  if (job.mode === "previous") {
    await refused(seen, () => send(added, response.id, job.other));
    await refused(seen, () => send(added, "resp_nonsense"));
    return;
  }
  const forged = response.output.map((item) => (item.type === "program" ? { ...item, fingerprint: `${item.fingerprint}x` } : item));
  await refused(seen, () => send([...input, ...forged, ...added]));
  await refused(seen, () => send([...input, ...response.output, ...added], undefined, job.other));
}

async function responses(job, seen) {
  const tools = job.scenario === "no_tools" ? undefined : [{ type: "programmatic_tool_calling" }, ...functions];
  const send = async (input, previous, key) => {
    const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: key ?? job.key });
    const request = { model: job.model, input, tools };
    if (job.mode === "history") Object.assign(request, { store: false, include: ["reasoning.encrypted_content"] });
    else if (previous) request.previous_response_id = previous;
    if (job.scenario !== "stream") return client.responses.create(request);
    const stream = client.responses.stream(request);
    for await (const event of stream) if (event.type.endsWith(".delta")) seen.deltas++;
    return stream.finalResponse();
  };
  let input = [{ role: "user", content: job.prompt }];
  let previous;
  for (let round = 0; round < 10; round++) {
    const response = await send(input, previous);
    seen.answers++;
    seen.usage.input += response.usage.input_tokens;
    seen.usage.output += response.usage.output_tokens;
    seen.items.push(response.output.map((item) => item.type));
    seen.zero = response.usage.total_tokens === 0;
    if (response.output_text) seen.texts.push(response.output_text);
    const added = results(job, seen, response);
    if (added.length === 0 && response.output_text) return;
    await wrong(job, seen, send, { input, response, added });
    input = job.mode === "history" ? [...input, ...response.output, ...added] : added;
    previous = response.id;
  }
  throw new Error("no end after ten rounds");
}

async function chat(job, seen) {
  const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: job.key });
  const functionOf = (name, text, parameters) => ({ type: "function", function: { name, description: text, parameters } });
  const code = { type: "object", properties: { code: { type: "string" } }, required: ["code"] };
  const tools = job.scenario === "chat_plain" ? undefined : [functionOf("run_code", "Runs a program.", code), functionOf("get_order", description, schema)];
  const messages = [{ role: "user", content: job.prompt }];
  for (let round = 0; round < 10; round++) {
    const request = { model: job.model, messages, tools };
    let answer;
    if (job.scenario === "chat_stream") {
      const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
      stream.on("content.delta", () => seen.deltas++);
      answer = await stream.finalChatCompletion();
    } else answer = await client.chat.completions.create(request);
    const { message, finish_reason } = answer.choices[0];
    seen.answers++;
    seen.usage.input += answer.usage.prompt_tokens;
    seen.usage.output += answer.usage.completion_tokens;
    seen.items.push([finish_reason]);
    messages.push(message);
    if (message.content) seen.texts.push(message.content);
    if (!message.tool_calls?.length) return;
    const tools_ = message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: output(seen, { ...call.function, call_id: call.id }).output }));
    if (job.scenario === "missing_result") {
      seen.missing = tools_.at(-1).tool_call_id;
      await refused(seen, () => client.chat.completions.create({ ...request, messages: [...messages, ...tools_.slice(0, -1)] }));
    }
    messages.push(...tools_);
  }
  throw new Error("no end after ten rounds");
}

await work((job, seen) => (job.mode === "chat" ? chat : responses)(job, seen));
