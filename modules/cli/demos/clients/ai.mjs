// The packages ai and @ai-sdk/openai of npm: generateText over Chat Completions, where
// a function called run_code stands for programs.
import { pathToFileURL } from "node:url";

const [root, url, key, model, question] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${root}/node_modules/${file}`).href);
const { generateText, isStepCount, tool } = await load("ai/dist/index.js");
const { createOpenAI } = await load("@ai-sdk/openai/dist/index.js");
const { z } = await load("zod/index.js");

const orders = { 1: { city: "Oslo", total: 14 }, 2: { city: "Cairo", total: 28 } };
const seen = { requests: 0, prompt: 0, completion: 0, calls: 0, answer: "" };
const tools = {
  run_code: tool({ description: "Runs a program.", inputSchema: z.object({ code: z.string() }) }),
  get_order: tool({
    description: "One order: its city and its total.",
    inputSchema: z.object({ id: z.number().int() }),
    execute: ({ id }) => {
      seen.calls++;
      return orders[id] ?? null;
    },
  }),
};
const chat = createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model);
const result = await generateText({ model: chat, prompt: question, tools, stopWhen: isStepCount(20) });
for (const step of result.steps) {
  seen.requests++;
  seen.prompt += step.usage.inputTokens;
  seen.completion += step.usage.outputTokens;
}
seen.answer = result.text;
console.log(JSON.stringify(seen));
