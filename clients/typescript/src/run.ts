import type { components, paths } from "./api.js";
import { lost, pause, PorticoError, read, refusal, type Transport } from "./http.js";

type Json<Operation> = Operation extends { responses: { 200: { content: { "application/json": infer T } } } } ? T : never;
type Data<Operation> = NonNullable<Json<Operation> extends { data?: infer T } ? T : never>;

/** A run as it is at the moment. */
export type RunResult = Data<paths["/v1/action/result"]["get"]>;

/** One event of a run. Which there are, docs/programs.md and docs/agents.md say. */
export type RunEvent = components["schemas"]["Event"] & { id: number };

/** How often a stream is opened again without an event between. */
const patience = 8;

/** A run of an agent. */
export class Run {
  constructor(
    private readonly transport: Transport,
    readonly resultId: string,
    readonly version: number,
  ) {}

  /**
   * Follows the run to its end, from the event after a number. The stream is opened
   * again where it breaks off; no event is lost, and none comes twice.
   */
  async *events(options: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<RunEvent, void, undefined> {
    const { signal } = options;
    let last = options.after ?? 0;
    for (let failures = 0; ; failures++) {
      let problem: PorticoError;
      try {
        const response = await this.open(last, signal);
        if (response.status === 204) return; // the run has ended, and there is nothing more
        for await (const event of eventsOf(response)) {
          if (event.id > 0 && event.id <= last) continue;
          last = Math.max(last, event.id);
          failures = 0;
          yield event;
          if (event.event === "end") return;
        }
        problem = new PorticoError("The stream of the run broke off.");
      } catch (e) {
        signal?.throwIfAborted();
        problem = e instanceof PorticoError ? e : lost(e);
      }
      const refused = problem.status >= 400 && problem.status < 500 && ![408, 429].includes(problem.status);
      if (refused || failures >= patience) throw problem;
      await pause(Math.max(Math.min(0.25 * 2 ** failures, 10), problem.retryAfter ?? 0), signal);
    }
  }

  private open(after: number, signal?: AbortSignal): Promise<Response> {
    const path = `/v1/action/${encodeURIComponent(this.resultId)}/events`;
    const params = { version: String(this.version), lastEventId: String(after) };
    return this.transport.open({ method: "GET", path, params, signal });
  }

  /** The run as it is at the moment, with all of its messages, which come in several answers where there are many. */
  async result(): Promise<RunResult> {
    const messages: RunResult["messages"] = [];
    const steps = new Map<string, Step>();
    const params: Record<string, string> = { resultId: this.resultId, version: String(this.version) };
    for (;;) {
      const { messagesCursor, ...page } = await this.transport.ask<RunResult>({ method: "GET", path: "/v1/action/result", params, again: true });
      messages.push(...page.messages);
      for (const step of page.steps) {
        const before = steps.get(step.name);
        steps.set(step.name, before ? joined(before, step) : step);
      }
      if (!messagesCursor) return { ...page, messages, steps: [...steps.values()] };
      params.messagesAfter = messagesCursor;
    }
  }

  /** Waits for the end of the run. */
  async wait(options: { signal?: AbortSignal } = {}): Promise<RunResult> {
    for await (const _ of this.events(options)); // to the last one
    return this.result();
  }

  /** Ends the run. False when it had ended before. */
  async abort(): Promise<boolean> {
    const json = { resultId: this.resultId, version: this.version };
    const { aborted } = await this.transport.ask<{ aborted: boolean }>({ method: "POST", path: "/v1/action/abort", json, again: true });
    return aborted;
  }
}

type Step = RunResult["steps"][number];

/** A step whose messages came in two answers. */
function joined(before: Step, after: Step): Step {
  const reasoningContent = (before.reasoningContent ?? "") + (after.reasoningContent ?? "");
  return {
    ...before, content: before.content + after.content, ...(reasoningContent && { reasoningContent }),
    toolCalls: [...before.toolCalls, ...after.toolCalls], tokenUsage: [...before.tokenUsage, ...after.tokenUsage],
  };
}

/** Reads server-sent events. */
async function* eventsOf(response: Response): AsyncGenerator<RunEvent, void, undefined> {
  if (response.status !== 200 || !response.body) throw refusal(await read(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let rest = "";
    let id = "";
    let data: string[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event that is not whole does not count
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield { ...(JSON.parse(data.join("\n")) as RunEvent), id: Number(id) || 0 };
          id = "";
          data = [];
        } else if (line.startsWith("id:")) id = line.slice(3).trimStart();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have broken off already
  }
}
