/** Local validation: checks inputs against the declared parameters of a model, and writes each value in the JSON type
 * that the model takes. Only what the declaration makes certain is refused; the service decides on the rest. */

import { InvalidArgument, InvalidInputs, shown } from "./errors.js";
import { asArray, asObject, compareDecimals, plainDecimal } from "./transport.js";

/** A URL as text, or a file: a `File` has a name, a `Blob` gets one. */
export type FileInput = string | Blob;

type Descriptor = Record<string, unknown>;

/** Returns the values as they are sent; files stay as they are. A model that declares nothing takes everything. */
export function check(model: string, format: unknown, inputs: Record<string, unknown>): Record<string, unknown> {
  const declared = new Map(Object.entries(asObject(format)).map(([name, descriptor]) => [name, asObject(descriptor)]));
  const problems: Record<string, string> = {};
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(inputs)) {
    if (value == null) continue;
    const descriptor = declared.get(name) ?? {};
    const fitted = fit(descriptor, value);
    if (declared.size && !declared.has(name)) {
      const names = [...declared.keys()];
      problems[name] = `the model declares no such input${didYouMean(name, names) || `, expected one of ${names.join(", ")}`}`;
    } else if ("value" in fitted) {
      values[name] = fitted.value;
    } else {
      problems[name] = `expected ${expected(descriptor)}, got ${described(value)}${fitted.hint}`;
    }
  }
  for (const [name, descriptor] of declared) {
    if (descriptor["required"] === true && inputs[name] == null) problems[name] = `required but not given, expected ${expected(descriptor)}`;
  }
  if (Object.keys(problems).length) throw new InvalidInputs(model, problems);
  return values;
}

function fit(descriptor: Descriptor, value: unknown): { value: unknown } | { hint: string } {
  const kind = descriptor["type"];
  const samples = asArray(descriptor["samples"]);
  const refused = { hint: "" };
  if (value instanceof Blob) return ["int", "float", "options"].includes(String(kind)) ? refused : { value };
  const isKnown = ["file", "int", "float", "options", "string"].includes(String(kind));
  if (isKnown && typeof value === "object") return refused;
  if (kind === "int" || kind === "float") {
    const exact = plainDecimal(value);
    if (exact === undefined || (kind === "int" && exact.includes("."))) return refused;
    const { min, max } = asObject(descriptor["num_config"]);
    const isRange = compareDecimals(min, max) !== 1;
    if (isRange && (compareDecimals(exact, min) === -1 || compareDecimals(exact, max) === 1)) return refused;
    const written = kind === "float" && typeof value === "string" ? value.trim() : exact;
    const takesNumbers = samples.some((sample) => typeof sample === "number");
    // A number that no double holds stays text.
    return { value: takesNumbers && compareDecimals(Number(written), written) === 0 ? Number(written) : written };
  }
  if (kind === "options" && samples.length) {
    const found = samples.find((sample) => sample === value) ?? samples.find((sample) => String(sample) === String(value));
    return found === undefined ? { hint: didYouMean(String(value), samples.map(String)) } : { value: found };
  }
  if (kind === "file" && !isWebUrl(value)) return { hint: typeof value === "string" ? "; pass a File to upload a local file" : "" };
  if (kind === "string" && (typeof value === "number" || typeof value === "boolean")) return { value: String(value) };
  return { value };
}

export function isWebUrl(value: unknown): value is string {
  return typeof value === "string" && /^https?:\/\/[^/\\\s]([^\u0000-\u001f]*\S)?$/i.test(value) && URL.canParse(value);
}

/** The object of "expected …". */
function expected(descriptor: Descriptor): string {
  const { min, max } = asObject(descriptor["num_config"]);
  const bounds = min != null && max != null ? ` from ${String(min)} to ${String(max)}` : "";
  const samples = asArray(descriptor["samples"]).map((sample) => shown(sample)).join(", ");
  const known: Record<string, string> = {
    file: "a file, or a URL that starts with http:// or https://",
    int: `a whole number${bounds}`,
    float: `a number${bounds}`,
    options: samples ? `one of ${samples}` : "one of its options",
    string: "text",
  };
  return known[String(descriptor["type"])] ?? "a value";
}

function described(value: unknown): string {
  if (value instanceof Blob) return "a file";
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "an object";
  return typeof value === "string" ? shown(value) : String(value);
}

/** Suggests the name that is most alike: with at least half of the pairs of neighbouring letters in common. */
function didYouMean(name: string, names: string[]): string {
  const pairs = (text: string) => new Set([...text].map((_, index) => text.slice(index, index + 2)));
  const own = pairs(name);
  const alike = names.map((other) => {
    const others = pairs(other);
    const common = [...others].filter((pair) => own.has(pair));
    return { other, share: common.length / Math.max(own.size, others.size) };
  });
  const [near] = alike.filter(({ share }) => share >= 0.5).sort((one, other) => other.share - one.share);
  return near ? `, did you mean ${shown(near.other)}?` : "";
}

/** An identifier as a segment of a path. */
export function segment(what: string, text: string): string {
  if (typeof text !== "string" || !text.trim() || text === "." || text === "..") {
    throw new InvalidArgument(`${what}: ${shown(text)} is no identifier`);
  }
  return encodeURIComponent(text);
}
