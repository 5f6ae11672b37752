/** The client: a run from its inputs to its outcome. */

import { CallError, CostLimitExceeded, DeadlineReached, type Disposition, FileError, InvalidArgument, InvalidInputs, ModelOffline, shown } from "./errors.js";
import * as files from "./files.js";
import { type CallOptions, type Kinds, type ModelVersioning, Operations, type ServingStatus, type TaskCost, type UploadFolder } from "./generated.js";
import { check, segment } from "./inputs.js";
import { create, type Created, type Outcome, wait } from "./tasks.js";
import { type ClientOptions, compareDecimals, Core, Deadline } from "./transport.js";

const DECLARATION_TTL = 300_000;

/** The inputs of a model: typed for the kinds of the document. */
export type Inputs<M extends string> = M extends keyof Kinds ? Kinds[M]["input"] : Record<string, unknown>;

/** The output of a model: typed for the kinds of the document. */
export type Output<M extends string> = M extends keyof Kinds ? Kinds[M]["output"] : unknown;

/** Options of every operation that takes long. */
export interface LimitOptions {
  /** Time limit for everything. Default: none. */
  deadlineMs?: number;
  /** Ends the operation. A task that was created stays. */
  signal?: AbortSignal;
}

export interface CreateOptions extends LimitOptions {
  /** Idempotency key: the same key with the same inputs is one task, also from another process. Default: random. */
  key?: string;
  /** The task is not created when the price is higher or not stated: an exact decimal such as `"0.10"`. */
  maxCost?: string;
  /** The task is not created when no node serves the model. */
  requireServing?: boolean;
  /** Folder of uploaded inputs. Default: `samples`. */
  folder?: UploadFolder;
}

export interface WaitOptions extends LimitOptions {
  /** Cancels the task at the deadline if it is still queued. */
  cancelAtDeadline?: boolean;
}

export interface UploadOptions extends LimitOptions {
  folder?: UploadFolder;
  name?: string;
  mime?: string;
  /** The organization whose storage the file goes into. Only for keys of personal scope. */
  orgUsername?: string;
}

/** A client of the service. */
export class Client extends Operations {
  readonly #core: Core;

  constructor(options: ClientOptions) {
    super();
    this.#core = new Core(options);
  }

  /** Uploads the files, creates the task at most once, waits for it, and returns its outcome. */
  async run<M extends string>(model: M, inputs: Inputs<M>, options: CreateOptions & WaitOptions = {}): Promise<Outcome<Output<M>>> {
    const deadline = new Deadline(options.deadlineMs, options.signal);
    const { task, isAdopted, uploads } = await bounded(deadline, "no task was created", this.#start(model, inputs, options, deadline));
    // An adopted task without an upload of this run may be that of another program.
    const cancelAtDeadline = (options.cancelAtDeadline ?? false) && (uploads.length > 0 || !isAdopted);
    const outcome = await wait(this.#core, task, deadline, { model, cancelAtDeadline, isNew: true });
    return { ...outcome, output: outcome.output as Output<M>, storedInputs: uploads, isAdopted };
  }

  /** Creates the task at most once, and returns its identifier. */
  async createOnce<M extends string>(model: M, inputs: Inputs<M>, options: CreateOptions = {}): Promise<string> {
    const deadline = new Deadline(options.deadlineMs, options.signal);
    return (await bounded(deadline, "no task was created", this.#start(model, inputs, options, deadline))).task;
  }

  /** Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded. */
  async wait(task: string, options: WaitOptions = {}): Promise<Outcome> {
    return wait(this.#core, task, new Deadline(options.deadlineMs, options.signal), options);
  }

  /** Uploads a file of at most 104,857,600 bytes. */
  async upload(file: Blob, { folder = "samples", name, mime, orgUsername, deadlineMs, signal }: UploadOptions = {}): Promise<files.UploadedFile> {
    const deadline = new Deadline(deadlineMs, signal);
    const source = await files.prepare(file, name, mime);
    return bounded(deadline, "the transfer is not complete", files.upload(this.#core, source, folder, orgUsername, deadline));
  }

  /** Downloads into memory: at most 256 MiB, unless `maxSize` says otherwise. */
  async download(url: string, { maxSize, deadlineMs, signal }: LimitOptions & { maxSize?: number } = {}): Promise<Blob> {
    const deadline = new Deadline(deadlineMs, signal);
    return bounded(deadline, "the transfer is not complete", files.download(this.#core, url, maxSize, deadline));
  }

  protected override operation<T>(name: string, method: string, path: string, options: CallOptions = {}): Promise<T> {
    return this.#core.call(name, method, path, new Deadline(), options);
  }

  async #start(model: string, inputs: object, options: CreateOptions, deadline: Deadline): Promise<Created & { uploads: string[] }> {
    const { key = crypto.randomUUID(), maxCost, requireServing = false, folder = "samples" } = options;
    const core = this.#core;
    if (maxCost !== undefined && (typeof maxCost !== "string" || (compareDecimals(maxCost, 0) ?? -1) < 0)) {
      throw new InvalidArgument(`maxCost: ${shown(maxCost)} is no amount; expected a text such as "0.10"`);
    }
    const sources = new Map<string, files.Source>();
    for (const [name, value] of Object.entries(inputs)) if (value instanceof Blob) sources.set(name, await files.prepare(value));
    const values = await this.#checked(model, inputs as Record<string, unknown>, deadline);
    const path = `/api-key/model/${segment("model", model)}`;
    if (maxCost !== undefined) {
      const { cost } = await core.call<TaskCost>("getModelCost", "GET", `${path}/task/cost`, deadline);
      if ((compareDecimals(cost ?? "", maxCost) ?? 1) > 0) throw new CostLimitExceeded(cost ?? undefined, maxCost);
    }
    if (requireServing && (await core.call<ServingStatus>("getModelServing", "GET", `${path}/serving`, deadline)).serving !== true) {
      throw new ModelOffline(model);
    }
    const uploads = new Map<string, string>();
    for (const [name, source] of sources) {
      const content = `${source.mime} ${source.digest}`;
      if (!uploads.has(content)) {
        // A name that nobody else knows, and the same one for the same key: the inputs are the same then.
        const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${key} ${source.digest}`));
        const unique = `${files.hex(new Uint8Array(hash)).slice(0, 32)}-${source.name}`;
        uploads.set(content, (await files.upload(core, { ...source, name: unique }, folder, undefined, deadline)).downloadUrl);
      }
      values[name] = uploads.get(content);
    }
    try {
      const created = await create(core, model, values, key, uploads.size > 0, deadline);
      return { ...created, uploads: [...uploads.values()] };
    } catch (error) {
      if (error instanceof CallError && error.isPermanent) core.declarations.delete(model);
      throw error;
    }
  }

  /** Checks the inputs against the declaration, which is read again when the cached one refuses them. */
  async #checked(model: string, inputs: Record<string, unknown>, deadline: Deadline): Promise<Record<string, unknown>> {
    const cached = this.#core.declarations.get(model);
    if (cached && performance.now() - cached.at < DECLARATION_TTL) {
      try {
        return check(model, cached.declared, inputs);
      } catch (error) {
        if (!(error instanceof InvalidInputs)) throw error;
      }
    }
    const path = `/api-key/model/${segment("model", model)}/versioning`;
    const version = await this.#core.call<ModelVersioning>("getModelVersioning", "GET", path, deadline);
    const declared = (version.input_format ?? {}) as Record<string, unknown>;
    this.#core.declarations.set(model, { at: performance.now(), declared });
    return check(model, declared, inputs);
  }
}

/** Reports the failure of work that its deadline has ended as that of the deadline. */
async function bounded<T>(deadline: Deadline, disposition: Disposition, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isRefusal = error instanceof CallError && error.isPermanent;
    const isOfCall = error instanceof CallError || error instanceof FileError;
    throw isOfCall && deadline.isOver && !isRefusal ? new DeadlineReached(disposition) : error;
  }
}
