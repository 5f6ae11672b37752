/** Errors: the operation, what was wrong, what to try; and redaction of foreign text. */

const MASK = "…";
const MAX_MESSAGE = 1_000;
const URLS = /([A-Za-z][A-Za-z0-9+.-]*:\/\/)([^\s/?#\\"]*@)?([^\s"'<>\\`?#]*)([?#][^\s"'<>\\`]*)?/g;
const CREDENTIALS =
  /((?:x-amz-(?:signature|credential|security-token)|x-api-key|policy|(?<=")key)\\?["']?\s*[:=]\s*\\?["']?)[^\s&"'<\\]+/gi;
const AUTHORIZATION = /(authorization["']?\s*[:=]\s*["']?)[^"'<\\]+/gi;
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const PUBLIC_FIELDS = ["key", "bucket", "content-type", "success_action_status"];

/** Masks known secrets, the queries of URLs, and named credentials. */
export class Redactor {
  readonly #secrets: string[];

  constructor(secrets: Iterable<string>) {
    const found = [...secrets].flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
    this.#secrets = [...new Set(found)].filter(Boolean).sort((one, other) => other.length - one.length);
  }

  /** Also masks the query of a presigned URL and the fields of its form. */
  withTarget(url: string, fields: ReadonlyArray<readonly [string, string]> = []): Redactor {
    const raw = url.split("?")[1]?.split("&").map((pair) => pair.slice(pair.indexOf("=") + 1)) ?? [];
    const decoded = [...new URL(url).searchParams.values()];
    const secret = fields.filter(([name]) => !PUBLIC_FIELDS.includes(name.toLowerCase())).map(([, value]) => value);
    return new Redactor([...this.#secrets, ...[...raw, ...decoded, ...secret].filter((value) => value.length >= 8)]);
  }

  /** Returns foreign text with secrets masked, on one line, without control characters, bounded. */
  foreign(text: string, limit = MAX_MESSAGE): string {
    let safe = text.slice(0, 64 * 1024).replace(/\s+/g, " ").replace(HARMFUL, "").trim();
    for (const secret of this.#secrets) safe = safe.replaceAll(secret, MASK);
    safe = safe.replace(URLS, (_, scheme: string, user?: string, address = "", query?: string) =>
      `${scheme}${user ? MASK : ""}${address}${query ? query[0] + MASK : ""}`);
    safe = safe.replace(AUTHORIZATION, `$1${MASK}`).replace(CREDENTIALS, `$1${MASK}`);
    return safe.length <= limit ? safe : safe.slice(0, limit) + MASK;
  }
}

/** Returns foreign text in quotes, safe to show. */
export function shown(text: unknown, limit = 80): string {
  return JSON.stringify(new Redactor([]).foreign(String(text), limit));
}

/** An operation failed. `message` is one line; `hint` says what to try. */
export class InferstoreError extends Error {
  /** Whether the same call can be sent again, without having an effect twice, and may succeed. */
  isRetryable = false;
  /** URLs of the inputs that a failed run has stored, which no text shows. They are billed until they are deleted. */
  accessor uploads: string[] = [];

  constructor(message: string, public hint: string, /** The task, if one was created. */ public task?: string) {
    super(message);
  }
}

/** An argument or a setting cannot be used. Nothing was sent. */
export class InvalidArgument extends InferstoreError {
  constructor(message: string) {
    super(message, "fix what the message names and try again");
  }
}

/** The inputs do not match what the model declares. Nothing was sent that costs money. */
export class InvalidInputs extends InvalidArgument {
  constructor(model: string, /** The problem of each input. */ readonly problems: Readonly<Record<string, string>>) {
    const listed = Object.entries(problems).map(([name, problem]) => `${name}: ${problem}`);
    super(`the inputs of ${shown(model)} are not valid: ${listed.join("; ")}`);
  }
}

/** What is known of a failed call. */
export interface CallContext {
  status?: number;
  /** The message of the service, redacted. */
  serviceMessage?: string | undefined;
  requestId?: string | undefined;
  /** Seconds that the service asks to wait. */
  retryAfter?: number | undefined;
  /** Whether the service may have done what the call asked for. */
  inDoubt: boolean;
}

/** The service refused the call, no response came, it cannot be decoded, or it is too large. */
type CallFailure = "api" | "transport" | "decode" | "too-large";

/** A call to the API failed. */
export class CallError extends InferstoreError {
  attempts = 1;

  constructor(readonly operation: string, readonly kind: CallFailure, message: string, hint: string, readonly context: CallContext) {
    super(message, hint);
  }

  get status(): number | undefined {
    return this.context.status;
  }

  /** Whether the service refused the call for good: a 4xx other than 408 and 429. */
  get isPermanent(): boolean {
    const status = this.context.status ?? 0;
    return this.kind === "api" && status >= 400 && !isTransient(status);
  }
}

/** Whether a failure with this status may pass. */
export const isTransient = (status: number) => status === 408 || status === 429 || status >= 500;

const HISTORIES = {
  complete: "the task history shows no matching task",
  partial: "the task history was read in part only",
  unreadable: "the task history could not be read",
  "not read": "the service has not confirmed its idempotency key",
};

const SEARCH = "look for the task in the history before you create it again: a second task is billed too";
const SAME_KEY = "make the same call with this `key`: it returns the task, or creates it if there is none";

/** How much of the history was read. */
export type History = keyof typeof HISTORIES;

/** A create was sent, its response was lost, and it is unknown whether it made a task. */
export class OutcomeUnknown extends InferstoreError {
  /** The idempotency key, where the service knows keys: the same call with it returns the task, or creates it. */
  readonly key: string | undefined;

  constructor(cause: CallError, /** Tasks in the history that may be the one. */ readonly candidates: string[], readonly history: History, key?: string) {
    const listed = candidates.map((task) => shown(task)).join(", ");
    const found = listed ? `these tasks may be the one: ${listed}` : HISTORIES[history];
    super(`${cause.message}; whether a task was created is unknown: ${found}`, key === undefined ? SEARCH : SAME_KEY);
    this.key = key;
  }
}

/** A run costs more than its limit, or the service states no price. This call created no task. */
export class CostLimitExceeded extends InferstoreError {
  constructor(readonly quote: string | undefined, readonly maxCost: string) {
    const problem = quote === undefined ? "the service states no price to compare with" : `a run costs ${quote}, more than`;
    super(`${problem} the limit of ${maxCost}`, "change maxCost, or choose another model");
  }
}

/** No node serves the model. This call created no task. */
export class ModelOffline extends InferstoreError {
  override isRetryable = true;

  constructor(model: string) {
    super(`no node serves the model ${shown(model)}`, "try again later, or run without requireServing");
  }
}

const FAILURE_HINTS = new Map<unknown, string>([
  ["input", "fix the input that the message names"],
  ["limit", "send less, or ask the operator of the model for a higher limit"],
  ["model", "report the message to the operator of the model: its program failed"],
  ["service", "run it again later, or report it to the operator of the service"],
]);

/** The task ended in `failed`. It is not billed. */
export class TaskFailed extends InferstoreError {
  constructor(task: string, readonly reason: string, kind?: unknown) {
    const hint = FAILURE_HINTS.get(kind) ?? "fix the inputs or the balance if the message names them, otherwise run it again";
    super(`the task ${shown(task)} failed${reason && `: ${reason}`}`, `${hint}; the task is not billed`, task);
  }
}

/** The task ended in `canceled`. It is not billed. */
export class TaskCanceled extends InferstoreError {
  constructor(task: string) {
    super(`the task ${shown(task)} was canceled`, "run it again if the cancel was not intended; the task is not billed", task);
  }
}

const DISPOSITIONS = {
  "this call created no task": "allow more time",
  "the task was canceled while it was queued": "allow more time and run it again; the task is not billed",
  "whether the task was canceled is unknown": "read the task to see whether it was canceled",
  "the task has not ended": "wait for the task again; it is billed if it succeeds",
  "the state of the task is unknown": "check the network, the identifier and the API key, then read the task",
  "the transfer is not complete": "allow more time and transfer the file again",
};

/** What has become of the work that a deadline ended. */
export type Disposition = keyof typeof DISPOSITIONS;

/** The deadline passed. */
export class DeadlineReached extends InferstoreError {
  constructor(readonly disposition: Disposition, task?: string) {
    super(`the deadline passed; ${disposition}${task ? ` (task ${shown(task)})` : ""}`, DISPOSITIONS[disposition], task);
  }
}

/** A file could not be uploaded or downloaded. */
export class FileError extends InferstoreError {
  constructor(file: string, problem: string, readonly context: Partial<CallContext> & { retryable?: boolean; expired?: boolean } = {}) {
    super(`${shown(file)}: ${problem}`, context.retryable ? "try again later" : "check the URL, the size and the type of the file");
    this.isRetryable = context.retryable ?? false;
  }
}

// A bundler may rename the classes.
const NAMED = { CallError, CostLimitExceeded, DeadlineReached, FileError, InferstoreError, InvalidArgument, InvalidInputs, ModelOffline };
for (const [name, error] of Object.entries({ ...NAMED, OutcomeUnknown, TaskCanceled, TaskFailed })) error.prototype.name = name;
