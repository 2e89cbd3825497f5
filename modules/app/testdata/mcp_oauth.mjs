// A client of MCP in TypeScript that gets tokens by OAuth, unmodified, of either
// generation. Arguments: the modules to import, the address of the server, and of a
// browser, which is asked for a page and answers with the address that it led back to.
import { pathToFileURL } from "node:url";

const [generation, modules, address, browser] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`).href);
const { Client, StreamableHTTPClientTransport } =
  generation === "v1"
    ? { ...(await load("sdk/dist/esm/client/index.js")), ...(await load("sdk/dist/esm/client/streamableHttp.js")) }
    : await load("client/dist/index.mjs");

const seen = { pages: 0, results: [] };
const visit = async (page) => (await fetch(`${browser}?${new URLSearchParams({ page })}`)).text();
const kept = {};
let went;
const authProvider = {
  redirectUrl: "http://127.0.0.1:7100/callback",
  clientMetadata: { client_name: "TypeScript", redirect_uris: ["http://127.0.0.1:7100/callback"] },
  state: () => "state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: async (page) => {
    seen.pages++;
    went = new URL(await visit(page.href)).searchParams;
  },
};
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider });
  const client = new Client({ name: "test", version: "1" });
  try {
    await client.connect(transport);
  } catch (error) {
    if (!went) throw error;
    await transport.finishAuth(generation === "v1" ? went.get("code") : went);
    went = undefined;
    return connect();
  }
  return client;
};
const client = await connect();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
for (let i = 0; i < 2; i++) {
  const result = await client.callTool({ name: "run_code", arguments: { code: "print(get_weather(city='Oslo', days=1)['city'])" } });
  seen.results.push(result.structuredContent.stdout);
  await visit("expire");
}
console.log(JSON.stringify(seen));
await client.close();
