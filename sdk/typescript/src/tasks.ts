/** Tasks: creating one at most once, the search of the history for a lost one, and waiting for its end.
 *
 * Every create carries an idempotency key. While the service certainly remembers the key, as it announces, a create whose
 * response was lost is sent again until the deadline. Otherwise it is looked for in the task history: the model, the
 * inputs and the time must match, and the task must not belong to another create of this client. Exactly one match is adopted. */

import { CallError, DeadlineReached, type Disposition, type History, OutcomeUnknown, TaskCanceled, TaskFailed } from "./errors.js";
import type { TaskDetail, TaskRecord } from "./generated.js";
import { segment } from "./inputs.js";
import { Api, asArray, asObject, clocks, type Core, type OpenCreate, RETRY } from "./transport.js";

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

/** Creates the task, or finds the one that a lost create became. `isOwn`: the caller chose the key. */
export async function create(api: Api, model: string, inputs: Record<string, unknown>, key: string, isOwn: boolean) {
  const { core } = api;
  const open: OpenCreate = { model, inputs: fingerprint(inputs), until: Infinity };
  for (const other of core.creates) if (other.until <= performance.now()) core.creates.delete(other);
  core.creates.add(open);
  const sentAt = clocks();
  const shownTime = core.serviceTime() ?? Infinity;
  try {
    const path = `/api-key/model/${segment("model", model)}/task`;
    const { data: task } = await api.operation<{ data: string }>("createTask", "POST", path, { body: inputs, repeatable: false, key });
    core.known.set(task, true);
    open.until = 0;
    return { task, isAdopted: false };
  } catch (error) {
    const isRefused = error instanceof CallError && !error.context.inDoubt;
    // The task of a create of unknown outcome may still appear in the history.
    open.until = isRefused ? 0 : performance.now() + MIN_DOUBT;
    if (isRefused || !(error instanceof CallError)) throw error;
    if (core.remembers(sentAt)) throw Object.assign(new OutcomeUnknown(error, [], "not read", key), { isRetryable: isOwn });
    const createdAt = () => Math.min(shownTime, (core.serviceTime() ?? Date.now()) - (performance.now() - sentAt[0]));
    const task = await find(api, open, createdAt, error);
    open.until = 0;
    return { task, isAdopted: true };
  }
}

/** Finds the task of a lost create in the history. */
async function find(api: Api, open: OpenCreate, createdAt: () => number, lost: CallError): Promise<string> {
  const hasUploads = api.uploads.length > 0;
  const isRival = (other: OpenCreate) =>
    other !== open && other.model === open.model && other.inputs === open.inputs && other.until > performance.now();
  let matches: string[] = [];
  let history: History;
  for (let number = 1; ; number++) {
    // Only an upload proves whose task it is when a clock of the service is wrong.
    const reach = !hasUploads ? ADOPT_TOLERANCE : number < MAX_SEARCHES ? 60_000 : 24 * 3_600_000;
    ({ matches, history } = await search(api, open, createdAt, reach).catch(ofCall(() => ({ matches, history: "unreadable" }))));
    const [only] = matches.length === 1 && (hasUploads || history === "complete") ? matches : [];
    if (only !== undefined && ![...api.core.creates].some(isRival) && !api.core.known.has(only)) {
      api.core.known.set(only, true);
      return only;
    }
    const pause = RETRY.initialBackoff * number;
    const isHopeless = history === "complete" && matches.length > 1;
    if (number === MAX_SEARCHES || isHopeless || pause >= api.left) throw new OutcomeUnknown(lost, matches, history);
    await api.sleep(pause);
  }
}

/** What follows a failed call; any other error is thrown. */
const ofCall = <T>(next: (error: CallError) => T) => (error: unknown): T => {
  if (error instanceof CallError) return next(error);
  throw error;
};

/** Searches the history from its end backwards, and returns the tasks that match. */
async function search(api: Api, { model, inputs: wanted }: OpenCreate, createdAt: () => number, reach: number) {
  const { core } = api;
  const total = Number(asObject(await api.tasks({ limit: 1 }))["total"] ?? 0);
  const earliest = createdAt() - reach;
  const isBefore = (record: TaskRecord) => Date.parse(record.created_at ?? "") < earliest;
  const isTask = (record: unknown): record is TaskRecord => typeof asObject(record)["task_id"] === "string";
  const records: TaskRecord[] = [];
  let isWhole = true;
  // The last page reaches beyond the total, which may be older than the records.
  let end = Math.max(total + PAGE / 2, PAGE);
  const reachesBack = () => end === 0 || (records[0] !== undefined && isBefore(records[0]));
  for (let pages = 1; !reachesBack() && pages < MAX_PAGES; pages++) {
    const limit = Math.min(end, PAGE);
    const page = asArray(asObject(await api.tasks({ limit, offset: end - limit }))["records"]).filter(isTask);
    // Nothing is missing when a page is full, and the last one has room for more.
    isWhole &&= end > total ? page.length < limit && end - limit + page.length >= total : page.length === limit;
    records.unshift(...page);
    end -= limit;
  }
  const recent = records.filter((record) => (record.model_id ?? model) === model && !isBefore(record));
  const candidates = [...new Set(recent.map((record) => record.task_id))].filter((task) => !core.known.has(task));
  const unread = candidates.filter((task) => !core.taskInputs.has(task));
  for (const task of unread.length > MAX_INPUT_READS ? [] : unread) {
    const { input_data: inputs } = asObject(await api.task(task).catch(ofCall(() => undefined)));
    if (inputs) core.taskInputs.set(task, fingerprint(inputs));
  }
  isWhole &&= reachesBack() && candidates.every((task) => core.taskInputs.has(task));
  const matches = candidates.filter((task) => core.taskInputs.get(task) === wanted);
  return { matches, history: isWhole ? "complete" : ("partial" as History) };
}

/** A text that is equal for JSON that means the same: members in any order, without null. */
export function fingerprint(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (asObject(part) !== part) return part;
    const members = Object.entries(part).filter(([, member]) => member != null);
    return Object.fromEntries(members.sort(([one], [other]) => (one < other ? -1 : 1)));
  });
}

/** The delay before the next read: four early reads, then the intervals that the service suggests. */
function pollDelay(waited: number, jitter: number): number {
  const early = EARLY_READS.map((read) => read * jitter).find((read) => read > waited);
  if (early !== undefined) return Math.max(early - waited, 10);
  return waited >= 60_000 ? Math.min(Math.max(waited * 0.08, 10_000), 30_000) : Math.min(Math.max(waited * 0.45, 2_000), 5_000);
}

/** Reads the task until it has ended. Failures that pass do not end the wait. */
export async function wait(api: Api, task: string, cancelAtDeadline = false, isNew = false): Promise<Outcome> {
  const jitter = 1 + 0.2 * Math.random();
  const started = performance.now();
  const next = () => pollDelay(performance.now() - started, jitter);
  let status: string | undefined;
  let delay = isNew ? next() : 0;
  // Before the deadline there is time for a cancel and its response.
  const reserve = cancelAtDeadline ? Math.min(api.left / 5, 2_000) : 0;
  const reader = new Api(api.core, { deadlineMs: Math.max(api.left - reserve, 0), signal: api.signal }, api.core.waitBudget);
  for (;;) {
    // One more read before the end, unless this was it.
    if (delay >= reader.left) delay = reader.left > LAST_READ ? reader.left - LAST_READ : reader.left;
    await reader.sleep(delay);
    if (!reader.left) break;
    let retryAfter = 0;
    const detail: Partial<TaskDetail> = asObject(await reader.task(task).catch(ofCall((error) => {
      error.task = task;
      if (error.isPermanent || error.kind === "too-large") throw error;
      retryAfter = Math.min(error.context.retryAfter ?? 0, 600);
    })));
    const outcome = ended(api.core, task, detail);
    if (outcome) return outcome;
    status = detail.status ?? status;
    delay = Math.max(next(), retryAfter * 1000);
  }
  let disposition: Disposition | undefined;
  if (cancelAtDeadline && (status === undefined || status === "in_queue")) {
    disposition = await api.cancel(task).then((): Disposition => "the task was canceled while it was queued", ofCall(({ context }) =>
      context.inDoubt ? "whether the task was canceled is unknown" : undefined));
    if (!disposition) {
      // The task is computing, or it has ended.
      const detail: Partial<TaskDetail> = asObject(await api.task(task).catch(ofCall(() => undefined)));
      const outcome = ended(api.core, task, detail);
      if (outcome) return outcome;
      status = detail.status ?? undefined;
    }
  }
  throw new DeadlineReached(disposition ?? (status ? "the task has not ended" : "the state of the task is unknown"), task);
}

/** The outcome of a success; `undefined` while the task has not ended. */
function ended(core: Core, task: string, detail: Partial<TaskDetail>): Outcome | undefined {
  const { kind } = asObject(asObject(detail.result)["error"]);
  if (detail.status === "failed") throw new TaskFailed(task, core.redactor.foreign(detail.message ?? ""), kind);
  if (detail.status === "canceled") throw new TaskCanceled(task);
  if (detail.status !== "success") return undefined;
  const cost = detail.cost == null ? undefined : String(detail.cost);
  return { task, output: detail.result?.result, cost, storedInputs: [], isAdopted: false, detail: detail as TaskDetail };
}
