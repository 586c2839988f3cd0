import { makeValueReader, type Path } from "@muster/documents";
import type { Fault } from "@muster/faults";
import { checkDnsLabel, checkDnsSubdomain, checkEnvName, checkTopology, isReservedEnvName } from "@muster/names";
import { buildPodName, type Component, type ComponentKind, type SessionSpec } from "./session.ts";
import {
  checkComponentTemplate,
  checkShared,
  findOptionsProblem,
  findPoolProblem,
  MAX_POD_NAME_LENGTH,
  SESSION_LIMITS,
  countSessionTextBytes,
} from "@muster/session-limits";

/** A user's request: zero selects the default of a field, and a component may lack its kind. */
export type SessionDraft = Omit<SessionSpec, "components"> & {
  readonly components: readonly (Omit<Component, "kind"> & { readonly kind: ComponentKind | undefined })[];
};

export type SessionDefaults = {
  readonly timeoutMs: number;
  readonly queueTimeoutMs: number;
  readonly ttlMs: number;
  readonly killAfterMs: number;
  readonly workerPort: number;
};

type Validated = { readonly ok: true; readonly spec: SessionSpec } | { readonly ok: false; readonly fault: Fault };

/**
 * Refuses every error that is detectable without the cluster, with the field and the value; otherwise returns the spec with its defaults. `poolLabel`: node
 * label with the name of the pool.
 */
export function validateSession(
  name: string,
  draft: SessionDraft,
  defaults: SessionDefaults,
  poolLabel: string,
): Validated {
  const components: Component[] = [];
  for (const component of draft.components) {
    if (component.kind !== undefined) components.push({ ...component, kind: component.kind });
  }
  const spec: SessionSpec = {
    ...draft,
    components,
    timeoutMs: draft.timeoutMs || defaults.timeoutMs,
    queueTimeoutMs: draft.queueTimeoutMs || defaults.queueTimeoutMs,
    ttlMs: draft.ttlMs || defaults.ttlMs,
    killAfterMs: draft.killAfterMs || defaults.killAfterMs,
    workerPort: draft.workerPort || defaults.workerPort,
  };
  const fault = checkSession(name, draft, poolLabel) ?? checkNumbers(draft, spec);
  return fault === undefined ? { ok: true, spec } : { ok: false, fault };
}

/** Requires a short request id, which makes a repeated request idempotent. */
export function checkRequestId(requestId: string): Fault | undefined {
  if (requestId === "") return wrong("request_id", "is empty; it is what makes a repeated request harmless");
  const { requestIdLength: max } = SESSION_LIMITS;
  return requestId.length > max ? wrong("request_id", `has ${requestId.length} characters; ${max} at most`) : undefined;
}

function checkSession(name: string, draft: SessionDraft, poolLabel: string): Fault | undefined {
  return (
    checkDnsLabel("name", name) ??
    checkCount(draft.components.length) ??
    first(draft.components, (component, index) =>
      checkComponent(name, component, { field: `components[${index}]`, poolLabel }),
    ) ??
    checkUnique(draft) ??
    checkDriver(draft) ??
    checkPoolOptions(draft) ??
    checkTextBytes(draft) ??
    checkScenario(draft.scenarioJson) ??
    checkQueue(draft.queue) ??
    (draft.topology === "" ? undefined : checkTopology("topology", draft.topology))
  );
}

function checkCount(count: number): Fault | undefined {
  if (count === 0) return wrong("components", "is empty; a session needs exactly one driver");
  const { components: max } = SESSION_LIMITS;
  return count > max ? wrong("components", `has ${count} components; ${max} at most`) : undefined;
}

function checkComponent(
  session: string,
  component: SessionDraft["components"][number],
  { field, poolLabel }: { readonly field: string; readonly poolLabel: string },
): Fault | undefined {
  return (
    checkDnsLabel(`${field}.name`, component.name) ??
    checkPodName(session, component.name, `${field}.name`) ??
    (component.kind === undefined ? wrong(`${field}.kind`, "is missing; driver, server or client") : undefined) ??
    checkPools(component, field) ??
    checkProgram(component, field) ??
    checkPort(`${field}.ready_port`, component.readyPort, 0) ??
    first(component.env, (variable, index) => checkEnv(variable.name, `${field}.env[${index}].name`)) ??
    duplicate(component.env, `${field}.env`) ??
    checkTemplate(component, field, poolLabel)
  );
}

function checkPools({ pool, otherPools }: Pick<Component, "pool" | "otherPools">, field: string): Fault | undefined {
  const problem = findPoolProblem([pool, ...otherPools]);
  if (problem === undefined) return undefined;
  const { index, reason } = problem;
  return wrong(index === 0 ? `${field}.pool` : `${field}.other_pools[${index - 1}]`, reason);
}

function checkPodName(session: string, component: string, field: string): Fault | undefined {
  const pod = buildPodName(session, component);
  return pod.length > MAX_POD_NAME_LENGTH
    ? wrong(
        field,
        `the pod "${pod}" would have ${pod.length} characters; session and component have 62 at most together`,
      )
    : undefined;
}

function checkProgram(component: Pick<Component, "image" | "command" | "args" | "env" | "workingDir">, field: string) {
  const { image, command, args, env, workingDir } = component;
  if (image === "" && command.length === 0)
    return wrong(`${field}.image`, "is empty, and so is the command; one is needed");
  if (command[0] === "") return wrong(`${field}.command[0]`, "is empty; the name of a program is needed");
  if (/\s/.test(image)) return wrong(`${field}.image`, `"${image}" contains white space`);
  const texts = [image, workingDir, ...command, ...args, ...env.map(({ value }) => value)];
  return texts.some((text) => text.includes("\0")) ? wrong(field, "contains a NUL character") : undefined;
}

function checkEnv(name: string, field: string): Fault | undefined {
  const bad = checkEnvName(field, name);
  if (bad !== undefined) return bad;
  return isReservedEnvName(name)
    ? wrong(field, `"${name}" is set by the session controller; choose another name`)
    : undefined;
}

/** Returns the first problem of a template, or of the requests of a shared component, with its field. */
function checkTemplate(
  { templateJson, env, shared, ...pools }: Pick<Component, "templateJson" | "env" | "shared" | "pool" | "otherPools">,
  component: string,
  poolLabel: string,
): Fault | undefined {
  const field = `${component}.template_json`;
  const bytes = byteLength(templateJson);
  const { textBytes: max } = SESSION_LIMITS;
  // A template that is too large is not parsed.
  if (bytes > max) return wrong(field, `has ${bytes} bytes; ${max} at most`);
  const parsed = templateJson === "" ? undefined : parseJson(templateJson);
  if (parsed !== undefined && "problem" in parsed) return wrong(field, `is not JSON: ${parsed.problem}`);
  const reader = makeValueReader();
  const template = parsed && checkComponentTemplate(reader, ["template_json"], parsed.value, env);
  if (shared && reader.findings.length === 0)
    checkShared(reader, { shared: ["shared"], template: ["template_json"] }, template);
  const [finding] = reader.findings;
  if (finding !== undefined) return wrong(`${component}${pathText(finding.path)}`, finding.message);
  const selected = template?.spec.nodeSelector?.[poolLabel];
  if (selected === undefined) return undefined;
  const reason = contradiction(selected, pools, `${component}.pool`);
  return reason === undefined ? undefined : wrong(`${field}.spec.nodeSelector["${poolLabel}"]`, reason);
}

/** Returns why a template cannot select the pool itself. */
function contradiction(
  selected: string,
  { pool, otherPools }: Pick<Component, "pool" | "otherPools">,
  field: string,
): string | undefined {
  if (otherPools.length > 0)
    return `is "${selected}", and the component accepts ${otherPools.length + 1} pools: remove the selector`;
  return selected === pool ? undefined : `is "${selected}", and ${field} is "${pool}": no machine is in both`;
}

function pathText(path: Path): string {
  return path.map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`)).join("");
}

function parseJson(text: string): { readonly value: unknown } | { readonly problem: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function checkUnique(draft: SessionDraft): Fault | undefined {
  return duplicate(draft.components, "components");
}

function duplicate(named: readonly { readonly name: string }[], field: string): Fault | undefined {
  const seen = new Map<string, number>();
  for (const [index, { name }] of named.entries()) {
    const before = seen.get(name);
    if (before !== undefined) return wrong(`${field}[${index}].name`, `"${name}" is also ${field}[${before}]`);
    seen.set(name, index);
  }
  return undefined;
}

function checkDriver(draft: SessionDraft): Fault | undefined {
  const drivers = draft.components.filter(({ kind }) => kind === "driver");
  if (drivers.length === 1) return undefined;
  const found = drivers.length === 0 ? "none" : drivers.map(({ name }) => name).join(", ");
  return wrong("components", `a session needs exactly one driver, found ${found}`);
}

function checkPoolOptions({ components }: SessionDraft): Fault | undefined {
  const reason = findOptionsProblem(components);
  return reason === undefined ? undefined : wrong("components", reason);
}

function checkTextBytes(draft: SessionDraft): Fault | undefined {
  const total = countSessionTextBytes(draft.components);
  const { textBytes: max } = SESSION_LIMITS;
  if (total <= max) return undefined;
  const all = `further pools, commands, arguments, environment and templates have ${total} bytes together; ${max} at most`;
  const { field, bytes } = largestText(draft);
  // The sum can exceed the limit although no single text is large.
  return 4 * bytes < total ? wrong("components", all) : wrong(field, `has ${bytes} bytes; ${all}`);
}

/** Finds the largest text, which the user should shorten. */
function largestText(draft: SessionDraft): { readonly field: string; readonly bytes: number } {
  const texts = draft.components.flatMap(({ image, workingDir, command, args, env, templateJson }, index) => {
    const at = `components[${index}]`;
    return [
      { field: `${at}.image`, text: image },
      { field: `${at}.working_dir`, text: workingDir },
      ...command.map((text, place) => ({ field: `${at}.command[${place}]`, text })),
      ...args.map((text, place) => ({ field: `${at}.args[${place}]`, text })),
      ...env.map(({ value }, place) => ({ field: `${at}.env[${place}].value`, text: value })),
      { field: `${at}.template_json`, text: templateJson },
    ];
  });
  let largest = { field: "components", bytes: 0 };
  for (const { field, text } of texts) {
    const bytes = byteLength(text);
    if (bytes > largest.bytes) largest = { field, bytes };
  }
  return largest;
}

function checkScenario(scenarioJson: string): Fault | undefined {
  if (scenarioJson === "") return undefined;
  const bytes = byteLength(scenarioJson);
  const { scenarioBytes: max } = SESSION_LIMITS;
  if (bytes > max) return wrong("scenario_json", `has ${bytes} bytes; ${max} at most`);
  const parsed = parseJson(scenarioJson);
  return "problem" in parsed ? wrong("scenario_json", `is not JSON: ${parsed.problem}`) : undefined;
}

/** A Queue's name is the name of a Kubernetes object. */
function checkQueue(queue: string): Fault | undefined {
  return queue === "" ? undefined : checkDnsSubdomain("queue", queue);
}

function checkNumbers(draft: SessionDraft, spec: SessionSpec): Fault | undefined {
  return (
    // The default may be unlimited, which no request can select.
    (draft.timeoutMs === 0 ? undefined : checkBetween("timeout_ms", draft.timeoutMs, SESSION_LIMITS.timeoutMs)) ??
    checkBetween("queue_timeout_ms", spec.queueTimeoutMs, SESSION_LIMITS.queueTimeoutMs) ??
    checkBetween("ttl_ms", spec.ttlMs, SESSION_LIMITS.ttlMs) ??
    checkBetween("kill_after_ms", spec.killAfterMs, SESSION_LIMITS.killAfterMs) ??
    checkPort("worker_port", spec.workerPort, 1)
  );
}

function checkBetween(
  field: string,
  value: number,
  { min, max }: { readonly min: number; readonly max: number },
): Fault | undefined {
  return value >= min && value <= max ? undefined : wrong(field, `${value} is not between ${min} and ${max}`);
}

function checkPort(field: string, port: number, min: number): Fault | undefined {
  return port >= min && port <= 65_535 ? undefined : wrong(field, `${port} is not a port; ${min} to 65535`);
}

function first<Item>(
  items: readonly Item[],
  check: (item: Item, index: number) => Fault | undefined,
): Fault | undefined {
  for (const [index, item] of items.entries()) {
    const fault = check(item, index);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function wrong(field: string, reason: string): Fault {
  return { code: "invalid_request", field, reason };
}
