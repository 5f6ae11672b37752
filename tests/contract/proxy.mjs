// A proxy that gives every response that the document allows. Arguments: the published inferstore.json
// and the root of the API behind it. The first segment of a path selects the mode (README.md), so that
// `http://127.0.0.1:PORT/nulls/api/v1` is the root of an API that responds with nulls.
//
// It prints its address as one line, {"url": "…"}. When its standard input ends it prints how many
// changes each mode made, and exits.

import { readFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";

const WORD = "unheard_of";
const AMOUNT = "128.507300000000000001";
/** More digits than a double holds. JSON.stringify cannot write it, so it travels as a marked string. */
const PRICE = "0.12345678901234567891";
const FIELD = { since: "tomorrow", values: [1, "two", null, { three: 3.5 }] };
const GATEWAY_PAGE = "<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>\n";

const [documentPath, target] = process.argv.slice(2);
const document = JSON.parse(readFileSync(documentPath, "utf8"));
const upstream = new URL(target);
const changes = {};
/** Paths that were read before, each with its mode. */
const seen = new Set();

function resolved(node) {
  while (node?.$ref) {
    node = node.$ref.slice(2).split("/").reduce((at, key) => at[key.replaceAll("~1", "/").replaceAll("~0", "~")], document);
  }
  return node;
}

/** The schema that the document gives for a response, or undefined. Literal segments win over parameters. */
function schemaOf(method, path, status) {
  const segments = path.split("/");
  const matches = (template) => {
    const parts = template.split("/");
    return parts.length === segments.length && parts.every((part, at) => part.startsWith("{") || part === segments[at]);
  };
  const parameters = (template) => template.split("{").length;
  const [template] = Object.keys(document.paths).filter(matches).sort((a, b) => parameters(a) - parameters(b));
  const responses = document.paths[template]?.[method.toLowerCase()]?.responses ?? {};
  const response = resolved(responses[status] ?? responses[`${String(status)[0]}XX`] ?? responses.default);
  return response?.content?.["application/json"]?.schema;
}

/**
 * Applies `change` to a value and to everything below it. A change returns undefined to leave a value as
 * it is, and is given the schema of the value, the value, and whether its object requires it.
 */
function changed(schema, value, change, required = true) {
  schema = resolved(schema);
  if (schema === undefined) return value;
  const other = change(schema, value, required);
  if (other !== undefined) return other;
  if (Array.isArray(value)) return value.map((item) => changed(schema.items, item, change));
  if (value === null || typeof value !== "object") return value;
  const copy = {};
  for (const [key, member] of Object.entries(value)) {
    const rest = typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
    const isRequired = !schema.properties?.[key] || (schema.required ?? []).includes(key);
    copy[key] = changed(schema.properties?.[key] ?? rest, member, change, isRequired);
  }
  return copy;
}

const count = (mode) => {
  changes[mode] = (changes[mode] ?? 0) + 1;
};

/** Sets what is optional and nullable, and is chosen by `isMeant`, to null. */
const nulls = (mode, isMeant) => (schema, body, isFirst) =>
  changed(schema, body, (schema, value, required) => {
    if (!isFirst || required || value === null || schema.nullable !== true || !isMeant(value)) return undefined;
    count(mode);
    return null;
  });

/** What each mode does to a body that fits a schema. `isFirst` is whether the path is read for the first time. */
const BODIES = {
  nulls: nulls("nulls", () => true),
  inner: nulls("inner", (value) => typeof value !== "object"),
  word: (schema, body, isFirst) =>
    changed(schema, body, (schema, value) => {
      const words = schema["x-extensible-enum"] ?? (schema["x-open-enum"] ? schema.enum : undefined);
      if (!isFirst || !words || typeof value !== "string") return undefined;
      count("word");
      return WORD;
    }),
  field: (schema, body) => {
    const isOpen = (schema) => schema?.properties && (schema.additionalProperties ?? true) === true;
    const add = (schema, value) => {
      if (!isOpen(schema) || value === null || typeof value !== "object" || value.brand_new) return undefined;
      count("field");
      return { ...changed(schema, { ...value, brand_new: FIELD }, add) };
    };
    return changed(schema, body, add);
  },
  digits: (schema, body) =>
    changed(schema, body, (schema, value) => {
      const isDecimal = schema["x-decimal"] || schema.format === "decimal";
      if (!isDecimal || value === null) return undefined;
      count("digits");
      return typeof value === "string" ? AMOUNT : `number:${PRICE}`;
    }),
};

/** Modes that respond without asking the service. */
const RESPONSES = {
  html502: [502, { "content-type": "text/html; charset=utf-8" }, GATEWAY_PAGE],
  http429: [
    429,
    { "content-type": "application/json", "retry-after": "1" },
    JSON.stringify({ status: "fail", message: "too many requests" }),
  ],
};

async function bytesOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What the service responds: the status, the headers and the body. */
function ask(method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const options = { host: upstream.hostname, port: upstream.port, method, path, agent: false };
    const call = forward({ ...options, headers: { ...headers, host: upstream.host, connection: "close" } });
    call.on("error", reject);
    call.on("response", (response) => {
      bytesOf(response).then((bytes) => resolve([response.statusCode, response.headers, bytes]), reject);
    });
    call.end(body);
  });
}

async function respond(request, body) {
  const [, mode, rest] = request.url.match(/^\/(\w+)(\/.*)$/) ?? [];
  if (RESPONSES[mode]) {
    count(mode);
    return RESPONSES[mode];
  }
  const [status, headers, bytes] = await ask(request.method, rest ?? "/", request.headers, body);
  const path = (rest ?? "").split("?")[0].slice(upstream.pathname.replace(/\/$/, "").length);
  const schema = schemaOf(request.method, path, status);
  let text = bytes;
  if (BODIES[mode] && schema && bytes.length > 0) {
    const visit = `${mode} ${request.method} ${path} ${status}`;
    const value = BODIES[mode](schema, JSON.parse(bytes.toString("utf8")), !seen.has(visit));
    seen.add(visit);
    text = JSON.stringify(value).replaceAll(/"number:([\d.]+)"/g, "$1");
  }
  for (const name of ["connection", "content-length", "transfer-encoding", "keep-alive"]) delete headers[name];
  if (mode !== "created" || status !== 200) return [status, headers, text];
  count(mode);
  return [201, headers, text];
}

const server = createServer(async (request, response) => {
  try {
    const [status, headers, body] = await respond(request, await bytesOf(request));
    response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
  } catch (error) {
    // No mode responds with this status, so that a program reports it.
    response.writeHead(599, { "content-type": "text/plain" }).end(`proxy: ${error.stack}\n`);
  }
});

server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
});
process.stdin.resume().on("end", () => {
  console.log(JSON.stringify(changes));
  process.exit(0);
});
