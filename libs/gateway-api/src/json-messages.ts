import { throwFault } from "@muster/faults";
import { describeUnknownField, describeValue } from "@muster/documents";
import type { AnyMessageType, FieldShape, MessageOf, MessageShape } from "@muster/proto";
import { shapes } from "@muster/proto/shapes";

type Json = unknown;
type Fields = Readonly<Record<string, unknown>>;

/** Characters of a path in an error. */
const MAX_PATH = 253;
const NANOS = 1_000_000_000;
/** Ranges of the integer types; for 64 bits, the range that JSON represents exactly. */
export const INTEGERS: Readonly<Record<string, readonly [min: number, max: number]>> = {
  uint32: [0, 2 ** 32 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint64: [0, Number.MAX_SAFE_INTEGER],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

export function getTypeName(type: AnyMessageType): string {
  return type.getTypeUrl("").slice(1);
}

export function getShape(name: string): MessageShape {
  const shape = shapes.messages[name];
  if (shape === undefined) throw new Error(`no message is called ${name}`);
  return shape;
}

/**
 * Converts a message to JSON: every field without presence, enums by their short names (omitted if unspecified), bytes in base64, times in RFC 3339 and
 * durations in seconds (`3600s`).
 */
export function toJson(type: string, message: object): Json {
  return findWriter(type)(message);
}

type Write = (value: unknown) => Json;

/** Cached per type, because a list has a hundred thousand fields. */
const writers = new Map<string, Write>();

function findWriter(type: string): Write {
  const known = writers.get(type);
  if (known !== undefined) return known;
  const write = makeWriter(type);
  writers.set(type, write);
  return write;
}

function makeWriter(type: string): Write {
  if (type === "google.protobuf.Timestamp") return (value) => timeToJson(value as Span);
  if (type === "google.protobuf.Duration") return (value) => durationToJson(value as Span);
  if (type === "bytes") return (value) => Buffer.from(value as Uint8Array).toString("base64");
  const names = shapes.enums[type];
  if (names !== undefined) {
    const byNumber = new Map<unknown, string>(Object.entries(names.numbers).map(([name, number]) => [number, name]));
    return (value) => byNumber.get(value);
  }
  return type in shapes.messages ? makeMessageWriter(type) : (value) => value;
}

function makeMessageWriter(type: string): Write {
  // Created at the first message, because a field may have the type of its own message.
  let fields: readonly (readonly [name: string, write: Write])[] | undefined;
  return (message) => {
    fields ??= Object.entries(getShape(type).fields).map(([name, field]) => [name, makeFieldWriter(field)]);
    const json: Record<string, Json> = {};
    for (const [name, write] of fields) {
      const value = (message as Fields)[name];
      const written = value === undefined || value === null ? undefined : write(value);
      if (written !== undefined) json[name] = written;
    }
    return json;
  };
}

function makeFieldWriter({ type, many }: FieldShape): Write {
  const write = findWriter(type);
  if (many === "list") return (value) => (value as readonly unknown[]).map(write);
  if (many === "map")
    return (value) => Object.fromEntries(Object.entries(value as object).map(([key, each]) => [key, write(each)]));
  return write;
}

/**
 * The fields of a message from JSON. Throws FaultError invalid_request for a field that does not exist, and for a value that a field cannot have; both name the
 * field. `without`: fields that are set elsewhere.
 */
export function parseFields(type: string, json: Json, path = "", without: readonly string[] = []): Fields {
  if (!isMapping(json)) return refuse(path || "body", `${describeValue(json)} is not an object`);
  const { fields } = getShape(type);
  const message: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(json)) {
    const at = path === "" ? name : `${path}.${name}`;
    const field = Object.hasOwn(fields, name) && !without.includes(name) ? fields[name] : undefined;
    if (field === undefined) {
      const known = Object.keys(fields).filter((each) => !without.includes(each));
      refuse(at, describeUnknownField(name, known));
    }
    if (value !== null) message[name] = fieldFromJson(field, value, at);
  }
  return message;
}

/** Reads a message from JSON, with the zero value of each missing field. Ignores unknown fields and words of later versions. */
export function parseMessage<Type extends AnyMessageType>(type: Type, json: Json): MessageOf<Type> {
  const name = getTypeName(type);
  return type.decode(type.encode(parseFields(name, withoutUnknown(name, json))).finish()) as MessageOf<Type>;
}

function withoutUnknown(type: string, json: Json): Json {
  const names = shapes.enums[type];
  if (names !== undefined) return typeof json === "string" && Object.hasOwn(names.numbers, json) ? json : null;
  const shape = shapes.messages[type];
  if (shape === undefined || !isMapping(json)) return json;
  const known = Object.entries(json).flatMap(([name, value]) => {
    const field = Object.hasOwn(shape.fields, name) ? shape.fields[name] : undefined;
    return field === undefined ? [] : [[name, knownParts(field, value)] as const];
  });
  return Object.fromEntries(known);
}

function knownParts({ type, many }: FieldShape, value: Json): Json {
  const known = (each: Json): Json => withoutUnknown(type, each);
  if (many === "list" && Array.isArray(value)) return value.map(known).filter((each) => each !== null);
  if (many !== "map" || !isMapping(value)) return known(value);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, known(each)]));
}

function fieldFromJson(field: FieldShape, value: Json, at: string): unknown {
  if (field.many === "list") {
    if (!Array.isArray(value)) return refuse(at, `${describeValue(value)} is not a list`);
    return value.map((each: Json, index) => valueFromJson(field.type, each, `${at}[${index}]`));
  }
  if (field.many === "map") {
    if (!isMapping(value)) return refuse(at, `${describeValue(value)} is not an object`);
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([key, each]) => [key, valueFromJson(field.type, each, `${at}.${key}`)]));
  }
  return valueFromJson(field.type, value, at);
}

function valueFromJson(type: string, value: Json, at: string): unknown {
  const names = shapes.enums[type];
  if (names !== undefined) {
    const number = typeof value === "string" && Object.hasOwn(names.numbers, value) ? names.numbers[value] : undefined;
    return number ?? refuse(at, `${describeValue(value)} is none of ${Object.keys(names.numbers).join(", ")}`);
  }
  const range = INTEGERS[type];
  if (range !== undefined) {
    const [min, max] = range;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    return refuse(at, `${describeValue(value)} is not a whole number from ${min} to ${max}`);
  }
  switch (type) {
    case "string":
      return typeof value === "string" ? value : refuse(at, `${describeValue(value)} is not a text`);
    case "bool":
      return typeof value === "boolean" ? value : refuse(at, `${describeValue(value)} is neither true nor false`);
    case "bytes":
      return bytesFromJson(value, at);
    case "double":
    case "float":
      return typeof value === "number" ? value : refuse(at, `${describeValue(value)} is not a number`);
    case "google.protobuf.Timestamp":
      return timeFromJson(value, at);
    case "google.protobuf.Duration":
      return durationFromJson(value, at);
    default:
      return parseFields(type, value, at);
  }
}

/** Parses one value of a query by the type of its field. */
export function parseQueryValue(field: FieldShape, text: string, at: string): unknown {
  if (field.type === "bool") {
    if (text !== "true" && text !== "false") refuse(at, `"${text}" is neither true nor false`);
    return text === "true";
  }
  const isNumber = INTEGERS[field.type] !== undefined;
  return valueFromJson(field.type, isNumber && /^-?\d+$/.test(text) ? Number(text) : text, at);
}

/** Whether a query can have it. */
export function isPlain({ type, many }: FieldShape): boolean {
  return many === undefined && (type === "string" || type === "bool" || type in INTEGERS || type in shapes.enums);
}

type Span = { readonly seconds: number; readonly nanos: number };

function timeToJson({ seconds, nanos }: Span): string {
  const whole = new Date(seconds * 1000).toISOString().replace(/\.\d+Z$/, "");
  return `${whole}${fraction(nanos)}Z`;
}

function durationToJson({ seconds, nanos }: Span): string {
  return `${seconds}${fraction(nanos)}s`;
}

function fraction(nanos: number): string {
  return nanos === 0 ? "" : `.${String(nanos).padStart(9, "0").replace(/0+$/, "")}`;
}

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;

function timeFromJson(value: Json, at: string): Span {
  const [, whole, part = ""] = (typeof value === "string" && TIME.exec(value)) || [];
  const ms = whole === undefined ? Number.NaN : Date.parse(`${whole}Z`);
  if (Number.isNaN(ms)) return refuse(at, `${describeValue(value)} is not a time such as 2026-01-31T12:00:00Z`);
  return { seconds: ms / 1000, nanos: Number(part.padEnd(9, "0")) };
}

function durationFromJson(value: Json, at: string): Span {
  const [, seconds, part = ""] = (typeof value === "string" && /^(\d{1,15})(?:\.(\d{1,9}))?s$/.exec(value)) || [];
  if (seconds === undefined) return refuse(at, `${describeValue(value)} is not a duration in seconds such as 3600s`);
  const nanos = Number(part.padEnd(9, "0"));
  return { seconds: Number(seconds), nanos: nanos % NANOS };
}

function bytesFromJson(value: Json, at: string): Uint8Array {
  const isBase64 = typeof value === "string" && value.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(value);
  return isBase64 ? Buffer.from(value, "base64") : refuse(at, `${describeValue(value)} is not in base64`);
}

function isMapping(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names of fields are parts of the request, and can be as long as its body. */
function refuse(path: string, reason: string): never {
  const field = path.length > MAX_PATH ? `${path.slice(0, MAX_PATH - 1)}…` : path;
  return throwFault({ code: "invalid_request", field, reason });
}
