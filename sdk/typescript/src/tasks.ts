/** Tasks: creating one at most once, the search of the history for a lost one, and waiting for its end.
 *
 * Every create carries an idempotency key. Where the service announces that it knows such keys, a create whose response
 * was lost is sent again with its key. Elsewhere it is looked for in the task history: the model, the inputs and the time
 * must match, and the task must not belong to another create of this client. Exactly one match is adopted. */

import { CallError, DeadlineReached, type Disposition, InvalidArgument, OutcomeUnknown, TaskCanceled, TaskFailed } from "./errors.js";
import type { TaskDetail, TaskRecord } from "./generated.js";
import { segment } from "./inputs.js";
import { Api, asObject, type Core, type OpenCreate, RETRY } from "./transport.js";

const PAGE = 100;
const MAX_PAGES = 12;
const MAX_SEARCHES = 3;
const MAX_INPUT_READS = 300;
const MIN_DOUBT = 60_000;
const ADOPT_TOLERANCE = 5_000;
const LAST_READ = 500;
const EARLY_READS = [100, 250, 500, 1_000];

/** A task that succeeded. */
export interface Outcome<Output = unknown> {
  task: string;
  output: Output;
  /** An exact decimal. */
  cost: string | undefined;
  /** URLs of the uploaded inputs. They are stored, and billed, until they are deleted. */
  storedInputs: string[];
  /** Whether the task was found in the history after the response to its create was lost. */
  isAdopted: boolean;
  detail: TaskDetail;
}

export interface Created {
  task: string;
  isAdopted: boolean;
}

interface Found {
  earlier: string[];
  matches: string[];
  history: "complete" | "partial" | "unreadable";
}

/** Creates the task, or finds the one that a lost create became. */
export async function create(api: Api, model: string, inputs: Record<string, unknown>, key: string, hasUploads: boolean): Promise<Created> {
  if (!/^[!-~]{1,255}$/.test(key)) throw new InvalidArgument("key: expected 1 to 255 visible characters of ASCII, without spaces");
  const { creates } = api.core;
  const open: OpenCreate = { identity: JSON.stringify([model, fingerprint(inputs)]), until: Infinity };
  for (const other of creates) if (other.until <= performance.now()) creates.delete(other);
  creates.add(open);
  try {
    const created = await createOrFind(api, model, inputs, key, hasUploads, open);
    open.until = 0;
    return created;
  } catch (error) {
    // A create of unknown outcome may still add its task to the history.
    const isSettled = error instanceof CallError && !error.context.inDoubt;
    open.until = isSettled ? 0 : performance.now() + MIN_DOUBT;
    throw error;
  }
}

async function createOrFind(api: Api, model: string, inputs: Record<string, unknown>, key: string, hasUploads: boolean, open: OpenCreate): Promise<Created> {
  const { core } = api;
  const send = async (): Promise<Created> => {
    const path = `/api-key/model/${segment("model", model)}/task`;
    const { data: task } = asObject(await api.operation("createTask", "POST", path, { body: inputs, repeatable: false, key }));
    if (typeof task !== "string" || !task.trim()) {
      throw new CallError("createTask", "decode", "createTask: the response names no task", "look for the task in the history", { inDoubt: true });
    }
    core.known.set(task, true);
    return { task, isAdopted: false };
  };
  const sentAt = performance.now();
  const shownTime = core.serviceTime() ?? Infinity;
  let lost: CallError;
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof CallError) || !error.context.inDoubt) throw error;
    lost = error;
  }
  if (core.knowsKeys) throw new OutcomeUnknown(lost, [], "not read");
  const createdAt = () => Math.min(shownTime, (core.serviceTime() ?? Date.now()) - (performance.now() - sentAt));
  const isAmbiguous = () =>
    [...core.creates].some((other) => other !== open && other.identity === open.identity && other.until > performance.now());
  let found: Found = { earlier: [], matches: [], history: "unreadable" };
  for (let number = 1; ; number++) {
    // Only an upload proves whose task it is when a clock of the service is wrong.
    const reach = number === MAX_SEARCHES && hasUploads ? 24 * 3_600_000 : 60_000;
    try {
      found = await search(api, model, fingerprint(inputs), createdAt, reach);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      found.history = "unreadable";
    }
    const { earlier, matches, history } = found;
    const candidates = hasUploads ? [...earlier, ...matches] : matches;
    const isProof = hasUploads || history === "complete";
    const only = candidates.length === 1 && isProof ? candidates[0] : undefined;
    if (core.knowsKeys && !(hasUploads && only)) {
      // A response of the search announced keys: the create can be sent again.
      try {
        return await send();
      } catch (error) {
        // A refusal says nothing about the first create, which may still be on its way.
        if (!(error instanceof CallError)) throw error;
        throw new OutcomeUnknown(error.context.inDoubt ? error : lost, [], "not read");
      }
    }
    if (only !== undefined && !isAmbiguous() && !core.known.has(only)) {
      core.known.set(only, true);
      return { task: only, isAdopted: true };
    }
    const pause = RETRY.initialBackoff * number;
    const isHopeless = history === "complete" && candidates.length > 1;
    if (number === MAX_SEARCHES || isHopeless || pause >= api.left) throw new OutcomeUnknown(lost, [...earlier, ...matches], history);
    await api.sleep(pause);
  }
}

/** Searches the history from its end backwards. */
async function search(api: Api, model: string, wanted: string, createdAt: () => number, reach: number): Promise<Found> {
  const { core } = api;
  let pages = 0;
  const page = async (offset: number): Promise<{ records: TaskRecord[]; total: number }> => {
    pages++;
    const { records, total } = asObject(await api.tasks({ limit: PAGE, offset }));
    const isTask = (record: unknown): record is TaskRecord => typeof asObject(record)["task_id"] === "string";
    return { records: Array.isArray(records) ? records.filter(isTask) : [], total: Number(total ?? 0) };
  };
  const first = await page(0);
  const created = createdAt();
  const isBefore = (record: TaskRecord, earliest: number) => Date.parse(record.created_at ?? "") < earliest;
  let start = Math.max(first.total - PAGE, 0);
  let { records } = start > 0 ? await page(start) : first;
  let last = records;
  // The total may be older than the records: the history ends at a page that is not full.
  while (last.length === PAGE && pages < MAX_PAGES) {
    last = (await page(start + records.length)).records;
    records = [...records, ...last];
  }
  let isWhole = last.length < PAGE && start + records.length >= first.total;
  const reachesBack = () => start === 0 || (records[0] !== undefined && isBefore(records[0], created - reach));
  while (!reachesBack() && pages < MAX_PAGES) {
    const begin = Math.max(start - PAGE, 0);
    const before = (await page(begin)).records.slice(0, start - begin);
    isWhole &&= before.length === start - begin;
    records = [...before, ...records];
    start = begin;
  }
  isWhole &&= reachesBack();
  const isCandidate = (record: TaskRecord) =>
    (record.model_id ?? model) === model && !isBefore(record, created - reach) && !core.known.has(record.task_id);
  const candidates = new Map(records.filter(isCandidate).map((record) => [record.task_id, record]));
  const found: Found = { earlier: [], matches: [], history: "partial" };
  const unread = [...candidates.keys()].filter((task) => !core.taskInputs.has(task));
  if (unread.length > MAX_INPUT_READS) return found;
  for (const task of unread) {
    try {
      const { input_data: inputs } = asObject(await api.task(task));
      if (inputs) core.taskInputs.set(task, fingerprint(inputs));
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
    }
  }
  for (const [task, record] of candidates) {
    const inputs = core.taskInputs.get(task);
    isWhole &&= inputs !== undefined;
    if (inputs === wanted) (isBefore(record, created - ADOPT_TOLERANCE) ? found.earlier : found.matches).push(task);
  }
  return { ...found, history: isWhole ? "complete" : "partial" };
}
/** A text that is equal for JSON that means the same: members in any order, without null. */
export function fingerprint(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(fingerprint).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null);
  const members = Object.entries(value).filter(([, member]) => member != null).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${fingerprint(member)}`).join()}}`;
}

/** The delay before the next read: four early reads, then the intervals that the service suggests. It learns from the
 * durations of earlier tasks of the model when the first read is worthwhile. */
export function pollDelay(waited: number, durations: number[], jitter: number): number {
  const sorted = [...durations].sort((one, other) => one - other);
  let [first, longest, between] = [0, 0, 0];
  if (sorted.length >= 3) {
    const median = sorted[sorted.length >> 1]!;
    longest = sorted.at(-1)!;
    const [low, high] = median < 300_000 ? [2_000, 5_000] : [10_000, 30_000];
    between = Math.min(Math.max(median / 60, low), high);
    first = longest - sorted[0]! > 2 * between ? Math.max(sorted[0]! - between, 0) : longest;
  }
  const early = waited < first ? undefined : EARLY_READS.map((read) => read * jitter).find((read) => read > waited);
  if (early !== undefined) return Math.max(early - waited, 10);
  if (waited < 2 * longest) {
    const left = first - waited;
    return left > 0 ? Math.max(left / Math.ceil(left / 30_000), 10) : between;
  }
  return waited >= 60_000 ? Math.min(Math.max(waited * 0.08, 10_000), 30_000) : Math.min(Math.max(waited * 0.45, 2_000), 5_000);
}

export interface WaitSettings {
  /** The model of a new task. */
  model?: string;
  cancelAtDeadline?: boolean | undefined;
}

/** Reads the task until it has ended. Failures that pass do not end the wait. */
export async function wait(api: Api, task: string, { model, cancelAtDeadline = false }: WaitSettings): Promise<Outcome> {
  const { core } = api;
  segment("task", task);
  const jitter = 1 + 0.2 * Math.random();
  const started = performance.now();
  const next = () => pollDelay(performance.now() - started, core.durations.get(model ?? "") ?? [], jitter);
  let status: string | undefined;
  let delay = model === undefined ? 0 : next();
  // Before the deadline there is time for a cancel and its response.
  const reserve = cancelAtDeadline ? Math.min(api.left / 5, 2_000) : 0;
  const reader = new Api(core, { deadlineMs: Math.max(api.left - reserve, 0), signal: api.signal });
  for (;;) {
    // One more read before the end, unless this was it.
    if (delay >= reader.left) delay = reader.left > LAST_READ ? reader.left - LAST_READ : reader.left;
    await reader.sleep(delay);
    if (!reader.left) break;
    let retryAfter = 0;
    try {
      const detail = asObject(await reader.task(task)) as unknown as TaskDetail;
      status = detail.status ?? status;
      if (status === "success" || status === "failed" || status === "canceled") return ended(core, task, detail, model);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      if (error.isPermanent || error.kind === "too-large") {
        error.task = task;
        throw error;
      }
      retryAfter = Math.min(error.context.retryAfter ?? 0, 600);
    }
    delay = Math.max(next(), retryAfter * 1000);
  }
  let disposition: Disposition = status ? "the task has not ended" : "the state of the task is unknown";
  if (cancelAtDeadline && (status === undefined || status === "in_queue")) {
    disposition = "the task was canceled while it was queued";
    await api.cancel(task).catch((error: unknown) => {
      if (!(error instanceof CallError)) throw error;
      disposition = error.context.inDoubt ? "whether the task was canceled is unknown" : "the task has not ended";
    });
  }
  throw new DeadlineReached(disposition, task);
}

function ended(core: Core, task: string, detail: TaskDetail, model: string | undefined): Outcome {
  if (detail.status === "failed") {
    const { kind } = asObject(asObject(detail.result)["error"]);
    throw new TaskFailed(task, core.redactor.foreign(detail.message ?? ""), kind);
  }
  if (detail.status === "canceled") throw new TaskCanceled(task);
  const duration = Date.parse(detail.updated_at ?? "") - Date.parse(detail.created_at ?? "");
  if (model !== undefined && !Number.isNaN(duration)) {
    core.durations.set(model, [...(core.durations.get(model) ?? []).slice(-19), duration]);
  }
  const cost = detail.cost == null ? undefined : String(detail.cost);
  return { task, output: detail.result?.result, cost, storedInputs: [], isAdopted: false, detail };
}
