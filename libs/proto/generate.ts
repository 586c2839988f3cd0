/**
 * Generates from proto/, run by `nx run proto:generate`; nothing of it is committed:
 * - generated/messages.js: protobufjs's static module;
 * - generated/messages.d.ts: the types of its messages, as they are once decoded (`Pool`) and as callers may write them (`Pool.$Properties`);
 * - generated/enums.ts: the names of enum values and their numbers;
 * - generated/services.ts: one typed descriptor a service;
 * - generated/shapes.ts: the fields of every message as data, for what reads and writes any of them as JSON;
 * - generated/json.ts: the types of messages as JSON, for clients of the HTTP API.
 */
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import type { EnumShape, FieldShape, MessageShape } from "./src/shapes.ts";

const here = dirname(fileURLToPath(import.meta.url));
const protoRoot = join(here, "../../proto");
const out = join(here, "generated");
const files = globSync("muster/**/*.proto", { cwd: protoRoot }).sort();
const cli = dirname(createRequire(import.meta.url).resolve("protobufjs-cli/package.json"));

const SOURCE = "// Generated from proto/ by generate.ts.";

mkdirSync(out, { recursive: true });
const root = loadProtos();
writeFileSync(join(out, "messages.js"), generateCodec());
writeFileSync(join(out, "messages.d.ts"), renderDeclarations(root));
writeFileSync(join(out, "enums.ts"), renderEnums(listObjects(root, protobuf.Enum)));
writeFileSync(join(out, "services.ts"), renderServices(listObjects(root, protobuf.Service)));
writeFileSync(join(out, "shapes.ts"), renderShapes(root));
writeFileSync(join(out, "json.ts"), renderJson(root));

function loadProtos(): protobuf.Root {
  const loaded = new protobuf.Root();
  loaded.resolvePath = (_origin, target) => (target.startsWith("/") ? target : join(protoRoot, target));
  loaded.loadSync(files, { alternateCommentMode: true }).resolveAll();
  return loaded;
}

function generateCodec(): string {
  const options = ["-t", "static-module", "-w", "es6", "--es6", "--force-number"];
  const without = ["comments", "service", "delimited", "verify"].map((part) => `--no-${part}`);
  const paths = files.map((file) => join(protoRoot, file));
  const pbjs = [join(cli, "bin/pbjs"), ...options, ...without, "-p", protoRoot, ...paths];
  const code = execFileSync(process.execPath, pbjs, { encoding: "utf8", maxBuffer: Infinity });
  return (
    code
      .replace(/"protobufjs\/minimal(\.js)?"/, '"../src/protobuf-runtime.ts"')
      // An absent field is undefined, as everywhere else in TypeScript.
      .replaceAll(/(\.prototype\S+ = )null;/g, "$1undefined;")
  );
}

function listObjects<Kind extends protobuf.ReflectionObject>(
  namespace: protobuf.NamespaceBase,
  kind: new (...parts: never[]) => Kind,
): Kind[] {
  return namespace.nestedArray.flatMap((nested) => {
    if (nested instanceof kind) return [nested];
    return nested instanceof protobuf.Namespace ? listObjects(nested, kind) : [];
  });
}

function renderDeclarations(namespace: protobuf.NamespaceBase): string {
  const head = [SOURCE, 'import type { MessageType, OneOf } from "../src/descriptor.ts";'];
  const spaces = namespace.nestedArray.map((nested) => `export ${renderDeclaration(nested)}`);
  return [...head, ...spaces, ""].join("\n");
}

function renderDeclaration(object: protobuf.ReflectionObject): string {
  const { name } = object;
  if (object instanceof protobuf.Service) return "";
  if (object instanceof protobuf.Enum) {
    const values = Object.entries(object.values).map(([value, number]) => `${value} = ${number}`);
    return `${doc(object)}enum ${name} { ${values.join(", ")} }`;
  }
  if (object instanceof protobuf.Type) return renderMessage(object);
  if (!(object instanceof protobuf.Namespace)) throw new Error(`${object.fullName}: no declaration is known for it`);
  return [`namespace ${name} {`, ...object.nestedArray.map(renderDeclaration), "}"].join("\n");
}

function renderMessage(message: protobuf.Type): string {
  const { name, fieldsArray, oneofsArray } = message;
  if (message.nestedArray.length > 0) throw new Error(`${message.fullName}: declare what is inside it beside it`);
  const choices = oneofsArray.filter((oneof) => !oneof.isProto3Optional);
  const chosen = new Set(choices.flatMap((oneof) => oneof.fieldsArray));
  const decoded = fieldsArray
    .filter((field) => !chosen.has(field))
    .map(
      (field) => `${doc(field)}readonly ${field.name}: ${buildType(field)}${hasPresence(field) ? " | undefined" : ""};`,
    );
  const oneOf = choices.map(({ name: choice, fieldsArray: fields }) => {
    const types = fields.map((field) => `${field.name}: ${buildValue(field)}`);
    return ` & OneOf<"${choice}", { ${types.join("; ")} }>`;
  });
  const written = fieldsArray.map((field) => {
    return `${doc(field)}${field.name}?: ${buildType(field, ".$Properties")} | null | undefined;`;
  });
  return [
    `${doc(message)}type ${name} = {`,
    ...decoded,
    `}${oneOf.join("")};`,
    `const ${name}: MessageType<${name}, ${name}.$Properties>;`,
    `namespace ${name} {`,
    "/** What it may be written from. */",
    "type $Properties = {",
    ...written,
    "};",
    "}",
  ].join("\n");
}

/** `suffix` is that of messages in the field. */
function buildType(field: protobuf.Field, suffix = ""): string {
  const value = buildValue(field, suffix);
  if (field.map) return `{ readonly [key: string]: ${value} }`;
  if (field.repeated) return `readonly (${value})[]`;
  return value;
}

/** Whether a message shows that the field is missing; other fields then have the zero value of their type. */
function hasPresence({ map, repeated, partOf, resolvedType }: protobuf.Field): boolean {
  return !map && !repeated && (Boolean(partOf) || resolvedType instanceof protobuf.Type);
}

function buildValue({ type, resolvedType }: protobuf.Field, suffix = ""): string {
  // Writers take the number from a table of names.
  if (resolvedType instanceof protobuf.Enum && suffix !== "") return "number";
  if (resolvedType) return resolvedType.fullName.slice(1) + suffix;
  const others: Record<string, string> = { string: "string", bool: "boolean", bytes: "Uint8Array" };
  return others[type] ?? "number";
}

function doc({ comment }: protobuf.ReflectionObject): string {
  return comment ? `/** ${comment.replaceAll(/\s+/g, " ").replaceAll("*/", "* /")} */\n` : "";
}

function renderEnums(enums: readonly protobuf.Enum[]): string {
  const head = [SOURCE, 'import { makeEnumTable } from "../src/enum-table.ts";', "", "export const enums = {"];
  return [...head, ...enums.map(renderEnum), "} as const;", ""].join("\n");
}

/** The value `LEASE_PHASE_ENDED` of `LeasePhase` has the name `ENDED`. */
function renderEnum(each: protobuf.Enum): string {
  const known = knownValues(each).map(([name, number]) => `${name}: ${number}`);
  return `  ${each.name}: makeEnumTable({ ${known.join(", ")} }),`;
}

function knownValues(each: protobuf.Enum): (readonly [string, number])[] {
  const prefix = `${screamingSnake(each.name)}_`;
  const names = Object.entries(each.values).map(([value, number]) => [value.slice(prefix.length), number] as const);
  return names.filter(([name]) => name !== "UNSPECIFIED");
}

function screamingSnake(name: string): string {
  return name.replaceAll(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

function renderServices(services: readonly protobuf.Service[]): string {
  const head = [
    SOURCE,
    'import type { ServiceDescriptor } from "../src/descriptor.ts";',
    'import { muster } from "./messages.js";',
    "",
  ];
  const all = `export const services = [${services.map(({ name }) => name).join(", ")}] as const satisfies ServiceDescriptor[];`;
  return [...head, ...services.map(renderService), "/** All of them. */", all, ""].join("\n");
}

function renderService(service: protobuf.Service): string {
  const fullName = service.fullName.slice(1);
  // muster.<area>.v1.<Name>
  const area = fullName.split(".")[1];
  const methods = service.methodsArray.map((method) => {
    const request = method.resolvedRequestType?.fullName.slice(1);
    const reply = method.resolvedResponseType?.fullName.slice(1);
    const key = method.name.charAt(0).toLowerCase() + method.name.slice(1);
    const verb = screamingSnake(method.name).toLowerCase().replaceAll("_", "-");
    return `    ${key}: { name: "${method.name}", verb: "${verb}", isRead: ${isRead(method)}, request: ${request}, reply: ${reply} },`;
  });
  return [
    `/** ${service.comment?.replaceAll(/\s+/g, " ") ?? fullName} */`,
    `export const ${service.name} = {`,
    `  name: "${fullName}",`,
    `  area: "${area}",`,
    "  methods: {",
    ...methods,
    "  },",
    "} as const satisfies ServiceDescriptor;",
    "",
  ].join("\n");
}

/** Every method states its idempotency level: clients of the bus soon repeat reads, and later methods whose service recognises a repetition by its id. */
function isRead(method: protobuf.Method): boolean {
  const level: unknown = method.options?.["idempotency_level"];
  if (level === "NO_SIDE_EFFECTS") return true;
  if (level === "IDEMPOTENT") return false;
  const choices = "NO_SIDE_EFFECTS (it reads) or IDEMPOTENT (its service knows a repeated request by its id)";
  throw new Error(`${method.fullName}: option idempotency_level must be ${choices}, and is ${String(level)}`);
}

function renderShapes(namespace: protobuf.Root): string {
  const messages = listObjects(namespace, protobuf.Type).map((message): [string, MessageShape] => [
    message.fullName.slice(1),
    {
      ...buildDoc(message),
      fields: Object.fromEntries(message.fieldsArray.map((field) => [field.name, buildShape(field)])),
    },
  ]);
  const enums = listObjects(namespace, protobuf.Enum).map((each): [string, EnumShape] => [
    each.fullName.slice(1),
    { ...buildDoc(each), numbers: Object.fromEntries(knownValues(each)) },
  ]);
  const shapes = JSON.stringify({ messages: Object.fromEntries(messages), enums: Object.fromEntries(enums) }, null, 1);
  return [
    SOURCE,
    'import type { Shapes } from "../src/shapes.ts";',
    "",
    `export const shapes: Shapes = ${shapes};`,
    "",
  ].join("\n");
}

function buildShape(field: protobuf.Field): FieldShape {
  return {
    ...buildDoc(field),
    type: field.resolvedType?.fullName.slice(1) ?? field.type,
    ...(field.map ? { many: "map" as const } : field.repeated ? { many: "list" as const } : {}),
    ...(hasPresence(field) && { optional: true as const }),
  };
}

/** Every message by its full name, as answers of the HTTP API have it: a field without presence is always there, an enum only where it is specified. */
function renderJson(namespace: protobuf.Root): string {
  const messages = listObjects(namespace, protobuf.Type).map((message) => {
    const fields = message.fieldsArray.map((field) => {
      const { name, doc, many, ...shape } = { name: field.name, ...buildShape(field) };
      const isAbsent = shape.optional === true || (many === undefined && field.resolvedType instanceof protobuf.Enum);
      const type = buildJsonType(field);
      const value =
        many === "list" ? `readonly (${type})[]` : many === "map" ? `Readonly<Record<string, ${type}>>` : type;
      return `${doc === undefined ? "" : `/** ${doc.replaceAll("*/", "*\\/")} */ `}readonly ${name}${isAbsent ? "?" : ""}: ${value};`;
    });
    return `  ${JSON.stringify(message.fullName.slice(1))}: { ${fields.join("\n    ")} };`;
  });
  return [SOURCE, "export type Json = {", ...messages, "};", ""].join("\n");
}

function buildJsonType({ resolvedType, type }: protobuf.Field): string {
  const scalars: Readonly<Record<string, string>> = { bool: "boolean", string: "string", bytes: "string" };
  if (resolvedType === null) return scalars[type] ?? "number";
  if (resolvedType instanceof protobuf.Enum) {
    const names = knownValues(resolvedType).map(([name]) => JSON.stringify(name));
    return names.join(" | ");
  }
  return [".google.protobuf.Timestamp", ".google.protobuf.Duration"].includes(resolvedType.fullName)
    ? "string"
    : `Json[${JSON.stringify(resolvedType.fullName.slice(1))}]`;
}

function buildDoc({ comment }: protobuf.ReflectionObject): { doc?: string } {
  return comment ? { doc: comment.replaceAll(/\s+/g, " ") } : {};
}
