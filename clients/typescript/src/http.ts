/** The server refused a request, or gave no answer. */
export class PorticoError extends Error {
  override readonly name = "PorticoError";

  constructor(
    message: string,
    /** Of HTTP; 0 where no answer came. */
    readonly status = 0,
    /** The server's code of the error. */
    readonly code = "",
    /** What to do. */
    readonly detail = "",
    /** Finds the request in the server's log. */
    readonly traceId = "",
    /** How many seconds to wait, where the server says it. */
    readonly retryAfter?: number,
    options?: ErrorOptions,
  ) {
    super([message, detail].filter(Boolean).join(" "), options);
  }
}

export interface Request {
  method: "GET" | "POST";
  path: string;
  json?: unknown;
  params?: Record<string, string>;
  /** It may be sent more than once. */
  again?: boolean;
  /** It may take longer than five minutes. */
  lasts?: boolean;
  signal?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  body: unknown;
  retryAfter: number | undefined;
}

const retries = 3;

/** Waits, unless a signal ends that. */
export function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(done, seconds * 1000);
    signal?.addEventListener("abort", done, { once: true });
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      if (signal?.aborted) reject(signal.reason as Error);
      else resolve();
    }
  });
}

/** The error of an answer that is no success. */
export function refusal({ status, body, retryAfter }: Answer): PorticoError {
  const said = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = (name: string): string => (typeof said[name] === "string" ? said[name] : "");
  const message = text("errMsg") || text("error") || `The server answered with status ${status}.`;
  return new PorticoError(message, status, text("errCode"), text("errDetail"), text("traceId") || text("request_id"), retryAfter);
}

/** The error of a request without an answer. */
export function lost(cause: unknown): PorticoError {
  return new PorticoError(`The server gave no answer: ${String(cause)}`, 0, "", "", "", undefined, { cause });
}

/** Writes JSON. What JSON has no form for is an error: others would read null, or nothing, in its place. */
export function written(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) => {
    const number = typeof v === "number" && !Number.isFinite(v);
    if (number || typeof v === "function" || typeof v === "symbol" || v instanceof Map || v instanceof Set) {
      throw new TypeError(`JSON cannot say ${String(v)}`);
    }
    return v;
  });
}

/** Sends requests of one user to one server. */
export class Transport {
  constructor(
    private readonly url: string,
    private readonly key: string | undefined,
    private readonly fetcher: typeof fetch | undefined,
  ) {}

  open(request: Request, body?: string): Promise<Response> {
    const query = new URLSearchParams(request.params).toString();
    const headers: Record<string, string> = {};
    if (this.key !== undefined) headers["X-API-Key"] = this.key;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const init: RequestInit = { method: request.method, headers };
    // Without a key, the session of the browser is the credential.
    if (this.key === undefined) init.credentials = "include";
    if (body !== undefined) init.body = body;
    if (request.signal) init.signal = request.signal;
    const url = this.url + request.path + (query && `?${query}`);
    if (request.lasts && !this.fetcher && inNode()) return patient(url, init);
    return (this.fetcher ?? fetch)(url, init);
  }

  /**
   * Sends a request. What was refused for its number (429) had not begun, so that it is
   * sent again whatever it is; where no answer came, only what changes nothing twice is.
   */
  async send(request: Request): Promise<Answer> {
    const body = request.json === undefined ? undefined : written(request.json);
    for (let attempt = 0; ; attempt++) {
      let answer: Answer | undefined;
      let cause: unknown;
      try {
        answer = await read(await this.open(request, body));
      } catch (e) {
        request.signal?.throwIfAborted();
        cause = e;
      }
      const again = answer?.status === 429 || (request.again && (!answer || [502, 503, 504].includes(answer.status)));
      if (!again || attempt >= retries) {
        if (answer) return answer;
        throw lost(cause);
      }
      await pause(Math.min(answer?.retryAfter ?? 0.5 * 2 ** attempt, 60), request.signal);
    }
  }

  /** Sends a request and takes the data out of the answer. */
  async ask<T>(request: Request): Promise<T> {
    const answer = await this.send(request);
    if (answer.status !== 200) throw refusal(answer);
    const body = answer.body;
    if (typeof body !== "object" || body === null || !("data" in body)) {
      throw new PorticoError("The answer is not one of a Portico server.", answer.status);
    }
    return body.data as T;
  }
}

function inNode(): boolean {
  const { process } = globalThis as { process?: { versions?: { node?: string } } };
  return process?.versions?.node !== undefined;
}

/** What patient uses of node's modules http and https. */
interface Http {
  request(url: string, options: object, answered: (answer: Incoming) => void): { on(event: "error", fail: (e: Error) => void): void; end(body: unknown): void };
}
type Incoming = AsyncIterable<Uint8Array<ArrayBuffer>> & { statusCode: number; headers: Record<string, string> };

/** Does what fetch does, and waits for the answer however long it takes: node's fetch gives up after five minutes. */
async function patient(url: string, { body, ...options }: RequestInit): Promise<Response> {
  const module: string = url.startsWith("https:") ? "node:https" : "node:http"; // a constant would be bundled for browsers
  const { request } = (await import(module)) as Http;
  const answer = await new Promise<Incoming>((resolve, reject) => {
    const asked = request(url, options, resolve);
    asked.on("error", reject);
    asked.end(body);
  });
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  for await (const piece of answer) pieces.push(piece);
  return new Response(new Blob(pieces), { status: answer.statusCode, headers: answer.headers });
}

export async function read(response: Response): Promise<Answer> {
  const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  return { status: response.status, body, retryAfter: Number.isNaN(seconds) ? undefined : seconds };
}
