import { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkTopology, isReservedEnvName } from "@muster/names";
import {
  checkComponentTemplate,
  checkShared,
  findOptionsProblem,
  findPoolProblem,
  MAX_POD_NAME_LENGTH,
  SESSION_LIMITS,
  countSessionTextBytes,
  type ComponentTemplate,
} from "@muster/session-limits";
import type { Fault } from "@muster/faults";
import { findNonJson, readJson } from "./find-non-json.ts";
import { describeValue, makeValueReader, type Path, type ValueReader } from "@muster/documents";
import { COMPONENT_FIELDS, SPEC_FIELDS } from "./build-session-schema.ts";
import type { ReadDocument } from "./read-document.ts";
import { GENERATED_LENGTH, readName, type DocumentName } from "./read-name.ts";
import type { ComponentSpec, SessionSpec } from "../adapters/session-spec-messages.ts";
import { API_VERSION, COMPONENT_KINDS, type ComponentKind, type SessionDocument } from "./session-document.ts";

const PORT = { min: 1, max: 65_535 };
const PRIORITY = { min: -(2 ** 31), max: 2 ** 31 - 1 };
/** Reads plain data as a session, or reports every problem in it. Never throws. `kinds` are the known kinds, which the problem of an unknown one lists. */
export function readSessionDocument(
  value: unknown,
  kinds: readonly string[] = ["Session"],
): ReadDocument<SessionDocument> {
  const reader = makeValueReader();
  const document = readDocument(reader, value, kinds);
  if (document === undefined || reader.findings.length > 0) return { ok: false, findings: reader.findings };
  return { ok: true, value: document };
}

function readDocument(reader: ValueReader, value: unknown, kinds: readonly string[]): SessionDocument | undefined {
  const root = reader.mapping([], value, ["apiVersion", "kind", "metadata", "spec"]);
  if (root === undefined) return undefined;
  if (required(reader, [], root, "apiVersion")) reader.oneOf(["apiVersion"], root["apiVersion"], [API_VERSION]);
  if (required(reader, [], root, "kind")) reader.oneOf(["kind"], root["kind"], kinds);
  const name = required(reader, [], root, "metadata") ? readSessionName(reader, root["metadata"]) : undefined;
  const spec = required(reader, [], root, "spec") ? readSpec(reader, root["spec"], name) : undefined;
  return name === undefined || spec === undefined ? undefined : { name, spec };
}

function readSessionName(reader: ValueReader, value: unknown): DocumentName | undefined {
  const path = ["metadata"];
  const metadata = reader.mapping(path, value, ["name", "generateName"]);
  if (metadata === undefined) return undefined;
  const { name, generateName } = metadata;
  if (name !== undefined && generateName !== undefined) {
    reader.report([...path, "generateName"], "name and generateName exclude each other", "key");
    return undefined;
  }
  return readName(reader, metadata, (field, text) =>
    checkDnsLabel(field === "name" ? field : "generateName with its random letters", text),
  );
}

function readSpec(reader: ValueReader, value: unknown, name: DocumentName | undefined): SessionSpec | undefined {
  const spec = reader.mapping(["spec"], value, SPEC_FIELDS);
  if (spec === undefined) return undefined;
  const optional = <Value>(field: string, read: (path: Path, value: unknown) => Value | undefined) =>
    spec[field] === undefined ? undefined : read(["spec", field], spec[field]);
  const duration = (field: "timeout" | "queueTimeout" | "ttl" | "killAfter") =>
    optional(field, (path, found) => reader.duration(path, found, SESSION_LIMITS[`${field}Ms`]));
  const components = required(reader, ["spec"], spec, "components")
    ? readComponents(reader, spec["components"], name)
    : [];
  return {
    components,
    scenarioJson: spec["scenario"] === undefined ? undefined : readScenario(reader, spec["scenario"]),
    timeoutMs: duration("timeout"),
    queueTimeoutMs: duration("queueTimeout"),
    ttlMs: duration("ttl"),
    killAfterMs: duration("killAfter"),
    priority: optional("priority", (path, found) => reader.integer(path, found, PRIORITY)),
    queue: optional("queue", (path, found) => readChecked(reader, path, found, checkDnsSubdomain)),
    topology: optional("topology", (path, found) => readChecked(reader, path, found, checkTopology)),
    workerPort: optional("workerPort", (path, found) => reader.integer(path, found, PORT)),
  };
}

/** Reads a text, and reports what `check` finds wrong. */
function readChecked(
  reader: ValueReader,
  path: Path,
  value: unknown,
  check: (field: string, value: string) => Fault | undefined,
): string | undefined {
  const text = reader.text(path, value);
  if (text !== undefined) reportFault(reader, path, check(path.join("."), text));
  return text;
}

function readScenario(reader: ValueReader, value: unknown): string | undefined {
  const path = ["spec", "scenario"];
  const json = readJson(reader, path, value);
  const bytes = json === undefined ? 0 : byteLength(json);
  if (bytes > SESSION_LIMITS.scenarioBytes)
    reader.report(path, `has ${bytes} bytes as JSON; ${SESSION_LIMITS.scenarioBytes} at most`);
  return json;
}

function readComponents(reader: ValueReader, value: unknown, session: DocumentName | undefined): ComponentSpec[] {
  const path = ["spec", "components"];
  const list = reader.list(path, value);
  if (list === undefined) return [];
  const seen = new Map<string, Path>();
  const kinds: { kind: ComponentKind | undefined; path: Path }[] = [];
  const components: ComponentSpec[] = [];
  for (const [index, item] of list.entries()) {
    const here = [...path, index];
    const { kind, replicas } = readComponent(reader, here, item);
    for (const component of replicas) {
      if (components.length === SESSION_LIMITS.components) {
        reader.report(here, `is over the limit of ${SESSION_LIMITS.components} components a session, replicas counted`);
        return components;
      }
      checkPodName(reader, [...here, "name"], component.name, session);
      if (seen.has(component.name))
        reader.report([...here, "name"], `"${component.name}" is the name of two components`);
      seen.set(component.name, here);
      components.push(component);
      kinds.push({ kind: component.kind, path: [...here, "kind"] });
    }
    if (replicas.length === 0) kinds.push({ kind, path: here });
  }
  checkDrivers(reader, path, kinds);
  const problem = findOptionsProblem(components);
  if (problem !== undefined) reader.report(path, problem);
  checkTextBytes(reader, path, components);
  return components;
}

/** A component with an invalid kind may be the driver, so a missing driver is not reported then. */
function checkDrivers(
  reader: ValueReader,
  path: Path,
  kinds: readonly { kind: ComponentKind | undefined; path: Path }[],
): void {
  const [first, second] = kinds.filter(({ kind }) => kind === "driver");
  if (kinds.length === 0) reader.report(path, "is empty; a session has exactly one driver, and usually workers");
  else if (first === undefined && kinds.every(({ kind }) => kind !== undefined))
    reader.report(path, "has no driver; a session has exactly one");
  if (second !== undefined) reader.report(second.path, "is a second driver; a session has exactly one");
}

function checkTextBytes(reader: ValueReader, path: Path, components: readonly ComponentSpec[]): void {
  const bytes = countSessionTextBytes(components);
  if (bytes > SESSION_LIMITS.textBytes)
    reader.report(
      path,
      `further pools, commands, arguments, environment and templates have ${bytes} bytes together, replicas counted; ${SESSION_LIMITS.textBytes} at most`,
    );
}

function readComponent(
  reader: ValueReader,
  path: Path,
  value: unknown,
): { kind: ComponentKind | undefined; replicas: readonly ComponentSpec[] } {
  const fields = reader.mapping(path, value, COMPONENT_FIELDS);
  if (fields === undefined) return { kind: undefined, replicas: [] };
  const needed = (field: string): string | undefined =>
    required(reader, path, fields, field) ? nonEmptyText(reader, [...path, field], fields[field]) : undefined;
  const name = needed("name");
  const kind = required(reader, path, fields, "kind")
    ? reader.oneOf([...path, "kind"], fields["kind"], COMPONENT_KINDS)
    : undefined;
  const pools = required(reader, path, fields, "pool")
    ? readPools(reader, [...path, "pool"], fields["pool"])
    : undefined;
  const command = readTexts(reader, [...path, "command"], fields["command"]);
  if (command[0] === "") reader.report([...path, "command", 0], "is empty; the name of a program is needed");
  const image = readImage(reader, path, fields["image"], command);
  const { workingDir, readyPort } = fields;
  const env = readEnvironment(reader, [...path, "env"], fields["env"]);
  const rest = {
    command,
    args: readTexts(reader, [...path, "args"], fields["args"]),
    env,
    workingDir: workingDir === undefined ? undefined : readDirectory(reader, [...path, "workingDir"], workingDir),
    readyPort: readyPort === undefined ? undefined : reader.integer([...path, "readyPort"], readyPort, PORT),
    ...readTemplate(reader, path, fields, env),
  };
  const names = replicaNames(reader, path, name, fields["replicas"]);
  for (const each of names.slice(-1)) reportFault(reader, [...path, "name"], checkDnsLabel("name", each));
  if (kind === undefined || pools === undefined || image === undefined) return { kind, replicas: [] };
  return { kind, replicas: names.map((each) => ({ name: each, kind, ...pools, image, ...rest })) };
}

/** Reads the name of a pool, or several in order of preference. */
function readPools(
  reader: ValueReader,
  path: Path,
  value: unknown,
): Pick<ComponentSpec, "pool" | "otherPools"> | undefined {
  const pathOf = (index: number): Path => (Array.isArray(value) ? [...path, index] : path);
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const names = list.map((name, index) => reader.text(pathOf(index), name));
  const [pool, ...otherPools] = names.filter((name) => name !== undefined);
  if (names.length === 0) reader.report(path, "is empty; the name of a pool is needed");
  if (pool === undefined || otherPools.length < names.length - 1) return undefined;
  const problem = findPoolProblem([pool, ...otherPools]);
  if (problem !== undefined) reader.report(pathOf(problem.index), problem.reason);
  return { pool, otherPools };
}

/** Reads the pod template as JSON text and whether its pod gets a part of a machine; undefined if either is invalid. */
function readTemplate(
  reader: ValueReader,
  path: Path,
  { template: value, shared }: Readonly<Record<string, unknown>>,
  env: ComponentSpec["env"],
): Pick<ComponentSpec, "templateJson" | "shared"> {
  const paths = { shared: [...path, "shared"], template: [...path, "template"] };
  const before = reader.findings.length;
  let template: ComponentTemplate | undefined;
  if (value !== undefined) {
    const odd = findNonJson(value, paths.template);
    if (odd === undefined) template = checkComponentTemplate(reader, paths.template, value, env);
    else reader.report(odd, "cannot be written as JSON");
  }
  if (shared !== undefined && typeof shared !== "boolean")
    reader.report(paths.shared, `must be true or false, not ${describeValue(shared)}`);
  // The requests of an invalid template are not summed.
  if (shared === true && reader.findings.length === before) checkShared(reader, paths, template);
  return {
    templateJson: template === undefined ? undefined : JSON.stringify(template),
    shared: shared === true ? true : undefined,
  };
}

/** A component without an image needs a command, which then runs in the service's default image. */
function readImage(reader: ValueReader, path: Path, value: unknown, command: readonly string[]): string | undefined {
  if (value === undefined) {
    if (command.length === 0) reader.report(path, "lacks image (or a command, for the default image)");
    return "";
  }
  const image = nonEmptyText(reader, [...path, "image"], value);
  if (image !== undefined && /\s/.test(image)) reader.report([...path, "image"], `"${image}" contains white space`);
  return image;
}

/** Expands replicas: `server` with replicas 2 is `server-0` and `server-1`; without replicas it is `server`. */
function replicaNames(reader: ValueReader, path: Path, name: string | undefined, replicas: unknown): string[] {
  if (name === undefined) return [];
  if (replicas === undefined) return [name];
  const count = reader.integer([...path, "replicas"], replicas, { min: 1, max: SESSION_LIMITS.components }) ?? 0;
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

function checkPodName(reader: ValueReader, path: Path, component: string, session: DocumentName | undefined): void {
  if (session === undefined) return;
  const length = "exact" in session ? session.exact.length : session.prefix.length + GENERATED_LENGTH;
  const total = length + 1 + component.length;
  if (total > MAX_POD_NAME_LENGTH)
    reader.report(
      path,
      `the session's name and "${component}" have ${total} characters; ${MAX_POD_NAME_LENGTH} at most`,
    );
}

function readTexts(reader: ValueReader, path: Path, value: unknown): string[] {
  if (value === undefined) return [];
  const texts: string[] = [];
  for (const [index, item] of (reader.list(path, value) ?? []).entries()) {
    const text = reader.text([...path, index], item);
    if (text === undefined) continue;
    checkText(reader, [...path, index], text);
    texts.push(text);
  }
  return texts;
}

function readEnvironment(reader: ValueReader, path: Path, value: unknown): { name: string; value: string }[] {
  if (value === undefined) return [];
  const seen = new Set<string>();
  const variables: { name: string; value: string }[] = [];
  for (const [index, item] of (reader.list(path, value) ?? []).entries()) {
    const here = [...path, index];
    const fields = reader.mapping(here, item, ["name", "value"]);
    if (fields === undefined) continue;
    const name = required(reader, here, fields, "name") ? reader.text([...here, "name"], fields["name"]) : undefined;
    const text = fields["value"] === undefined ? "" : reader.text([...here, "value"], fields["value"]);
    if (name === undefined || text === undefined) continue;
    reportFault(reader, [...here, "name"], checkEnvName("name", name));
    if (isReservedEnvName(name))
      reader.report([...here, "name"], `"${name}" is set by the session controller; choose another name`);
    if (seen.has(name)) reader.report([...here, "name"], `"${name}" is set twice`);
    seen.add(name);
    checkText(reader, [...here, "value"], text);
    variables.push({ name, value: text });
  }
  return variables;
}

function readDirectory(reader: ValueReader, path: Path, value: unknown): string | undefined {
  const directory = reader.text(path, value);
  if (directory === undefined) return undefined;
  if (!directory.startsWith("/")) reader.report(path, "must be an absolute path");
  checkText(reader, path, directory);
  return directory;
}

function nonEmptyText(reader: ValueReader, path: Path, value: unknown): string | undefined {
  const text = reader.text(path, value);
  if (text !== "") return text;
  reader.report(path, "is empty");
  return undefined;
}

/** Returns true if the field exists; otherwise reports the missing field. */
function required(reader: ValueReader, path: Path, fields: Readonly<Record<string, unknown>>, field: string): boolean {
  if (fields[field] !== undefined) return true;
  reader.report(path, `lacks ${field}`);
  return false;
}

function checkText(reader: ValueReader, path: Path, text: string): void {
  if (text.includes("\0")) reader.report(path, "contains a zero character, which no process can receive");
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function reportFault(reader: ValueReader, path: Path, fault: Fault | undefined): void {
  if (fault?.code === "invalid_request") reader.report(path, fault.reason);
}
