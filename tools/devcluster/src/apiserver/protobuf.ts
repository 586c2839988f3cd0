import protobuf from "protobufjs";
import messageFields from "../../schemas/protobuf.json" with { type: "json" };
import { findDefinition, requireGeneratedObject } from "./definitions.ts";
import { isList, isObject, type JsonValue, type JsonObject, mapEntries, getText } from "./json.ts";
import { badRequest, fail } from "./status.ts";

/**
 * Prefix of every object in protobuf, which `kubectl create` and `kubectl create token` send. A message `Unknown` follows, with the kind and the bytes of the
 * object.
 */
const MAGIC = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

type Field = { readonly name: string; readonly type: string; readonly flags: readonly string[] };
type Message = ReadonlyMap<number, Field>;

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";

/** Messages whose JSON is a plain value. */
const VALUES: Readonly<Record<string, (reader: protobuf.Reader, end: number) => JsonValue>> = {
  [`${META}.Time`]: (reader, end) => readTime(reader, end, ""),
  [`${META}.MicroTime`]: (reader, end) => readTime(reader, end, "micro"),
  [`${META}.FieldsV1`]: (reader, end) => {
    const { 1: raw } = readRaw(reader, end);
    return toJson(decodeText(raw));
  },
  "io.k8s.apimachinery.pkg.api.resource.Quantity": (reader, end) => decodeText(readRaw(reader, end)[1]),
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (reader, end) => {
    const { 1: kind, 2: number, 3: text } = readRaw(reader, end);
    return kind === 1 ? decodeText(text) : typeof number === "number" ? number | 0 : 0;
  },
};

const EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/** Messages that marshal their own JSON: one of several values, each in its own field. */
const CHOICES: Readonly<Record<string, (message: JsonObject) => JsonValue>> = {
  [`${EXTENSIONS}.JSON`]: (message) => toJson(Buffer.from(getText(message, "raw"), "base64").toString("utf8")),
  [`${EXTENSIONS}.JSONSchemaPropsOrArray`]: (message) => message["schema"] ?? message["jSONSchemas"] ?? null,
  [`${EXTENSIONS}.JSONSchemaPropsOrBool`]: (message) => message["schema"] ?? message["allows"] ?? false,
  [`${EXTENSIONS}.JSONSchemaPropsOrStringArray`]: (message) => message["schema"] ?? message["property"] ?? null,
};

let messages: ReadonlyMap<string, Message> | undefined;

/**
 * Decodes a built-in kind from Go clients, such as kubectl's `create`, to JSON. Undefined for a kind without a protobuf form here. Fails with 400 for invalid
 * bytes.
 */
export function decodeProtobuf(bytes: Buffer, expected: { apiVersion: string; kind: string }): JsonObject | undefined {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
    return fail(badRequest("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"));
  }
  try {
    const { 1: type, 2: raw } = readWhole(bytes.subarray(MAGIC.length));
    const { 1: version, 2: name } = type instanceof Uint8Array ? readWhole(type) : {};
    const apiVersion = decodeText(version) || expected.apiVersion;
    const kind = decodeText(name) || expected.kind;
    // The API group of a request determines the version of its options.
    const options = kind === "DeleteOptions" ? findDefinition("v1", kind) : undefined;
    const definition = options ?? findDefinition(apiVersion, kind);
    if (definition === undefined || !known().has(definition)) return undefined;
    const content = raw instanceof Uint8Array ? raw : new Uint8Array();
    const reader = protobuf.Reader.create(content);
    return { kind, apiVersion, ...readMessage(definition, reader, content.length) };
  } catch (error) {
    if (!(error instanceof RangeError) && !(error instanceof SyntaxError)) throw error;
    return fail(badRequest(`invalid protobuf message: ${error.message}`));
  }
}

/** Returns the generated fields of every message by number. */
function known(): ReadonlyMap<string, Message> {
  messages ??= new Map(
    Object.entries(requireGeneratedObject(messageFields)).map(([name, fields]) => [
      name,
      parseMessage(isObject(fields) ? fields : {}),
    ]),
  );
  return messages;
}

function parseMessage(fields: JsonObject): Message {
  return new Map(
    Object.entries(fields).map(([number, field]) => {
      const [name = "", type = "", ...flags] = isList(field) ? field.filter((part) => typeof part === "string") : [];
      return [Number(number), { name, type, flags }] as const;
    }),
  );
}

function readMessage(definition: string, reader: protobuf.Reader, end: number): JsonObject {
  const message = known().get(definition);
  if (message === undefined) throw new SyntaxError(`no message ${definition}`);
  const object: Record<string, JsonValue> = Object.create(null) as Record<string, JsonValue>;
  while (reader.pos < end) {
    const tag = reader.uint32();
    const field = message.get(tag >>> 3);
    if (field === undefined) {
      reader.skipType(tag & 7);
      continue;
    }
    const { name, type, flags } = field;
    const current = object[name];
    if (flags.includes("map")) {
      const [key, value] = readEntry(type, reader);
      object[name] = { ...(isObject(current) ? current : {}), [key]: value };
    } else if (flags.includes("list")) {
      object[name] = [...(isList(current) ? current : []), readValue(type, reader)];
    } else if (name === "") {
      const inlined = readValue(type, reader);
      Object.assign(object, isObject(inlined) ? inlined : {});
    } else {
      const value = readValue(type, reader);
      // Fields that Go omits from JSON are dropped.
      if (flags.includes("kept") || !isZero(value)) object[name] = value;
    }
  }
  return mapEntries(object, (_key, value) => value);
}

function isZero(value: JsonValue): boolean {
  return value === "" || value === 0 || value === false || value === null;
}

function readValue(type: string, reader: protobuf.Reader): JsonValue {
  switch (type) {
    case "string":
      return reader.string();
    case "bool":
      return reader.bool();
    case "int32":
      return reader.int32();
    case "int64":
      return Number(reader.int64());
    case "float64":
      return reader.double();
    case "bytes":
      return Buffer.from(reader.bytes()).toString("base64");
    default: {
      const end = reader.uint32() + reader.pos;
      const read = VALUES[type];
      if (read !== undefined) return read(reader, end);
      const message = readMessage(type, reader, end);
      return CHOICES[type]?.(message) ?? message;
    }
  }
}

function readEntry(type: string, reader: protobuf.Reader): [key: string, value: JsonValue] {
  const end = reader.uint32() + reader.pos;
  let key = "";
  let value: JsonValue = "";
  while (reader.pos < end) {
    const tag = reader.uint32();
    if (tag >>> 3 === 1) key = reader.string();
    else if (tag >>> 3 === 2) value = readValue(type, reader);
    else reader.skipType(tag & 7);
  }
  return [key, value];
}

type Raw = Readonly<Record<number, number | Uint8Array>>;

function readWhole(bytes: Uint8Array): Raw {
  return readRaw(protobuf.Reader.create(bytes), bytes.length);
}

/** Reads fields by number, for the few messages without a table. */
function readRaw(reader: protobuf.Reader, end: number): Raw {
  const fields: Record<number, number | Uint8Array> = {};
  while (reader.pos < end) {
    const tag = reader.uint32();
    const wire = tag & 7;
    if (wire === 0) fields[tag >>> 3] = Number(reader.int64());
    else if (wire === 2) fields[tag >>> 3] = reader.bytes();
    else reader.skipType(wire);
  }
  return fields;
}

function readTime(reader: protobuf.Reader, end: number, precision: "" | "micro"): JsonValue {
  const { 1: seconds = 0, 2: nanos = 0 } = readRaw(reader, end);
  const [whole, rest] = [Number(seconds), Number(nanos)];
  // Go's zero time, the year 1, is null in JSON.
  if (whole <= ZERO_TIME_SECONDS || (whole === 0 && rest === 0)) return null;
  const text = new Date(whole * 1000).toISOString().slice(0, 19);
  return precision === "" ? `${text}Z` : `${text}.${String(Math.floor(rest / 1000)).padStart(6, "0")}Z`;
}

const ZERO_TIME_SECONDS = -62_135_596_800;

function decodeText(value: number | Uint8Array | undefined): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : "";
}

function toJson(text: string): JsonValue {
  // JSON.parse returns nothing else.
  return JSON.parse(text) as JsonValue;
}
