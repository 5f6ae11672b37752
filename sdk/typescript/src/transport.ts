/** Transport: every call to the API, its retries, and how failures become errors. */

import { CallError, DeadlineReached, FileError, InferstoreError, InvalidArgument, OutcomeUnknown } from "./errors.js";
import { type Disposition, isTransient, Redactor, shown } from "./errors.js";
import { type CallOptions, DECIMALS, Operations } from "./generated.js";

export const RETRY = { maxAttempts: 5, initialBackoff: 200, maxBackoff: 10_000, maxRetryAfter: 60, budget: 100 };
const MAX_RESPONSE = 16 * 1024 * 1024;
const RETENTION = "idempotency-key-retention";
/** Part of the retention that is not relied on, in milliseconds: the clocks of the service may differ. */
const RETENTION_MARGIN = 3_600_000;
const CHECK_BASE_URL = "check that the base URL leads to the service and ends in its versioned root, such as /api/v1";
const CHECK_NETWORK = "check the network and the base URL, then try again";
const HINTS: Record<number, string> = {
  401: "check the API key, and that the base URL leads to its service",
  402: "top up the balance, or raise the limit that the message names",
  404: "check the identifier, and that the base URL ends in the versioned root, such as /api/v1",
  409: "read the message of the service; the present state does not allow the call",
};
const USE_TARGET = "if the service is there, use that address as the base URL; the client follows no redirect with the API key";
const TRY_LATER = "try again later; where the call changes something, check first whether it had its effect";
const FIX = "fix what the service names, or the arguments; the same call fails again";
/** Errors of Node.js before anything was sent. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT", "EHOSTUNREACH", "ENETUNREACH"];

/** Hosts that are this machine. */
const LOOPBACK = /^((.+\.)?localhost|127\.[0-9.]+|\[::(1|ffff:7f[0-9a-f]{2}:[0-9a-f]+)\])$/;
/** What each signal of a caller ends. It has one listener, because Node.js warns of more than ten. */
const ENDS = new WeakMap<AbortSignal, Set<() => void>>();

/** Options of every operation that takes long. */
export interface LimitOptions {
  /** Time limit for everything. Default: none. */
  deadlineMs?: number | undefined;
  /** Ends the operation. A task that was created stays, and so do inputs that were stored. */
  signal?: AbortSignal | undefined;
}

/** The steady and the wall clock. A suspend of the machine may stop the steady one. */
export const clocks = () => [performance.now(), Date.now()] as const;

/** A response, with its body in memory. */
export type Reply = [response: Response, body: Blob];

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
  /** Sends the key over plain http to other machines too, where everyone in between can read it. */
  allowInsecureHttp?: boolean;
}

/** A create that may still add its task to the history, with the fingerprint of its inputs. */
export type OpenCreate = { model: string; inputs: string; until: number };

/** Settings of a client and its memory. */
export class Core {
  readonly baseUrl: string;
  readonly redactor: Redactor;
  readonly timeout: number;
  /** Another implementation of `fetch`, such as one through a proxy. */
  readonly send: typeof fetch;
  readonly #key: string;
  #clock: number | undefined;
  /** Milliseconds for which the service remembers an idempotency key, as it announces. */
  #retention = 0;
  readonly budget = { left: RETRY.budget };
  /** Waits last as long as an outage, and would leave no retry for other calls. */
  readonly waitBudget = { left: RETRY.budget };
  /** Tasks of this client: a lost create must not adopt one of them. */
  readonly known = new Bounded<true>();
  readonly taskInputs = new Bounded<string>();
  readonly creates = new Set<OpenCreate>();
  readonly declarations = new Map<string, { at: number; format: unknown }>();

  constructor({ baseUrl, apiKey, timeoutMs = 60_000, fetch: send = globalThis.fetch, allowInsecureHttp }: ClientOptions) {
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || /[?#]/.test(baseUrl) || url.username || url.password) {
      throw new InvalidArgument(`baseUrl: ${shown(baseUrl)} is not the root of an API; expected a URL such as https://host/api/v1`);
    }
    if (url.protocol === "http:" && !LOOPBACK.test(url.hostname) && !allowInsecureHttp) {
      throw new InvalidArgument("baseUrl: plain http would show the API key to everyone in between; use https, or allowInsecureHttp: true");
    }
    if (!/^[!-~]+$/.test(apiKey ?? "")) throw new InvalidArgument("apiKey: it is empty, or has characters that a header cannot carry");
    if (!(timeoutMs > 0)) throw new InvalidArgument(`timeoutMs: ${shown(String(timeoutMs))} is no number of milliseconds above 0`);
    this.baseUrl = baseUrl.replace(/\/+$/, "");
    this.#key = apiKey;
    this.redactor = new Redactor([apiKey]);
    this.timeout = timeoutMs;
    this.send = send;
  }

  /** The time by the clock of the service, if a response has shown it. */
  serviceTime(): number | undefined {
    return this.#clock && this.#clock + performance.now();
  }

  /** The headers of a call. */
  headers(): Headers {
    return new Headers({ "x-api-key": this.#key, accept: "application/json" });
  }

  /** Notes what a response announces. */
  note({ ok, headers }: Response): void {
    const time = Date.parse(headers.get("date") ?? "");
    if (ok && !Number.isNaN(time)) this.#clock = time - performance.now();
    if (ok || headers.has(RETENTION)) this.#retention = Number(headers.get(RETENTION)) * 1000;
  }

  /** Whether the service remembers a key of that time. */
  remembers(sentAt: readonly number[]): boolean {
    return clocks().every((now, clock) => now - sentAt[clock]! < this.#retention - RETENTION_MARGIN);
  }
}

/** The calls of one operation of a client, within its deadline. */
export class Api extends Operations {
  readonly signal: AbortSignal;
  /** URLs of the inputs that the operation has stored. */
  readonly uploads: string[] = [];
  readonly #end: number;

  constructor(readonly core: Core, { deadlineMs = Infinity, signal }: LimitOptions = {}, readonly budget = core.budget) {
    super();
    if (typeof deadlineMs !== "number" || !(deadlineMs >= 0)) throw new InvalidArgument("deadlineMs: expected a number of milliseconds, 0 or more");
    this.signal = signal ?? new AbortController().signal;
    this.#end = performance.now() + deadlineMs;
  }

  /** The milliseconds until the deadline. */
  get left(): number {
    return Math.max(this.#end - performance.now(), 0);
  }

  /** Waits; rejects with the reason of the caller's signal. `needless` ends the wait without a result. */
  sleep(delay: number, needless?: AbortSignal): Promise<void> {
    this.signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const forget = onAbort(this.signal, () => (clearTimeout(timer), reject(this.signal.reason)));
      const timer = setTimeout(() => (forget(), resolve()), delay);
      if (needless) onAbort(needless, () => (clearTimeout(timer), forget()));
    });
  }

  /** Does work, and reports its failure: as that of the deadline, if that ended a call before there was a task.
   * `withoutTask` is added to the hint if there is none. */
  async bounded<T>(disposition: Disposition, work: () => Promise<T>, withoutTask = ""): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const isOfCall = (error instanceof CallError && !error.isPermanent && !error.task) || error instanceof FileError;
      const reported = isOfCall && !this.left ? new DeadlineReached(disposition) : error;
      if (reported instanceof InferstoreError) reported.uploads = this.uploads;
      if (reported instanceof InferstoreError && !reported.task && !(reported instanceof OutcomeUnknown)) reported.hint += withoutTask;
      throw reported;
    }
  }

  /** Sends a request once, and reads its response up to a size, a time, and a time without a byte of it. */
  async exchange(url: string, init: RequestInit, timeout: number, maxSize: number, idleTimeout = timeout): Promise<Reply> {
    const own = new AbortController();
    let heard = performance.now();
    const end = heard + Math.min(timeout, this.left);
    // On Node.js 20, a garbage collection may take the signal of `AbortSignal.any`, and that of a response whose body is read.
    const watch = async (): Promise<never> => {
      // A timer takes 31 bits of milliseconds.
      for (let left; (left = Math.min(end, heard + idleTimeout) - performance.now()) > 0; ) await this.sleep(Math.min(left, 2 ** 31 - 1), own.signal);
      throw new Error("it was not complete in time");
    };
    try {
      return await Promise.race([watch(), this.#receive(url, { ...init, signal: own.signal }, maxSize, () => (heard = performance.now()))]);
    } finally {
      own.abort();
    }
  }

  async #receive(url: string, init: RequestInit, maxSize: number, heard: () => void): Promise<Reply> {
    // `fetch` is a function of its own, not a method.
    const { send } = this.core;
    const response = await send(url, { redirect: "manual", credentials: "omit", cache: "no-store", ...init });
    const reader = response.body?.getReader();
    const parts: Array<Uint8Array<ArrayBuffer>> = [];
    for (let size = 0; ; ) {
      const part = (await reader?.read())?.value;
      size += part?.length ?? 0;
      if (size > maxSize && response.ok) throw new TooLarge();
      if (!part || size > maxSize) return [response, new Blob(parts)];
      parts.push(part);
      heard();
    }
  }

  /** Sends a call, retries it as far as it is safe, and returns the `data` of its envelope. Creates alone have a key. */
  async operation<T>(name: string, method: string, path: string, options: CallOptions = {}): Promise<T> {
    const { body, query = {}, repeatable = true, key } = options;
    const url = new URL(this.core.baseUrl + path);
    for (const [name, value] of Object.entries(query)) if (value != null) url.searchParams.set(name, String(value));
    const headers = this.core.headers();
    if (body !== undefined) headers.set("content-type", "application/json");
    if (key !== undefined) headers.set("idempotency-key", key);
    const init = { method, headers, body: body === undefined ? null : encode(body) };
    let lost: CallError | undefined;
    const sentAt = clocks();
    const isKeyed = () => key !== undefined && this.core.remembers(sentAt);
    const send = async (attempt: number) => {
      // It would make a second task.
      if (lost && key !== undefined && !isKeyed()) throw Object.assign(lost, { isRetryable: false });
      try {
        const data = await this.#attempt<T>(name, url.href, init);
        const { data: task } = asObject(data);
        if (key === undefined || (typeof task === "string" && task.trim())) return data;
        throw new CallError(name, "decode", `${name}: the response names no task`, CHECK_BASE_URL, { inDoubt: true });
      } catch (error) {
        if (!(error instanceof CallError)) throw error;
        const { kind, context } = error;
        // With a key, whatever leaves a doubt is sent again.
        const mayPass = kind === "api" ? [408, 429, 502, 503, 504].includes(error.status ?? 0) : kind !== "too-large";
        const isUnsent = kind === "transport" && !context.inDoubt;
        error.isRetryable = isUnsent || ((repeatable || isKeyed()) && mayPass) || (isKeyed() && context.inDoubt);
        error.attempts = attempt;
        if (attempt > 1) error.message += ` (after ${attempt} attempts)`;
        context.inDoubt ||= lost !== undefined;
        if (context.inDoubt) lost = error;
        throw error;
      }
    };
    return this.retried(send, () => lost !== undefined && isKeyed());
  }

  /** Repeats work after its retryable failures, with backoff; what may have made a task until the deadline, if there is one. */
  async retried<T>(work: (attempt: number) => Promise<T>, mayHaveTask = () => false): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(attempt);
      } catch (error) {
        if (!(error instanceof CallError || error instanceof FileError) || !error.isRetryable) throw error;
        const { retryAfter = 0 } = error.context;
        const longest = Math.min(RETRY.initialBackoff * 2 ** (attempt - 1), RETRY.maxBackoff);
        const delay = Math.max(Math.random() * longest, retryAfter * 1000);
        const isUnlimited = this.#end < Infinity && mayHaveTask();
        const isLast = attempt >= RETRY.maxAttempts || retryAfter > RETRY.maxRetryAfter || this.budget.left < 1;
        if (delay >= this.left || (isLast && !isUnlimited)) throw error;
        if (!isUnlimited) this.budget.left--;
        await this.sleep(delay);
      }
    }
  }

  async #attempt<T>(name: string, url: string, init: RequestInit): Promise<T> {
    const failed = (problem: string, inDoubt: boolean) =>
      new CallError(name, "transport", `${name} got no response: ${problem}`, CHECK_NETWORK, { inDoubt });
    if (!this.left) throw failed("the deadline passed before it was sent", false);
    const [response, body] = await this.exchange(url, init, this.core.timeout, MAX_RESPONSE).catch((error: unknown) => {
      this.signal.throwIfAborted();
      if (!(error instanceof TooLarge)) throw failed(this.core.redactor.foreign(reasonOf(error), 200), !UNSENT.includes(codeOf(error)));
      const problem = `${name}: the response is larger than ${MAX_RESPONSE} bytes`;
      throw new CallError(name, "too-large", problem, CHECK_BASE_URL, { inDoubt: true });
    });
    this.core.note(response);
    if (response.ok) this.budget.left = Math.min(this.budget.left + 0.5, RETRY.budget);
    return open<T>(this.core.redactor, name, url, response, await body.text());
  }
}

/** Calls `end` when the signal aborts, until the returned function is called. */
function onAbort(signal: AbortSignal, end: () => void): () => void {
  const ends = ENDS.get(signal) ?? new Set();
  if (!ENDS.has(signal)) signal.addEventListener("abort", () => ends.forEach((end) => end()), { once: true });
  ENDS.set(signal, ends.add(end));
  return () => ends.delete(end);
}

/** Returns the `data` of a success; throws the error of anything else. */
function open<T>(redactor: Redactor, name: string, url: string, { ok, status, headers, type }: Response, text: string): T {
  const envelope = asObject(decode(text));
  if (ok && envelope["status"] === "success") return envelope["data"] as T;
  const excerpt = redactor.foreign(text, 200);
  if (ok && typeof envelope["status"] !== "string") {
    const problem = `${name}: the response with ${status} is none of this service: ${excerpt}`;
    throw new CallError(name, "decode", problem, CHECK_BASE_URL, { status, inDoubt: true });
  }
  const serviceMessage = typeof envelope["message"] === "string" ? redactor.foreign(envelope["message"]) : undefined;
  // It is not followed, because the key would go along. A browser shows neither its status nor its target.
  const isRedirect = type === "opaqueredirect" || (status >= 300 && status < 400);
  const location = headers.get("location");
  const target = location && URL.canParse(location, url) ? new URL(location, url).href.split(/[?#]|\/api-key\//)[0]! : "";
  const to = target && ` to ${redactor.foreign(target, 200)}`;
  const reason = isRedirect ? `the base URL redirects${to}` : (serviceMessage ?? excerpt);
  const hint = isRedirect ? USE_TARGET : isTransient(status) ? TRY_LATER : (HINTS[status] ?? FIX);
  throw new CallError(name, "api", `${name} failed${ok || !status ? "" : ` with ${status}`}${reason && `: ${reason}`}`, hint, {
    status,
    inDoubt: status === 408 || status >= 500,
    serviceMessage,
    requestId: redactor.foreign(headers.get("x-request-id") ?? "", 200) || undefined,
    retryAfter: retryAfterOf(headers),
  });
}

/** A map that forgets its oldest entries. */
export class Bounded<T> extends Map<string, T> {
  override set(key: string, value: T): this {
    if (this.size >= 100_000) this.delete(this.keys().next().value!);
    return super.set(key, value);
  }
}

const codeOf = (error: unknown) => String(asObject(asObject(error)["cause"])["code"] ?? "");

export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "the connection failed";
  return (error.cause instanceof Error && (error.cause.message || codeOf(error))) || error.message;
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

export const asArray = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Parses JSON: a number that no double holds, and each exact decimal, becomes text; what is no JSON, `undefined`. */
export function decode(text: string): unknown {
  const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const kept = text.replace(tokens, (token) =>
    token.startsWith('"') || token.length < 16 || plainDecimal(token) === plainDecimal(Number(token)) ? token : `"${token}"`);
  try {
    return JSON.parse(kept, (name, value: unknown) => (typeof value === "number" && DECIMALS.has(name) ? plainDecimal(value) : value));
  } catch {
    return undefined;
  }
}

/** Writes JSON, and refuses what it cannot hold. */
export function encode(value: unknown): string {
  try {
    return JSON.stringify(value, (name, member: unknown) => {
      if (typeof member === "number" && !Number.isFinite(member)) throw new TypeError(`${name}: ${member} is no number of JSON`);
      return member;
    });
  } catch (error) {
    throw new InvalidArgument(`the inputs cannot be sent as JSON: ${shown(reasonOf(error))}`);
  }
}

/** An exact decimal as plain digits; `undefined` for what is none. */
export function plainDecimal(value: unknown): string | undefined {
  const match = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,4}))?$/i.exec(String(value).trim());
  if (!match || !(match[2] || match[3])) return undefined;
  const [, sign, whole = "", fraction = "", exponent = "0"] = match;
  const point = whole.length + Number(exponent);
  const digits = ("0".repeat(Math.max(1 - point, 0)) + whole + fraction).padEnd(point, "0");
  const split = Math.max(point, 1);
  const plain = `${digits.slice(0, split)}.${digits.slice(split)}`.replace(/^0+(?=\d)/, "").replace(/\.?0*$/, "");
  return sign === "-" && plain !== "0" ? `-${plain}` : plain;
}

/** Compares two decimals exactly; `undefined` when one of them is none. */
export function compareDecimals(one: unknown, other: unknown): number | undefined {
  const [left, right] = [one, other].map((value) => plainDecimal(value)?.split("."));
  if (!left || !right) return undefined;
  const scale = Math.max(...[left, right].map(([, fraction = ""]) => fraction.length));
  const scaled = ([whole = "", fraction = ""]: string[]) => BigInt(whole + fraction.padEnd(scale, "0"));
  return Math.sign(Number(scaled(left) - scaled(right)));
}
