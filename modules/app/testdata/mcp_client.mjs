// A client of MCP in TypeScript, unmodified, of either generation. Prints what it saw.
// Arguments: the modules to import, the address of the server, the programs, and what
// the person says to each question, for one client after the other; null where it cannot ask.
import { pathToFileURL } from "node:url";

const [generation, modules, address, programs, said] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`).href);
const { Client, StreamableHTTPClientTransport, ElicitRequestSchema } =
  generation === "v1"
    ? {
        ...(await load("sdk/dist/esm/client/index.js")),
        ...(await load("sdk/dist/esm/client/streamableHttp.js")),
        ...(await load("sdk/dist/esm/types.js")),
      }
    : await load("client/dist/index.mjs");

// talk is all that one client does.
async function talk(answers) {
  const seen = { asked: [], progress: [], results: [] };
  const client = new Client({ name: "test", version: "1" }, { capabilities: answers ? { elicitation: {} } : {} });
  if (answers)
    client.setRequestHandler(ElicitRequestSchema ?? "elicitation/create", async (request) => {
      seen.asked.push(request.params.message);
      return answers[seen.asked.length - 1];
    });
  const transport = new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers: { "X-API-Key": process.env.KEY } } });
  await client.connect(transport);
  seen.version = transport.protocolVersion ?? client.getNegotiatedProtocolVersion();
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  const onprogress = ({ message }) => seen.progress.push(message);
  for (const code of JSON.parse(programs)) {
    const call = { name: "run_code", arguments: { code } };
    const result = generation === "v1" ? await client.callTool(call, undefined, { onprogress }) : await client.callTool(call, { onprogress });
    seen.results.push({ error: result.isError ?? false, value: result.structuredContent, text: result.content[0].text });
  }
  seen.resource = (await client.readResource({ uri: seen.results[0].value.run })).contents[0].text;
  await client.close();
  return seen;
}

const all = [];
for (const answers of JSON.parse(said)) all.push(await talk(answers));
console.log(JSON.stringify(all));
