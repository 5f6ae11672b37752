/** Files: uploads in two steps straight to object storage, and downloads. The API key goes to neither. */

import { FileError, InvalidArgument, isTransient, type Redactor, shown } from "./errors.js";
import type { UploadFolder } from "./generated.js";
import { isWebUrl } from "./inputs.js";
import { type Api, asObject, decode, reasonOf, type Reply, retryAfterOf, TooLarge } from "./transport.js";

const MAX_SIZE = 104_857_600;
const MAX_IN_MEMORY = 256 * 1024 * 1024;
/** Milliseconds without a byte of a download, and for a whole transfer with the throughput of the slowest line, in bytes/ms. */
export const TRANSFER = { timeout: 30_000, minThroughput: 32 };
const EXPIRED_CODES = ["ExpiredToken", "RequestTimeTooSkewed", "AccessDenied"];
const SIGNATURES: Array<[RegExp, string]> = [
  [/^\x89PNG\r\n\x1a\n/, "image/png"], [/^\xff\xd8\xff/, "image/jpeg"], [/^GIF8/, "image/gif"], [/^RIFF.{4}WEBP/s, "image/webp"],
  [/^(II\*\0|MM\0\*)/, "image/tiff"],
];
const EXTENSIONS = new Map(Object.entries({
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", bmp: "image/bmp",
  tif: "image/tiff", tiff: "image/tiff", heic: "image/heic", avif: "image/avif",
  mp4: "video/mp4", webm: "video/webm", mp3: "audio/mpeg", wav: "audio/wav", pdf: "application/pdf", json: "application/json", txt: "text/plain",
}));
/** The type of a name or a path by its extension. */
const typeOf = (name: string) => EXTENSIONS.get(name.split(".").pop()!.toLowerCase());

/** A stored file. Its URL can be used as an input. */
export interface UploadedFile {
  downloadUrl: string;
  name: string;
  mime: string;
  size: number;
}

/** A file that is ready to be sent. */
export type Source = Awaited<ReturnType<typeof prepare>>;

/** Checks a file before anything is sent. */
export async function prepare(blob: Blob, name = blob instanceof File ? blob.name : "file", given?: string) {
  if (!(blob instanceof Blob)) throw new InvalidArgument('file: expected a File or a Blob, such as new File([bytes], "photo.png")');
  if (!blob.size || blob.size > MAX_SIZE) throw new FileError(name, `it has ${blob.size} bytes; the storage takes 1 to ${MAX_SIZE} bytes`);
  const head = String.fromCharCode(...new Uint8Array(await read(blob.slice(0, 16), name)));
  const signed = SIGNATURES.find(([signature]) => signature.test(head))?.[1];
  const mime = given || signed || blob.type || (typeOf(name) ?? "application/octet-stream");
  if (!name.trim()) throw new InvalidArgument("name: the file has no name to be stored under");
  if (!/^[!-~]+\/[ -~]+$/.test(mime)) throw new InvalidArgument(`mime: ${shown(mime)} is not a MIME type`);
  return { blob, name, mime };
}

/** Reads a file, which may have changed since it was opened. */
async function read(content: Blob, name: string): Promise<ArrayBuffer> {
  return content.arrayBuffer().catch((error: unknown) => {
    throw new FileError(name, `it cannot be read: ${shown(reasonOf(error))}`);
  });
}

export async function sha256(content: Blob, name: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await read(content, name)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Uploads a file, again with a new target when its target was rejected. */
export async function upload(api: Api, source: Source, folder: UploadFolder = "samples", orgUsername?: string): Promise<UploadedFile> {
  const { blob, name, mime } = source;
  let target = await presign(api, source, folder, orgUsername);
  return api.retried(async () => {
    const { endpoint, init, redactor, downloadUrl } = target;
    await transfer(api, name, endpoint, init, redactor, MAX_IN_MEMORY, blob.size).catch(async (error: unknown) => {
      if (error instanceof FileError && error.context.expired) {
        target = await presign(api, source, folder, orgUsername);
        error.isRetryable = true;
      }
      throw error;
    });
    return { downloadUrl, name, mime, size: blob.size };
  });
}

/** Asks for an upload target: a secret, because it grants access. */
async function presign(api: Api, { blob, name, mime }: Source, folder: UploadFolder, orgUsername?: string) {
  const body = { folder, mime, name, size: blob.size, ...(orgUsername !== undefined && { org_username: orgUsername }) };
  const path = "/api-key/storage/upload/create-presigned-url";
  const { endpoint, fields, download_url: downloadUrl } = asObject(await api.operation("createPresignedUpload", "POST", path, { body }));
  const members = decode(String(fields || "{}"));
  if (!isWebUrl(endpoint) || !isWebUrl(downloadUrl) || asObject(members) !== members) {
    throw new FileError(name, "the upload target of the service is not a URL with fields");
  }
  const pairs = Object.entries(asObject(members)).flatMap(([field, value]): Array<[string, string]> => (value == null ? [] : [[field, String(value)]]));
  const redactor = api.core.redactor.withTarget(endpoint, pairs);
  if (endpoint.includes("X-Amz-Algorithm")) {
    const type = pairs.find(([field]) => field.toLowerCase() === "content-type")?.[1] ?? mime;
    return { endpoint, init: { method: "PUT", headers: { "content-type": type }, body: blob }, redactor, downloadUrl };
  }
  const form = new FormData();
  for (const [field, value] of pairs) form.append(field, value);
  form.append("file", blob.slice(0, blob.size, mime), name.replace(/[\u0000-\u001f\u007f"\\]/g, "_"));
  return { endpoint, init: { method: "POST", body: form }, redactor, downloadUrl };
}

/** One exchange with object storage. */
async function transfer(api: Api, label: string, url: string, init: RequestInit, redactor: Redactor, maxSize: number, size: number): Promise<Reply> {
  const timeout = TRANSFER.timeout + size / TRANSFER.minThroughput;
  // Nothing shows how far an upload is.
  const reply = await api.exchange(url, init, timeout, maxSize, init.body ? timeout : TRANSFER.timeout).catch((error: unknown) => {
    api.signal.throwIfAborted();
    if (error instanceof TooLarge) throw new FileError(label, `the content has more than ${maxSize} bytes`);
    throw new FileError(label, `object storage gave no response: ${redactor.foreign(reasonOf(error), 200)}`, { retryable: api.left > 0 });
  });
  const [{ ok, status, headers }, body] = reply;
  const text = ok && !init.body ? "" : await body.text();
  // A gateway, or the portal of a network, sends one. A download may be a web page, unless the extension of its URL denies it.
  const isPage = /^\s*text\/html\b/i.test(headers.get("content-type") ?? "") || /^\s*<(!doctype\s+)?html\b/i.test(text);
  if (ok && isPage && (init.body || typeOf(new URL(url).pathname))) {
    throw new FileError(label, `a web page in place of object storage responded with ${status}`, { retryable: true, status });
  }
  const encoding = init.body ? null : headers.get("content-encoding");
  if (ok && (encoding ?? "identity") !== "identity") throw new FileError(label, `the content came encoded as ${shown(encoding)}, against the request`);
  if (ok) return reply;
  const [code = "", message = ""] = ["Code", "Message"].map((name) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]);
  const said = redactor.foreign(`${code} ${message}`.trim() || text, 300);
  throw new FileError(label, `object storage responded with ${status}${said && `: ${said}`}`, {
    retryable: ["RequestTimeout", "SlowDown"].includes(code) || isTransient(status),
    expired: status === 403 || (status >= 400 && status < 500 && EXPIRED_CODES.includes(code)),
    status,
    retryAfter: retryAfterOf(headers),
  });
}

/** Downloads a URL into memory, and follows redirects. */
export async function download(api: Api, url: string, maxSize = MAX_IN_MEMORY): Promise<Blob> {
  if (!isWebUrl(url)) throw new InvalidArgument("url: the download is not a URL with http or https");
  const label = new URL(url).hostname;
  const init: RequestInit = { headers: { "accept-encoding": "identity" }, redirect: "follow" };
  const [response, body] = await api.retried(() => transfer(api, label, url, init, api.core.redactor.withTarget(url), maxSize, maxSize));
  if (url.startsWith("https:") && response.url.startsWith("http:")) throw new FileError(label, "a redirect leads from https to unencrypted http");
  if (response.status === 206) throw new FileError(label, "the server sent a part of the content only");
  return new Blob([body], { type: response.headers.get("content-type") ?? "" });
}
