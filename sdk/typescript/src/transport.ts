/** Transport: every call to the API, its retries, and how failures become errors. */

import { CallError, InvalidArgument, Redactor, shown } from "./errors.js";
import { type CallOptions, DECIMALS } from "./generated.js";

export const RETRY = { maxAttempts: 5, initialBackoff: 200, maxBackoff: 10_000, maxRetryAfter: 60, budget: 100 };
const MAX_RESPONSE = 16 * 1024 * 1024;
const RETENTION = "idempotency-key-retention";
const CHECK_BASE_URL = "check that the base URL leads to the service and ends in its versioned root, such as /api/v1";
/** Errors of Node.js before anything was sent. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT", "EHOSTUNREACH", "ENETUNREACH"];

/** A time limit of an operation, and the signal of its caller. */
export class Deadline {
  readonly at: number;
  constructor(readonly milliseconds = Infinity, readonly signal?: AbortSignal) {
    if (!(milliseconds >= 0)) throw new InvalidArgument(`deadlineMs: ${milliseconds} is no number of milliseconds`);
    this.at = performance.now() + milliseconds;
  }
  get left(): number {
    return Math.max(this.at - performance.now(), 0);
  }
  get isOver(): boolean {
    return this.left === 0;
  }
  allows(delay: number): boolean {
    return delay < this.left;
  }
  /** Waits; rejects with the reason of the caller's signal. */
  sleep(delay: number): Promise<void> {
    this.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const abort = () => (clearTimeout(timer), reject(this.signal?.reason));
      const timer = setTimeout(() => (this.signal?.removeEventListener("abort", abort), resolve()), delay);
      this.signal?.addEventListener("abort", abort, { once: true });
    });
  }
}

/** A response with its body in memory. */
export interface Reply {
  status: number;
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
  url: string;
}

/** The body of a response is larger than the limit. */
export class TooLarge extends Error {}

export interface ClientOptions {
  /** Root of the API, ends in `/api/v1`. */
  baseUrl: string;
  /** Keep it on a server of your own: anyone who opens a page can read a key in it. */
  apiKey: string;
  /** Limits each attempt of a call. Default: 60 s. */
  timeoutMs?: number;
  /** Another implementation of `fetch`, such as one through a proxy. */
  fetch?: typeof fetch;
}

/** Settings of a client and its memory. */
export class Core {
  readonly baseUrl: string;
  readonly redactor: Redactor;
  readonly timeout: number;
  readonly #key: string;
  readonly #fetch: typeof fetch;
  #date: { time: number; at: number } | undefined;
  /** Whether the service announces that it knows idempotency keys. */
  knowsKeys = false;
  #budget = RETRY.budget;
  /** Tasks of this client: a lost create must not adopt one of them. */
  readonly known = new Bounded<true>();
  readonly taskInputs = new Bounded<string>();
  /** Creates whose outcome is open: their model and inputs, and until when. */
  readonly creates = new Map<symbol, { identity: string; until: number }>();
  readonly durations = new Map<string, number[]>();
  readonly declarations = new Map<string, { at: number; declared: Record<string, unknown> }>();

  constructor({ baseUrl, apiKey, timeoutMs = 60_000, fetch: send = globalThis.fetch }: ClientOptions) {
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.search || url.username) {
      throw new InvalidArgument(`baseUrl: ${shown(baseUrl)} is not the root of an API; expected a URL such as https://host/api/v1`);
    }
    if (!/^[!-~]+$/.test(apiKey)) throw new InvalidArgument("apiKey: it is empty, or has characters that a header cannot carry");
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.#key = apiKey;
    this.redactor = new Redactor([apiKey]);
    this.timeout = timeoutMs;
    this.#fetch = send;
  }

  /** The time by the clock of the service, if a response has shown it. */
  serviceTime(): number | undefined {
    return this.#date && this.#date.time + performance.now() - this.#date.at;
  }

  #note({ status, headers }: Reply): void {
    if (status >= 200 && status < 300) {
      const time = Date.parse(headers.get("date") ?? "");
      if (!Number.isNaN(time)) this.#date = { time, at: performance.now() };
      this.knowsKeys = headers.has(RETENTION);
      this.#budget = Math.min(this.#budget + 0.5, RETRY.budget);
    } else if (headers.has(RETENTION)) {
      this.knowsKeys = true;
    }
  }

  /** Sends a request once, and reads its response up to a size and a time. */
  async exchange(url: string, init: RequestInit, deadline: Deadline, timeout: number, maxSize: number): Promise<Reply> {
    const signals = [AbortSignal.timeout(Math.ceil(Math.min(timeout, deadline.left, 2 ** 31 - 2)))];
    if (deadline.signal) signals.push(deadline.signal);
    // `fetch` is a function of its own, not a method.
    const send = this.#fetch;
    const response = await send(url, { redirect: "manual", credentials: "omit", cache: "no-store", ...init, signal: AbortSignal.any(signals) });
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    for (const reader = response.body?.getReader(); reader; ) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > maxSize) {
        await reader.cancel();
        if (response.ok) throw new TooLarge();
        break;
      }
      parts.push(value);
    }
    return { status: response.status, headers: response.headers, body: new Uint8Array(await new Blob(parts).arrayBuffer()), url: response.url || url };
  }

  /** Sends a call, retries it as far as it is safe, and returns the `data` of its envelope. */
  async call<T>(operation: string, method: string, path: string, deadline: Deadline, options: CallOptions & { key?: string } = {}): Promise<T> {
    const { body, query = {}, repeatable = true, key } = options;
    const url = new URL(this.baseUrl + path);
    for (const [name, value] of Object.entries(query)) if (value != null) url.searchParams.set(name, String(value));
    const content = body === undefined ? undefined : encode(body);
    let inDoubt = false;
    for (let attempt = 1; ; attempt++) {
      const headers = new Headers({ "x-api-key": this.#key, accept: "application/json" });
      if (content !== undefined) headers.set("content-type", "application/json");
      if (key !== undefined) headers.set("idempotency-key", key);
      let error: CallError;
      try {
        return await this.#attempt<T>(operation, url.href, { method, headers, ...(content !== undefined && { body: content }) }, deadline);
      } catch (failure) {
        if (!(failure instanceof CallError)) throw failure;
        error = failure;
      }
      // With a key, whatever leaves a doubt is sent again.
      const isKeyed = key !== undefined && this.knowsKeys;
      const mayRetry = error.context.unsent || ((repeatable || isKeyed) && passes(error)) || (isKeyed && error.context.inDoubt);
      inDoubt ||= error.context.inDoubt ?? false;
      if (!mayRetry || !(await this.backoff(attempt, error.context.retryAfter, deadline))) {
        error.attempts = attempt;
        error.context.inDoubt = inDoubt;
        error.isRetryable = Boolean(mayRetry) && !error.isPermanent;
        if (attempt > 1) error.message += ` (after ${attempt} attempts)`;
        throw error;
      }
    }
  }

  /** Waits for the backoff; `false` when there must be no further attempt. */
  async backoff(attempts: number, retryAfter: number | undefined, deadline: Deadline): Promise<boolean> {
    const longest = Math.min(RETRY.initialBackoff * 2 ** (attempts - 1), RETRY.maxBackoff);
    const delay = Math.max(Math.random() * longest, (retryAfter ?? 0) * 1000);
    if (attempts >= RETRY.maxAttempts || (retryAfter ?? 0) > RETRY.maxRetryAfter || !deadline.allows(delay)) return false;
    if (this.#budget < 1) return false;
    this.#budget--;
    await deadline.sleep(delay);
    return true;
  }

  async #attempt<T>(operation: string, url: string, init: RequestInit, deadline: Deadline): Promise<T> {
    const check = "check the network and the base URL, then try again";
    const failed = (problem: string, unsent: boolean) =>
      new CallError(operation, "transport", `${operation} got no response: ${problem}`, check, { unsent, inDoubt: !unsent });
    deadline.signal?.throwIfAborted();
    if (deadline.isOver) throw failed("the deadline passed before it was sent", true);
    let reply: Reply;
    try {
      reply = await this.exchange(url, init, deadline, this.timeout, MAX_RESPONSE);
    } catch (error) {
      if (error instanceof TooLarge) {
        const problem = `${operation}: the response is larger than ${MAX_RESPONSE} bytes`;
        throw new CallError(operation, "too-large", problem, CHECK_BASE_URL, { inDoubt: true });
      }
      deadline.signal?.throwIfAborted();
      throw failed(this.redactor.foreign(reasonOf(error), 200), UNSENT.includes(codeOf(error)));
    }
    this.#note(reply);
    return this.#open<T>(operation, reply);
  }

  /** Returns the `data` of a success; throws the error of anything else. */
  #open<T>(operation: string, { status, headers, body }: Reply): T {
    const text = new TextDecoder().decode(body);
    let envelope: Record<string, unknown> = {};
    try {
      envelope = asObject(decode(text));
    } catch {
      // What is no JSON is none of the service.
    }
    const isSuccess = status >= 200 && status < 300;
    if (isSuccess && envelope["status"] === "success") return envelope["data"] as T;
    const excerpt = this.redactor.foreign(text, 200);
    if (isSuccess && typeof envelope["status"] !== "string") {
      const problem = `${operation}: the response with ${status} is none of this service: ${excerpt}`;
      throw new CallError(operation, "decode", problem, CHECK_BASE_URL, { status, inDoubt: true });
    }
    const message = typeof envelope["message"] === "string" ? this.redactor.foreign(envelope["message"]) : undefined;
    const requestId = headers.get("x-request-id");
    const wait = retryAfterOf(headers);
    const reason = message ?? excerpt;
    throw new CallError(operation, "api", `${operation} failed${isSuccess ? "" : ` with ${status}`}${reason && `: ${reason}`}`, hintOf(status), {
      status,
      inDoubt: status === 408 || status >= 500,
      ...(message !== undefined && { serviceMessage: message }),
      ...(requestId && { requestId: this.redactor.foreign(requestId, 200) }),
      ...(wait !== undefined && { retryAfter: wait }),
    });
  }
}

/** A map that forgets its oldest entries. */
export class Bounded<T> extends Map<string, T> {
  override set(key: string, value: T): this {
    super.set(key, value);
    if (this.size > 100_000) for (const oldest of this.keys()) return this.delete(oldest), this;
    return this;
  }
}

/** Whether the failure of a read may pass. */
function passes(error: CallError): boolean {
  return error.kind === "api" ? [408, 429, 502, 503, 504].includes(error.status ?? 0) : error.kind !== "too-large";
}

function hintOf(status: number): string {
  if (status === 408 || status === 429 || status >= 500) {
    return "try again later; where the call changes something, check first whether it had its effect";
  }
  const known: Record<number, string> = {
    401: "check the API key, and that the base URL leads to its service",
    402: "top up the balance of the account",
    404: "check the identifier, and that the base URL ends in the versioned root, such as /api/v1",
    409: "read the message of the service; the present state does not allow the call",
  };
  return known[status] ?? "fix what the service names, or the arguments; the same call fails again";
}

function codeOf(error: unknown): string {
  const cause = asObject(asObject(error)["cause"]);
  return String(cause["code"] ?? asObject((cause["errors"] as unknown[] | undefined)?.[0])["code"] ?? "");
}

export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "the connection failed";
  const cause = error.cause instanceof Error ? error.cause.message || codeOf(error) : "";
  return error.name === "TimeoutError" ? "it was not complete in time" : cause || error.message;
}

/** The seconds that a response asks to wait. A date is compared with the `Date` of the same response. */
export function retryAfterOf(headers: Headers): number | undefined {
  const value = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value);
  const now = Date.parse(headers.get("date") ?? "");
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max((date - (Number.isNaN(now) ? Date.now() : now)) / 1000, 0);
}

export function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

/** Parses JSON without losing a digit: a number that no double holds, and each exact decimal, becomes text. */
export function decode(text: string): unknown {
  const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const kept = text.replace(tokens, (token) =>
    token.startsWith('"') || token.length < 16 || compareDecimals(token, String(Number(token))) === 0 ? token : `"${token}"`);
  return JSON.parse(kept, (name, value: unknown) => (typeof value === "number" && DECIMALS.has(name) ? plainNumber(value) : value));
}

function encode(value: unknown): string {
  try {
    const text = JSON.stringify(value, (name, member: unknown) => {
      if (typeof member === "number" && !Number.isFinite(member)) throw new InvalidArgument(`${name}: ${member} is no number of JSON`);
      return member;
    });
    if (text !== undefined) return text;
  } catch (error) {
    if (error instanceof InvalidArgument) throw error;
  }
  throw new InvalidArgument("the inputs cannot be sent as JSON");
}

/** A number as plain digits. */
export function plainNumber(value: number): string {
  const [mantissa = "", exponent] = String(value).split("e");
  if (exponent === undefined) return mantissa;
  const { digits, scale } = parts(String(value)) ?? { digits: 0n, scale: 0 };
  const text = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, "0");
  const sign = digits < 0n ? "-" : "";
  return sign + (scale ? `${text.slice(0, -scale)}.${text.slice(-scale)}` : text);
}

/** An exact decimal as digits and the number of those behind the point; `undefined` for what is none. */
function parts(text: string): { digits: bigint; scale: number } | undefined {
  const match = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,4}))?$/.exec(text.trim());
  if (!match || !(match[2] || match[3])) return undefined;
  const scale = match[3]!.length - Number(match[4] ?? 0);
  const digits = BigInt(`${match[2]}${match[3]}`) * (match[1] === "-" ? -1n : 1n);
  return scale < 0 ? { digits: digits * 10n ** BigInt(-scale), scale: 0 } : { digits, scale };
}

/** Compares two decimals exactly; `undefined` when one of them is none. */
export function compareDecimals(one: unknown, other: unknown): number | undefined {
  const [first, second] = [parts(String(one)), parts(String(other))];
  if (!first || !second) return undefined;
  const scale = Math.max(first.scale, second.scale);
  const [left, right] = [first, second].map(({ digits, scale: own }) => digits * 10n ** BigInt(scale - own));
  return left! < right! ? -1 : left! > right! ? 1 : 0;
}
