/** The client: a run from its inputs to its outcome. */

import { CostLimitExceeded, InvalidArgument, ModelOffline, shown } from "./errors.js";
import * as files from "./files.js";
import { type CallOptions, type Kinds, Operations, type UploadFolder } from "./generated.js";
import { check } from "./inputs.js";
import { create, type Outcome, wait } from "./tasks.js";
import { Api, asObject, type ClientOptions, compareDecimals, Core, encode, type LimitOptions } from "./transport.js";

const DECLARATION_TTL = 300_000;

/** The inputs of a model: typed for the kinds of the document. */
export type Inputs<M extends string> = M extends keyof Kinds ? Kinds[M]["input"] : Record<string, unknown>;

/** The output of a model: typed for the kinds of the document. */
export type Output<M extends string> = M extends keyof Kinds ? Kinds[M]["output"] : unknown;

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
    return creating(this.#core, options, async (api) => {
      const { task, isAdopted } = await start(api, model, inputs, options);
      // An adopted task without an upload of this run may be that of another program.
      const cancelAtDeadline = options.cancelAtDeadline && (api.uploads.length > 0 || !isAdopted);
      const outcome = await wait(api, task, cancelAtDeadline, true);
      return { ...outcome, output: outcome.output as Output<M>, storedInputs: api.uploads, isAdopted };
    });
  }

  /** Creates the task at most once, and returns its identifier. */
  async createOnce<M extends string>(model: M, inputs: Inputs<M>, options: CreateOptions = {}): Promise<string> {
    return creating(this.#core, options, async (api) => (await start(api, model, inputs, options)).task);
  }

  /** Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded. */
  async wait(task: string, options: WaitOptions = {}): Promise<Outcome> {
    return wait(new Api(this.#core, options), task, options.cancelAtDeadline);
  }

  /** Uploads a file of at most 104,857,600 bytes. */
  async upload(file: Blob, options: UploadOptions = {}): Promise<files.UploadedFile> {
    const api = new Api(this.#core, options);
    const source = await files.prepare(file, options.name, options.mime);
    return api.bounded("the transfer is not complete", () => files.upload(api, source, options.folder, options.orgUsername));
  }

  /** Downloads into memory: at most 256 MiB, unless `maxSize` says otherwise. */
  async download(url: string, options: LimitOptions & { maxSize?: number } = {}): Promise<Blob> {
    const api = new Api(this.#core, options);
    return api.bounded("the transfer is not complete", () => files.download(api, url, options.maxSize));
  }

  protected override operation<T>(name: string, method: string, path: string, options: CallOptions = {}): Promise<T> {
    return new Api(this.#core).operation(name, method, path, options);
  }
}

/** Does work that creates a task. The hint of an error without one says so. */
function creating<T>(core: Core, options: CreateOptions, work: (api: Api) => Promise<T>): Promise<T> {
  const api = new Api(core, options);
  const earlier = options.key === undefined ? "" : ", but an earlier one with the same key may have";
  return api.bounded("this call created no task", () => work(api), `; this call created no task${earlier}`);
}

/** Creates the task at most once, with its files uploaded before. */
async function start(api: Api, model: string, inputs: object, options: CreateOptions) {
  const { key = crypto.randomUUID(), maxCost, requireServing = false, folder } = options;
  if (typeof key !== "string" || !/^[!-~]{1,255}$/.test(key)) throw new InvalidArgument("key: expected a text of 1 to 255 visible characters of ASCII");
  if (asObject(inputs) !== inputs) throw new InvalidArgument("inputs: expected an object with the inputs of the model");
  if (maxCost !== undefined && (typeof maxCost !== "string" || (compareDecimals(maxCost, 0) ?? -1) < 0)) {
    throw new InvalidArgument(`maxCost: ${shown(maxCost)} is no amount; expected a text such as "0.10"`);
  }
  const sources = new Map<string, files.Source>();
  for (const [name, value] of Object.entries(inputs)) if (value instanceof Blob) sources.set(name, await files.prepare(value));
  const values = await checked(api, model, inputs as Record<string, unknown>);
  // What no JSON can hold is refused before an upload.
  encode(values);
  if (maxCost !== undefined) {
    const { cost } = await api.cost(model);
    if ((compareDecimals(cost, maxCost) ?? 1) > 0) throw new CostLimitExceeded(cost ?? undefined, maxCost);
  }
  if (requireServing && (await api.serving(model)).serving !== true) throw new ModelOffline(model);
  const stored = new Map<string, string>();
  for (const [name, source] of sources) {
    // A name that nobody else knows, and the same one for the same key: the inputs are the same then.
    const unique = (await files.sha256(new Blob([key, " ", source.mime, " ", source.blob]), source.name)).slice(0, 32);
    if (!stored.has(unique)) {
      const { downloadUrl } = await files.upload(api, { ...source, name: `${unique}-${source.name}` }, folder);
      stored.set(unique, downloadUrl);
      api.uploads.push(downloadUrl);
    }
    values[name] = stored.get(unique);
  }
  return create(api, model, values, key, options.key !== undefined);
}

/** Checks the inputs against the declaration, which is read again when the cached one refuses them. */
async function checked(api: Api, model: string, inputs: Record<string, unknown>): Promise<Record<string, unknown>> {
  const cached = api.core.declarations.get(model);
  if (cached && performance.now() - cached.at < DECLARATION_TTL) {
    try {
      return check(model, cached.format, inputs);
    } catch {
      // The model may have another declaration by now.
    }
  }
  const format = asObject(await api.declaration(model))["input_format"];
  api.core.declarations.set(model, { at: performance.now(), format });
  return check(model, format, inputs);
}
