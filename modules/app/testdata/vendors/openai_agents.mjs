// The npm package @openai/agents, unmodified: its runner, with function tools and the
// programmatic tool. Modes: history sends everything again, previous names the last
// response, chat is Chat Completions.
import { description, getOrder, load, schema, work } from "./shared.mjs";

const { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, hostedMcpTool, programmaticToolCallingTool, setTracingDisabled, tool } =
  await load("@openai/agents/dist/index.mjs");
const { default: OpenAI } = await load("openai/index.mjs");

setTracingDisabled(true);

const codeSchema = { type: "object", properties: { code: { type: "string" } }, required: ["code"], additionalProperties: false };

function tools(job, seen) {
  if (["no_tools", "chat_plain"].includes(job.scenario)) return [];
  const execute = async (args) => {
    try {
      return JSON.stringify(getOrder(seen, args));
    } catch (e) {
      return `error: ${e.message}`;
    }
  };
  const order = { name: "get_order", description, parameters: schema, strict: true, execute };
  const never = async () => {
    throw new Error("the server runs programs");
  };
  if (job.mode === "chat") return [tool({ name: "run_code", description: "Runs a program.", parameters: codeSchema, strict: true, execute: never }), tool(order)];
  const list = [programmaticToolCallingTool(), tool({ ...order, allowedCallers: ["programmatic"] })];
  if (!job.scenario.startsWith("approval")) return list;
  const onApproval = async (_context, { rawItem }) => {
    const { name, arguments: args, server_label: server } = rawItem.providerData;
    seen.asked.push({ tool: name, arguments: args, server });
    return job.scenario === "approval_allow" ? { approve: true } : { approve: false, reason: "no need" };
  };
  return [...list, hostedMcpTool({ serverLabel: "demo", serverUrl: "https://demo.invalid/mcp", requireApproval: "always", onApproval })];
}

async function run(job, seen) {
  const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: job.key });
  const model = new (job.mode === "chat" ? OpenAIChatCompletionsModel : OpenAIResponsesModel)(client, job.model);
  const modelSettings = job.mode === "history" ? { store: false, providerData: { include: ["reasoning.encrypted_content"] } } : {};
  const agent = new Agent({ name: "test", model, tools: tools(job, seen), modelSettings });
  const stream = job.scenario.includes("stream");
  const runner = new Runner({ tracingDisabled: true });
  const options = { maxTurns: 10, stream };
  if (job.mode === "previous") {
    const greeting = new Agent({ name: "greeting", model });
    options.previousResponseId = (await runner.run(greeting, job.greeting)).lastResponseId;
  }
  const result = await runner.run(agent, job.prompt, options);
  if (stream) {
    for await (const event of result) if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") seen.deltas++;
    await result.completed;
  }
  seen.answers = result.rawResponses.length;
  seen.items = result.rawResponses.map((response) => response.output.map((item) => item.type));
  seen.usage = { input: result.runContext.usage.inputTokens, output: result.runContext.usage.outputTokens };
  seen.texts.push(result.finalOutput);
}

await work(run);
