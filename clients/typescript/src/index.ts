import type { components, paths } from "./api.js";
import { Transport } from "./http.js";
import { executeProgram, type ProgramOptions, type ProgramResult } from "./program.js";
import { Run, type RunResult } from "./run.js";

export { PorticoError } from "./http.js";
export type { ProgramOptions, ProgramResult, Tool } from "./program.js";
export { Run, type RunEvent, type RunResult } from "./run.js";
/** All types of the API's document. */
export type { components, paths };

type Invocation = paths["/v1/skill/invoke"]["post"]["requestBody"]["content"]["application/json"];
/** What a run may be begun with, beside its question. */
export type RunOptions = Omit<Invocation, "query" | "input" | "version">;
/** A call that waits for a person, or did. */
export type Approval = components["schemas"]["ApprovalBody"];
/** How a call that waits is decided: docs/approvals.md#deciding. */
export type Decision = Omit<paths["/v1/tool/call/decide"]["post"]["requestBody"]["content"]["application/json"], "callId">;

export interface PorticoOptions {
  /** Where the server is; the page's own origin when left out in a browser. */
  url?: string;
  /** Left out, the session of the browser is the credential. */
  apiKey?: string;
  /** In the place of the global one. In node, programs are waited for without it, since it gives up after five minutes. */
  fetch?: typeof fetch;
}

/** A client of a Portico server. */
export class Portico {
  private readonly transport: Transport;

  constructor({ url = "", apiKey, fetch: fetcher }: PorticoOptions = {}) {
    this.transport = new Transport(url.replace(/\/+$/, ""), apiKey, fetcher);
  }

  /** Lets an agent answer. What the options mean: docs/agents.md#a-run. */
  async startRun(query: string, options: RunOptions = {}): Promise<Run> {
    const { resultId, version } = await this.transport.ask<{ resultId: string; version: number }>({
      method: "POST", path: "/v1/skill/invoke", json: { ...options, query },
    });
    return new Run(this.transport, resultId, version);
  }

  /** Finds a run, in its newest version. */
  async run(resultId: string): Promise<Run> {
    const r = await this.transport.ask<RunResult>({ method: "GET", path: "/v1/action/result", params: { resultId }, again: true });
    return new Run(this.transport, r.resultId, r.version);
  }

  /** Runs a program to its end, whose tools may be functions of this process. */
  executeProgram(code: string, options: ProgramOptions = {}): Promise<ProgramResult> {
    return executeProgram(this.transport, code, options);
  }

  /** Lists calls that wait for a person; all for those that are decided, too. */
  async approvals(state: "waiting" | "all" = "waiting"): Promise<Approval[]> {
    const all: Approval[] = [];
    for (let params: Record<string, string> = { limit: "100" }; ; ) {
      const page = await this.transport.ask<{ items: Approval[]; nextCursor?: string }>({
        method: "GET", path: "/v1/tool/approvals", params: { ...params, state }, again: true,
      });
      all.push(...page.items);
      if (!page.nextCursor) return all;
      params = { cursor: page.nextCursor };
    }
  }

  /** Decides a call that waits. */
  decide(callId: string, decision: Decision): Promise<Approval> {
    return this.transport.ask({ method: "POST", path: "/v1/tool/call/decide", json: { ...decision, callId } });
  }
}
