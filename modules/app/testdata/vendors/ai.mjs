// The npm packages ai, @ai-sdk/openai and @ai-sdk/anthropic, unmodified: generateText
// and streamText. Modes: responses, stored (Responses that the server keeps), chat and
// messages.
import { description, getOrder, load, work } from "./shared.mjs";

const { generateText, isStepCount, streamText, tool } = await load("ai/dist/index.js");
const { createOpenAI } = await load("@ai-sdk/openai/dist/index.js");
const { createAnthropic, forwardAnthropicContainerIdFromLastStep } = await load("@ai-sdk/anthropic/dist/index.js");
const { z } = await load("zod/index.js");

const version = "code_execution_20260120";

function order(seen, providerOptions) {
  return tool({ description, inputSchema: z.object({ id: z.number().int() }), execute: async (args) => getOrder(seen, args), providerOptions });
}

// approval is the client's tool that the server asks on the Messages face.
function approval(job, seen) {
  return tool({
    description: "Asks whether a call may be made.",
    inputSchema: z.object({ call: z.string(), tool: z.string(), arguments: z.record(z.string(), z.unknown()) }),
    execute: async (call) => {
      seen.asked.push({ tool: call.tool, arguments: JSON.stringify(call.arguments) });
      return job.scenario === "approval_allow" ? { decision: "allow" } : { decision: "refuse", reason: "no need" };
    },
    providerOptions: { anthropic: { allowedCallers: [version] } },
  });
}

function messages(job, seen) {
  const anthropic = createAnthropic({ baseURL: `${job.url}/v1`, apiKey: job.key });
  const request = { model: anthropic(job.model) };
  if (job.scenario === "no_tools") return request;
  const tools = { code_execution: anthropic.tools.codeExecution_20260120(), get_order: order(seen, { anthropic: { allowedCallers: [version] } }) };
  if (job.scenario.startsWith("approval")) tools.portico_approval = approval(job, seen);
  return { ...request, tools, prepareStep: forwardAnthropicContainerIdFromLastStep };
}

function responses(job, seen) {
  const openai = createOpenAI({ baseURL: `${job.url}/v1`, apiKey: job.key });
  const providerOptions = { openai: job.mode === "stored" ? { store: true } : { store: false, include: ["reasoning.encrypted_content"] } };
  const request = { model: openai.responses(job.model), providerOptions };
  if (job.scenario === "no_tools") return request;
  const tools = { program: openai.tools.programmaticToolCalling(), get_order: order(seen, { openai: { allowedCallers: ["programmatic"] } }) };
  if (job.scenario.startsWith("approval")) {
    tools.demo = openai.tools.mcp({ serverLabel: "demo", serverUrl: "https://demo.invalid/mcp", requireApproval: "always" });
  }
  return { ...request, tools };
}

function chat(job, seen) {
  const openai = createOpenAI({ baseURL: `${job.url}/v1`, apiKey: job.key });
  const request = { model: openai.chat(job.model) };
  if (job.scenario === "chat_plain") return request;
  return { ...request, tools: { run_code: tool({ description: "Runs a program.", inputSchema: z.object({ code: z.string() }) }), get_order: order(seen) } };
}

async function ask(job, seen, request) {
  if (!job.scenario.includes("stream")) return generateText(request);
  const errors = [];
  const result = streamText({ ...request, onError: ({ error }) => errors.push(error) });
  for await (const part of result.fullStream) if (part.type === "text-delta") seen.deltas++;
  if (errors.length > 0) throw errors[0];
  return { steps: await result.steps, content: await result.content, response: await result.response };
}

// waits ends the loop where a person is asked: by itself it goes on as long as a
// program runs.
const waits = ({ steps }) => steps.at(-1).content.some((part) => part.type === "tool-approval-request");

async function run(job, seen) {
  const build = { messages, chat }[job.mode] ?? responses;
  const request = { ...build(job, seen), stopWhen: [isStepCount(10), waits] };
  let said = [{ role: "user", content: job.prompt }];
  for (let round = 0; round < 3; round++) {
    const result = await ask(job, seen, { ...request, messages: said });
    for (const step of result.steps) {
      seen.answers++;
      seen.usage.input += step.usage.inputTokens ?? 0;
      seen.usage.output += step.usage.outputTokens ?? 0;
      seen.items.push(step.content.map((part) => part.type));
      if (step.text) seen.texts.push(step.text);
    }
    const asked = result.content.filter((part) => part.type === "tool-approval-request");
    if (asked.length === 0) return;
    said = [...said, ...result.response.messages];
    for (const part of asked) {
      seen.asked.push({ tool: part.toolCall.toolName, arguments: JSON.stringify(part.toolCall.input) });
      const approved = job.scenario === "approval_allow";
      const reason = approved ? {} : { reason: "no need" };
      said.push({ role: "tool", content: [{ type: "tool-approval-response", approvalId: part.approvalId, providerExecuted: true, approved, ...reason }] });
    }
  }
}

await work(run);
