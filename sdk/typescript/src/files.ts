/** Files: uploads in two steps straight to object storage, and downloads. The API key goes to neither. */

import { FileError, InvalidArgument, type Redactor, shown } from "./errors.js";
import type { UploadFolder } from "./generated.js";
import { isWebUrl } from "./inputs.js";
import { asObject, type Core, Deadline, reasonOf, type Reply, retryAfterOf, TooLarge } from "./transport.js";

const MAX_SIZE = 104_857_600;
const MAX_IN_MEMORY = 256 * 1024 * 1024;
const MAX_FRESH_TARGETS = 2;
/** The slowest line that a transfer allows for, in bytes per millisecond. */
const MIN_THROUGHPUT = 32;
const TRANSFER_TIMEOUT = 30_000;
const EXPIRED_CODES = ["ExpiredToken", "RequestTimeTooSkewed", "AccessDenied"];
const SIGNATURES: Array<[string, string]> = [["89504e470d0a1a0a", "image/png"], ["ffd8ff", "image/jpeg"], ["47494638", "image/gif"]];
const EXTENSIONS: Record<string, string> = {
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", bmp: "image/bmp",
  mp4: "video/mp4", webm: "video/webm", mp3: "audio/mpeg", wav: "audio/wav", pdf: "application/pdf", json: "application/json", txt: "text/plain",
};

/** A stored file. Its URL can be used as an input. */
export interface UploadedFile {
  downloadUrl: string;
  name: string;
  mime: string;
  size: number;
}

/** A file that is ready to be sent. */
export interface Source {
  blob: Blob;
  name: string;
  mime: string;
  /** Identifies the content. */
  digest: string;
}

/** Checks a file before anything is sent. */
export async function prepare(blob: Blob, name = blob instanceof File ? blob.name : "file", type = blob.type): Promise<Source> {
  if (!blob.size || blob.size > MAX_SIZE) {
    const size = blob.size ? `it has ${blob.size} bytes` : "it is empty";
    throw new FileError(name, `${size}; the storage takes 1 to ${MAX_SIZE} bytes`);
  }
  const head = hex(new Uint8Array(await blob.slice(0, 16).arrayBuffer()));
  const isWebp = head.startsWith("52494646") && head.slice(16, 24) === "57454250";
  const signed = isWebp ? "image/webp" : SIGNATURES.find(([signature]) => head.startsWith(signature))?.[1];
  const mime = signed ?? (type || (EXTENSIONS[name.split(".").pop()!.toLowerCase()] ?? "application/octet-stream"));
  if (!name.trim()) throw new InvalidArgument("name: the file has no name to be stored under");
  if (!/^[!-~]+\/[ -~]+$/.test(mime)) throw new InvalidArgument(`mime: ${shown(mime)} is not a MIME type`);
  const digest = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer())));
  return { blob, name, mime, digest };
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A presigned target. It grants access, so no field of it can be printed. */
class Target {
  readonly #endpoint: string;
  readonly #fields: Array<[string, string]>;

  constructor(endpoint: string, fields: Array<[string, string]>, readonly downloadUrl: string, readonly redactor: Redactor) {
    this.#endpoint = endpoint;
    this.#fields = fields;
  }

  /** The request of step 2. */
  request({ blob, name, mime }: Source): [string, RequestInit] {
    if (this.#endpoint.includes("X-Amz-Algorithm")) {
      const type = this.#fields.find(([field]) => field.toLowerCase() === "content-type")?.[1] ?? mime;
      return [this.#endpoint, { method: "PUT", headers: { "content-type": type }, body: blob }];
    }
    const form = new FormData();
    for (const [field, value] of this.#fields) form.append(field, value);
    form.append("file", blob.slice(0, blob.size, mime), name.replace(/[\u0000-\u001f\u007f"\\]/g, "_"));
    return [this.#endpoint, { method: "POST", body: form }];
  }
}

/** Uploads a file, again with a new target when its target was rejected. */
export async function upload(core: Core, source: Source, folder: UploadFolder, orgUsername: string | undefined, deadline: Deadline): Promise<UploadedFile> {
  let target = await presign(core, source, folder, orgUsername, deadline);
  let fresh = 0;
  for (let attempt = 1; ; attempt++) {
    try {
      const [url, init] = target.request(source);
      await transfer(core, source.name, url, init, target.redactor, deadline, 64 * 1024, source.blob.size);
      return { downloadUrl: target.downloadUrl, name: source.name, mime: source.mime, size: source.blob.size };
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      const isExpired = Boolean(error.context.expired) && fresh < MAX_FRESH_TARGETS;
      if (!(error.isRetryable || isExpired) || !(await core.backoff(attempt, error.context.retryAfter, deadline))) throw error;
      if (isExpired) {
        fresh++;
        target = await presign(core, source, folder, orgUsername, deadline);
      }
    }
  }
}

async function presign(core: Core, { blob, name, mime }: Source, folder: UploadFolder, orgUsername: string | undefined, deadline: Deadline): Promise<Target> {
  const body = { folder, mime, name, size: blob.size, ...(orgUsername !== undefined && { org_username: orgUsername }) };
  const path = "/api-key/storage/upload/create-presigned-url";
  const { endpoint, fields, download_url: downloadUrl } = asObject(await core.call("createPresignedUpload", "POST", path, deadline, { body }));
  let members: Record<string, unknown> | undefined;
  try {
    members = typeof fields === "string" ? (JSON.parse(fields || "{}") as Record<string, unknown>) : undefined;
  } catch {
    // The text is a secret, so its parser must not quote it.
  }
  if (!isWebUrl(endpoint) || !isWebUrl(downloadUrl) || typeof members !== "object" || members === null) {
    throw new FileError(name, "the upload target of the service is not a URL with fields");
  }
  const pairs = Object.entries(members)
    .filter(([, value]) => value != null && typeof value !== "object")
    .map(([field, value]): [string, string] => [field, String(value)]);
  return new Target(endpoint, pairs, downloadUrl, core.redactor.withTarget(endpoint, pairs));
}

/** One exchange with object storage. */
async function transfer(core: Core, label: string, url: string, init: RequestInit, redactor: Redactor, deadline: Deadline, maxSize: number, size: number): Promise<Reply> {
  let reply: Reply;
  try {
    reply = await core.exchange(url, init, deadline, TRANSFER_TIMEOUT + size / MIN_THROUGHPUT, maxSize);
  } catch (error) {
    deadline.signal?.throwIfAborted();
    if (error instanceof TooLarge) throw new FileError(label, `the content has more than ${maxSize} bytes`);
    const problem = `object storage gave no response: ${redactor.foreign(reasonOf(error), 200)}`;
    throw new FileError(label, problem, { retryable: !deadline.isOver });
  }
  if (reply.status >= 200 && reply.status < 300) return reply;
  const text = new TextDecoder().decode(reply.body);
  const [code, message] = ["Code", "Message"].map((name) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1] ?? "");
  const said = redactor.foreign(code || message ? `${code} ${message}` : text, 300);
  throw new FileError(label, `object storage responded with ${reply.status}${said && `: ${said}`}`, {
    retryable: ["RequestTimeout", "SlowDown"].includes(code!) || reply.status >= 500 || [408, 429].includes(reply.status),
    expired: reply.status === 403 || (reply.status >= 400 && reply.status < 500 && EXPIRED_CODES.includes(code!)),
    status: reply.status,
    retryAfter: retryAfterOf(reply.headers),
  });
}

/** Downloads a URL into memory, and follows redirects. */
export async function download(core: Core, url: string, maxSize = MAX_IN_MEMORY, deadline: Deadline): Promise<Blob> {
  if (!isWebUrl(url)) throw new InvalidArgument("url: the download is not a URL with http or https");
  const label = new URL(url).hostname;
  for (let attempt = 1; ; attempt++) {
    try {
      const init = { headers: { "accept-encoding": "identity" }, redirect: "follow" as const };
      const reply = await transfer(core, label, url, init, core.redactor.withTarget(url), deadline, maxSize, maxSize);
      if (url.startsWith("https:") && reply.url.startsWith("http:")) throw new FileError(label, "a redirect leads from https to unencrypted http");
      if (reply.status === 206) throw new FileError(label, "the server sent a part of the content only");
      return new Blob([reply.body], { type: reply.headers.get("content-type") ?? "" });
    } catch (error) {
      if (!(error instanceof FileError) || !error.isRetryable) throw error;
      if (!(await core.backoff(attempt, error.context.retryAfter, deadline))) throw error;
    }
  }
}
