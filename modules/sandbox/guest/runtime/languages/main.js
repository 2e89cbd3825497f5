// Runs a JavaScript or TypeScript program: as a script if it is one, otherwise as
// a module. Tools are functions that take an object and return a promise; those
// called together leave together.
"use strict";

const fs = require("fs");
const http = require("http");
const { createRequire, stripTypeScriptTypes } = require("module");
const vm = require("vm");

const folder = "/tmp/.portico";
const typed = fs.existsSync(`${folder}/main.ts`);
const name = typed ? "main.ts" : "main.js";
const program = `/mnt/data/${name}`;
const written = fs.readFileSync(`${folder}/${name}`, "utf8");
const source = typed ? untyped(written) : written;
const tools = JSON.parse(fs.readFileSync(`${folder}/tools.json`, "utf8")) || [];
process.argv.splice(1, 1, program);

// The program without its types, which leave spaces behind: what comes after them
// stays where it was. What is more than a type, such as an enum, is written anew;
// then a map leads back to the lines of the program.
function untyped(text) {
  try {
    try {
      return stripTypeScriptTypes(text, { sourceUrl: program });
    } catch (error) {
      if (error.code !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") throw error;
      process.setSourceMapsEnabled(true);
      return stripTypeScriptTypes(text, { mode: "transform", sourceMap: true, sourceUrl: program });
    }
  } catch (error) {
    process.stderr.write(error.stack.replace(/\n    at .*/g, "") + "\n");
    process.exit(1);
  }
}

class ToolExecutionError extends Error {
  constructor(message, code = "", url = "") {
    super(message);
    this.name = "ToolExecutionError";
    this.code = code;
    this.url = url; // where a person authorizes the tool's server
  }
}

// A call that a person refused, and one that nobody allowed in time. Nothing was
// sent; reason says why.
class ApprovalDenied extends ToolExecutionError {
  constructor(message, reason) {
    super(message, "APPROVAL_DENIED");
    this.name = "ApprovalDenied";
    this.reason = reason || message;
  }
}
class ApprovalTimeout extends ToolExecutionError {
  constructor(message, reason) {
    super(message, "APPROVAL_TIMEOUT");
    this.name = "ApprovalTimeout";
    this.reason = reason || message;
  }
}
const failures = { APPROVAL_DENIED: ApprovalDenied, APPROVAL_TIMEOUT: ApprovalTimeout };

function failed({ error, errorCode, data }) {
  const Kind = failures[errorCode];
  if (Kind) return new Kind(error, data?.reason);
  const url = errorCode === "AUTH_NEEDED" ? data?.url : "";
  return new ToolExecutionError(error || "the tool failed", errorCode, url);
}

// The line of the program that makes a call, for whoever watches it; 0 where
// nobody knows. Imported files of the program have other names.
const modules = `${folder}/main.mjs`;
function line() {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  const { stack } = new Error();
  Error.stackTraceLimit = limit;
  for (const frame of String(stack).split("\n")) {
    for (const file of [program, modules]) {
      const at = frame.lastIndexOf(`${file}:`);
      if (at >= 0) return parseInt(frame.slice(at + file.length + 1), 10) || 0;
    }
  }
  return 0;
}

function post(path, request, line = 0) {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(request);
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    if (line) headers["X-PTC-Line"] = line;
    const sent = http.request({ socketPath: "/run/portico/tool.sock", path, method: "POST", headers }, (answer) => {
      const pieces = [];
      answer.on("data", (piece) => pieces.push(piece));
      answer.on("error", reject);
      answer.on("end", () => {
        let envelope = {};
        try {
          envelope = JSON.parse(Buffer.concat(pieces).toString());
        } catch {
          // said below, with the status
        }
        if (answer.statusCode === 200) return resolve(envelope);
        const said = [envelope.errMsg, envelope.errDetail].filter(Boolean).join(" ");
        reject(new ToolExecutionError(said || `the tools answered with status ${answer.statusCode}`));
      });
    });
    sent.on("error", (error) => reject(new ToolExecutionError(`the tools cannot be reached: ${error.message}`)));
    sent.end(body);
  });
}

let round = [];

function flush() {
  const batch = round;
  round = [];
  post("/v1/program/calls", { calls: batch.map(({ name, input }) => ({ name, input })) }).then(
    ({ results }) =>
      batch.forEach(({ resolve, reject }, n) =>
        results[n].error == null ? resolve(results[n].result ?? null) : reject(new ToolExecutionError(results[n].error)),
      ),
    (error) => batch.forEach(({ reject }) => reject(error)),
  );
}

function define({ name, toolset, parameters }) {
  const nullable = new Set((parameters || []).filter((p) => p.required && p.nullable).map((p) => p.name));
  return async (input = {}) => {
    const given = Object.fromEntries(Object.entries(input).filter(([key, value]) => value != null || (value === null && nullable.has(key))));
    if (!toolset) {
      return new Promise((resolve, reject) => {
        if (round.length === 0) setImmediate(flush);
        round.push({ name, input: given, resolve, reject });
      });
    }
    const { data } = await post("/v1/tool/execute", { toolsetKey: toolset, toolName: name, arguments: given }, line());
    if (data.status === "error") throw failed(data);
    return data.data;
  };
}

// A function that calls a tool for every value, a few at a time, and returns the
// results in the order of the values.
function defineEach(tool) {
  const one = define(tool);
  const [parameter] = tool.parameters;
  return async (values) => {
    const list = Array.from(values);
    const results = new Array(list.length);
    let next = 0;
    const work = async () => {
      while (next < list.length) {
        const n = next++;
        results[n] = await one({ [parameter.name]: list[n] });
      }
    };
    await Promise.all(Array.from({ length: Math.min(4, list.length) }, work));
    return results;
  };
}

for (const tool of tools) {
  globalThis[tool.identifier] = tool.each ? defineEach(tool) : define(tool);
  if (!tool.space) continue;
  // What the language itself has under the name keeps what it has.
  const space = (globalThis[tool.space] ??= {});
  if (Object(space) === space && !(tool.member in space)) space[tool.member] = globalThis[tool.identifier];
}
if (tools.length > 0) Object.assign(globalThis, { ToolExecutionError, ApprovalDenied, ApprovalTimeout });
globalThis.require = createRequire(program);

function isScript() {
  try {
    new vm.Script(`(function (exports, require, module, __filename, __dirname) {${source}\n})`, { filename: program });
    return true;
  } catch {
    return false; // a module, or wrong in both ways: the module's error is shown
  }
}

if (isScript()) {
  const Module = require("module");
  const main = new Module(program, null);
  main.filename = program;
  main.paths = [];
  process.mainModule = main;
  main._compile(source, program);
} else {
  const path = `${folder}/main.mjs`;
  fs.writeFileSync(path, source);
  globalThis.__filename = program;
  globalThis.__dirname = "/mnt/data";
  import(path).catch((error) => {
    const shown = error && error.stack ? error.stack : String(error);
    process.stderr.write(shown.replaceAll(`file://${path}`, program) + "\n");
    process.exitCode = 1;
  });
}
