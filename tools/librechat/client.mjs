// Drives one generation of the published LibreChat client through everything
// it can do with the code interpreter API, and prints what the model would be
// told. Usage: node client.mjs MODULES GENERATION BASE KEY [HEADER]
// HEADER is where newer clients send the key, as a proxy in front of the server
// would; Authorization if it is left out.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const [modules, generation, base, key, header = "Authorization"] = process.argv.slice(2);
process.env.LIBRECHAT_CODE_BASEURL = generation === "3.1" ? base.replace("http://", `http://${key}@`) : base;
const require = createRequire(`${modules}/`);
const agents = require(`agents-${generation}`);

const authHeaders = { [header]: header === "Authorization" ? `Bearer ${key}` : key };
const credentials = {
  "3.0": { baseUrl: base, apiKey: key },
  "3.1": { baseUrl: base.replace("http://", `http://${key}@`) },
  "3.3": { baseUrl: base, authHeaders },
  "3.9": { baseUrl: `${base}/`, authHeaders: async () => authHeaders },
}[generation];

// The tools of the host, and what was seen of their use.
let running = 0;
let most = 0;
const used = [];
const implementations = {
  "get-weather": ({ city }) => ({ city, celsius: city.length }),
  "my tool": (input) => input,
  for: (input) => input,
  "123data": (input) => input,
  mirror: ({ value }) => ({ value }),
  nothing: () => undefined,
  fails: () => {
    throw new Error("it broke");
  },
  slow: async () => {
    await sleep(1500);
    return "slept";
  },
};
const toolMap = new Map();
const toolDefs = [];
for (const [name, fn] of Object.entries(implementations)) {
  toolDefs.push({
    name,
    description: `Tool ${name}`,
    parameters: { type: "object", properties: {}, additionalProperties: true },
    allowed_callers: ["code_execution"],
  });
  toolMap.set(name, {
    name,
    invoke: async (input) => {
      used.push(name);
      running++;
      most = Math.max(most, running);
      try {
        await sleep(5);
        return await fn(input);
      } finally {
        running--;
      }
    },
  });
}

async function call(tool, args, config = {}) {
  const toolCall = { type: "tool_call", id: "t1", name: tool.name, args, toolMap, toolDefs, ...config.toolCall };
  try {
    const message = await tool.invoke(toolCall, config.signal ? { signal: config.signal } : {});
    return { content: String(message.content), artifact: message.artifact };
  } catch (error) {
    return { error: error.message };
  }
}

const programmatic = agents.createProgrammaticToolCallingTool(credentials);
const execute = agents.createCodeExecutionTool(
  generation === "3.0" ? { LIBRECHAT_CODE_API_KEY: key, apiKey: key } : credentials,
);
const bash = agents.createBashProgrammaticToolCallingTool?.(credentials);
const results = {};

const scenarios = {
  sequence: "w = await get_weather(city='SF')\nf = await get_weather(city=w['city'] + 'O')\nprint(w['celsius'], f['celsius'])",
  gathered: "rs = await asyncio.gather(*[get_weather(city='x' * n) for n in range(1, 6)])\nprint(sum(r['celsius'] for r in rs))",
  loop: "total = 0\nfor n in range(5):\n    r = await mirror(value=n)\n    total += r['value']\nprint(total)",
  conditional: "r = await mirror(value=1)\nif r['value'] > 0:\n    r = await get_weather(city='yes')\nelse:\n    r = await fails()\nprint(r['city'])",
  caught: "try:\n    await fails(x=1)\nexcept Exception as e:\n    print('caught', e)",
  uncaught: "print('before')\nawait fails(x=1)",
  names: "a = await my_tool(x=1)\nb = await for_tool(y=2)\nc = await _123data(z=3)\nprint(a, b, c)",
  large: "text = 'ä' * (1 << 20)\nr = await mirror(value=text)\nprint(len(r['value']), r['value'] == text)",
  types: "v = [None, True, 1.5, 'ä\\n', {'a': [1, {}]}, 2 ** 40]\nr = await mirror(value=v)\nprint(r['value'] == v)",
  nothing: "print(await nothing())",
  slow: "print(await slow())",
  busy: "print('before')\nwhile True: pass",
  syntax: "print('before'\n",
  crash: "import os\nprint('before', flush=True)\nos._exit(3)",
  rounds: "for n in range(25): await mirror(value=n)\nprint('not reached')",
  quotes: "s = '''a\n  b'''\nawait mirror(value=s)\nprint(repr(s))",
  file: "r = await get_weather(city='Oslo')\nopen('/mnt/data/out.csv', 'w').write(r['city'])\nprint('saved')",
};

for (const [name, code] of Object.entries(scenarios)) {
  most = 0;
  used.length = 0;
  // The oldest client cannot ask for more; a busy machine may need it.
  const enough = generation === "3.0" ? 15000 : 60000;
  const timeout = ["busy", "slow"].includes(name) ? 1000 : enough;
  results[name] = { ...(await call(programmatic, { code, timeout })), used: used.length, most };
}

const many = await Promise.all(
  Array.from({ length: 12 }, (_, n) => call(programmatic, { code: `r = await mirror(value=${n + 100})\nprint('is', r['value'])`, timeout: 15000 })),
);
results.concurrent = { content: many.map((r, n) => String(r.content).includes(`is ${n + 100}`)).join() };

results.execute = await call(execute, { lang: "py", code: "print(6 * 7)\nopen('plot.txt', 'w').write('x')" });
results.executeFails = await call(execute, { lang: "py", code: "1/0" });
results.executeBash = await call(execute, { lang: "bash", code: "echo $((6 * 7))" });
results.executeOther = await call(execute, { lang: "rs", code: "fn main() {}" });

// The files of one program are those of the next.
const session = results.execute.artifact?.session_id;
const injected = (results.execute.artifact?.files ?? []).map((f) => ({ session_id: session, ...f }));
results.again = await call(
  execute,
  { lang: "py", code: "print(open('plot.txt').read())", session_id: session },
  { toolCall: { session_id: session, _injected_files: injected } },
);

if (bash) {
  results.bash = await call(bash, { code: "get_weather '{\"city\":\"SF\"}'; x=$(mirror '{\"value\":1}'); echo \"$x\"; fails '{}' || echo caught", timeout: 15000 });
}
if (generation === "3.9") {
  results.noTools = await call(programmatic, { code: "import asyncio\nawait asyncio.sleep(0)\nprint('plain')", tool_manifest: [], timeout: 15000 });
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 300);
  results.cancelled = await call(programmatic, { code: "import time\ntime.sleep(60)", timeout: 15000 }, { signal: stop.signal });
}
process.stdout.write(JSON.stringify(results));
process.exit(0);
