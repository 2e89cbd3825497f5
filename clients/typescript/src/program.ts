import type { paths } from "./api.js";
import { refusal, type Transport, written } from "./http.js";

type Execution = paths["/v1/sandbox/execute"]["post"]["requestBody"]["content"]["application/json"];

/** A function of this process that programs on the server may call. */
export interface Tool {
  name: string;
  description?: string;
  /** JSON Schema of its arguments, an object. */
  parameters?: Record<string, unknown>;
  /** What it returns must be JSON; what it throws is raised in the program, as text. */
  run(input: Record<string, unknown>): unknown;
}

export interface ProgramOptions {
  language?: Execution["language"];
  toolsets?: string[];
  /** A program with tools is Python or bash. */
  tools?: Tool[];
  timeoutMs?: number;
  /** Not of a program with tools. */
  canvasId?: string;
  signal?: AbortSignal;
}

/** What came of a program. */
export interface ProgramResult {
  /** completed, or how it failed: failed, timed_out, out_of_memory, cancelled or killed. */
  status: string;
  ok: boolean;
  stdout: string;
  stderr: string;
  /** Why it failed, in words, where the server says it. */
  error: string;
  raw: Record<string, unknown>;
}

interface Round {
  status: string;
  stdout?: string | null;
  stderr?: string | null;
  error?: string | null;
  /** failed, timeout, out_of_memory, cancelled or runtime_unavailable. */
  error_code?: string;
  continuation_token?: string | null;
  tool_calls?: { id: string; name: string; input: Record<string, unknown> | null }[] | null;
}

/** Runs a program to its end. One that fails throws nothing. */
export async function executeProgram(transport: Transport, code: string, options: ProgramOptions): Promise<ProgramResult> {
  const { tools = [], toolsets = [], language = "python", timeoutMs, canvasId, signal } = options;
  if (tools.length > 0) return withTools(transport, code, options);
  const json = { code, language, toolsets, ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }), ...(canvasId === undefined ? {} : { canvasId }) };
  const raw = await transport.ask<Record<string, unknown> & { status: string; stdout: string; stderr: string; errorCode?: string }>({
    method: "POST", path: "/v1/sandbox/execute", json, lasts: true, signal,
  });
  return { status: raw.status, ok: raw.status === "completed", stdout: raw.stdout, stderr: raw.stderr, error: raw.errorCode ?? "", raw };
}

async function withTools(transport: Transport, code: string, options: ProgramOptions): Promise<ProgramResult> {
  const { tools = [], toolsets = [], language = "python", timeoutMs, signal } = options;
  if (options.canvasId !== undefined) throw new TypeError("a program with tools of this process has no canvasId");
  const byName = new Map(tools.map((t) => [t.name, t]));
  if (byName.size < tools.length) throw new TypeError("two tools have one name");
  let json: unknown = {
    code, lang: language, toolsets, tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
  };
  for (;;) {
    const answer = await transport.send({ method: "POST", path: "/v1/exec/programmatic", json, lasts: true, signal });
    const got = answer.body as Round | null | undefined;
    // What a program wrote is in every answer about one, whatever the status. One that the sandbox lost has no end.
    if (typeof got !== "object" || got === null || !("stdout" in got) || got.error_code === "runtime_unavailable") throw refusal(answer);
    if (got.status !== "tool_call_required") {
      const why = got.error_code === "timeout" ? "timed_out" : got.error_code;
      const status = got.status === "completed" ? "completed" : why ?? "failed";
      return { status, ok: status === "completed", stdout: got.stdout ?? "", stderr: got.stderr ?? "", error: got.error ?? "", raw: { ...got } };
    }
    const calls = got.tool_calls ?? [];
    json = {
      continuation_token: got.continuation_token,
      tool_results: await Promise.all(calls.map(async (c) => ({ call_id: c.id, ...(await call(byName.get(c.name), c.name, c.input ?? {})) }))),
    };
  }
}

async function call(tool: Tool | undefined, name: string, input: Record<string, unknown>): Promise<Record<string, unknown>> {
  try {
    if (!tool) throw new Error(`there is no tool ${name}`);
    const result = await tool.run(input);
    written(result); // what is not JSON is the tool's failure, not the program's
    return { result: result === undefined ? null : result, is_error: false };
  } catch (e) {
    return { result: null, is_error: true, error_message: String(e) };
  }
}
