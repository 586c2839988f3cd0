import { FaultError, parseDuration, type Fault } from "@muster/faults";
import { checkDnsLabel, checkLabelKey, checkLabelValue } from "@muster/names";
import { parseAmount } from "@muster/resources";
import { parseDocument } from "yaml";
import { z } from "zod";
import type { PoolPolicy } from "./domain/pool.ts";

/** Checks of a provider kind on the settings in its block, including the `kind` of the block. */
type SettingsCheck = Pick<z.ZodType, "safeParse">;

/** The kinds by name; `files` are the settings that name a file which must exist at the start. */
export type ProviderKinds = Readonly<
  Record<string, { readonly settings: SettingsCheck; readonly files?: readonly string[] }>
>;

export type ProviderBlock = {
  readonly name: string;
  readonly kind: string;
  /** The settings that the kind's own check returned. */
  readonly settings: unknown;
};

export type PoolsFile = { readonly providers: readonly ProviderBlock[]; readonly pools: readonly PoolPolicy[] };

/** One problem: its path, the value, and the valid form. */
type Problem = { readonly path: readonly PropertyKey[]; readonly message: string };

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const DAY_MS = 86_400_000;
/** The ledger can list this many nodes of one pool in reasonable time. */
const MAX_NODES = 10_000;
const MAX_TYPES = 50;
/** The limit exists because names of nodes, which are names in Kubernetes and label values, begin with the name of their pool. */
const MAX_POOL_NAME_CHARS = 50;
const MAX_TAINTS = 20;
const OWN_LABELS = "muster.dev/";
/** Prefixes of taints which state that a node is not ready, cordoned or under pressure. */
const CONDITION_TAINTS = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/** Reads the text of the file of pools; throws one fault that names every problem with its path, its value, and the valid form. */
export function readPoolsFile(
  text: string,
  sources: {
    readonly kinds: ProviderKinds;
    /** Reads a file that a provider names; throws if it is unreadable. */
    readonly readText: (path: string) => string;
    /** The label of nodes whose value is the name of their pool. */
    readonly poolLabel: string;
  },
): PoolsFile {
  const document = parseDocument(text, { prettyErrors: true, uniqueKeys: true });
  if (document.errors.length > 0) refuse(document.errors.map(({ message }) => message.trim()));
  const value: unknown = document.toJS() ?? undefined;
  if (value === undefined) refuse(["the file is empty: providers and pools are needed; `pools: []` scales nothing"]);
  const parsed = fileShape.safeParse(value, { error: explain });
  const found: Problem[] = parsed.success ? [] : flatten(parsed.error.issues);
  const providers = isRecord(value) && isRecord(value["providers"]) ? value["providers"] : {};
  const blocks = Object.entries(providers).map(([name, block]) => readBlock(name, block, sources));
  found.push(...blocks.flatMap(({ problems }) => problems));
  found.push(...checkTogether(readPools(value), { providers: Object.keys(providers), poolLabel: sources.poolLabel }));
  if (found.length > 0) refuse(found.map((problem) => show(problem, value)));
  if (!parsed.success) throw new Error("a file without problems that does not parse");
  return { providers: blocks.map(({ block }) => block), pools: parsed.data.pools };
}

const checked = (check: (field: string, value: string) => Fault | undefined) =>
  z.string().superRefine((value, context) => {
    const wrong = check("name", value);
    if (wrong?.code === "invalid_request") context.addIssue({ code: "custom", message: wrong.reason });
  });

const duration = (maxMs: number = DAY_MS) =>
  z
    .unknown()
    .meta({ type: "string", format: "duration" })
    .transform((written, context) => {
      const ms = typeof written === "string" ? parseDuration(written) : undefined;
      if (ms !== undefined && ms <= maxMs) return ms;
      const message =
        ms === undefined
          ? "a duration such as 90s, 5m or 1h30m is needed"
          : `at most ${maxMs / 3_600_000}h is possible`;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    });

/** Parses a quantity above 0 as an amount of the resource; a number below `min` probably lacks its unit. */
const quantity = (resource: "cpu" | "memory" | "storage", example: string, min = 0) =>
  z
    .unknown()
    .meta({ type: ["string", "number"], format: "quantity" })
    .transform((written, context) => {
      const isText = typeof written === "string" || typeof written === "number";
      const amount = isText ? parseAmount(resource, String(written)) : undefined;
      if (amount !== undefined && amount > 0 && amount >= min) return amount;
      context.addIssue({ code: "custom", message: `a quantity above 0 such as ${example} is needed` });
      return z.NEVER;
    });

const count = (max: number) => z.int().min(0).max(max);
const text = z.string().min(1);
const MICROS = 1_000_000;
const MAX_PRICE = 1_000_000;
/** Stored in millionths. 0 is the default of the wire format, and means that no price is known. */
const price = z
  .number()
  .min(0)
  .max(MAX_PRICE)
  .transform((amount) => Math.round(amount * MICROS));
const spotPolicy = z.enum(["Never", "Always", "Preferred"]);

const instanceType = z
  .strictObject({
    name: text.describe("Name of the instance type at the provider."),
    cpu: quantity("cpu", "4 or 500m").describe("Processors, to pack foreign pods and needs of parts.").optional(),
    memory: quantity("memory", "16Gi", MIB).describe("Memory, to pack foreign pods and needs of parts.").optional(),
    gpus: count(1000).default(0).describe("GPUs."),
    pricePerHour: price
      .describe(
        "Price of an on-demand node for an hour, in your currency; 0: unknown. It is shown, and decides nothing.",
      )
      .optional(),
    spotPricePerHour: price.describe("Price of a spot node for an hour. It is shown, and decides nothing.").optional(),
  })
  .transform(({ name, cpu, memory, gpus, pricePerHour, spotPricePerHour }) => ({
    name,
    cpuMilli: cpu,
    memoryBytes: memory,
    gpus,
    ...(pricePerHour !== undefined && { pricePerHourMicros: pricePerHour }),
    ...(spotPricePerHour !== undefined && { spotPricePerHourMicros: spotPricePerHour }),
  }));

const standby = z.strictObject({
  instanceType: text.describe("One of the instance types of the pool."),
  count: count(MAX_NODES).describe("Number of nodes."),
  spot: z.boolean().default(false).describe("Whether they are spot nodes."),
});

const taint = z.strictObject({
  key: checked(checkLabelKey).describe("Key of the taint."),
  value: checked(checkLabelValue).default("").describe("Value of the taint."),
  effect: z.enum(["NoSchedule", "NoExecute"]).describe("Effect of the taint."),
});

const pool = z
  .strictObject({
    name: checked((field, value) => checkDnsLabel(field, value, MAX_POOL_NAME_CHARS)).describe(
      "Value of the pool label on nodes.",
    ),
    provider: text.describe("A key of `providers`."),
    max: count(MAX_NODES).describe("Maximum number of nodes."),
    instanceTypes: z.array(instanceType).min(1).max(MAX_TYPES).describe("Instance types, in order of preference."),
    spot: spotPolicy
      .default("Never")
      .describe(
        "`Preferred`: work gets any free node; a new node is a spot node, or an on-demand node while spot is unavailable.",
      ),
    standby: z.array(standby).default([]).describe("Nodes that stay ready without demand."),
    idle: duration().default(300_000).describe("Time without demand after which a node ends. 0s: immediately."),
    reuse: z.boolean().default(true).describe("`false`: a used node ends when it is released."),
    bootTimeout: duration().default(300_000).describe("Maximum time until an instance is a ready node."),
    healthyTimeout: duration().default(90_000).describe("A node that is unhealthy for this long ends."),
    drainTimeout: duration().default(120_000).describe("Maximum time of a drain."),
    zones: z.array(text).min(1).describe("Zones of the provider. Without it, any zone with capacity.").optional(),
    volume: quantity("storage", "20Gi", GIB)
      .describe("Size of the root volume, at least 1Gi. Without it, the size that the provider chooses.")
      .optional(),
    privateIpOnly: z.boolean().default(false).describe("`true`: no public address."),
    bootImage: z
      .record(text, z.string())
      .default({})
      .describe("Properties of the boot image; the newest image with all of them is used. Empty: the provider's."),
    labels: z
      .record(checked(checkLabelKey), checked(checkLabelValue))
      .default({})
      .describe("Further labels of the Kubernetes node."),
    taints: z
      .array(taint)
      .max(MAX_TAINTS)
      .default([])
      .describe(
        "Taints that the cloud or the node template sets. A node with other taints is unhealthy. Muster sets none of them.",
      ),
  })
  .transform((written): PoolPolicy => {
    const { idle, bootTimeout, healthyTimeout, drainTimeout, volume, zones, ...rest } = written;
    return {
      ...rest,
      zones,
      idleMs: idle,
      bootTimeoutMs: bootTimeout,
      healthyTimeoutMs: healthyTimeout,
      drainTimeoutMs: drainTimeout,
      volumeGib: volume === undefined ? undefined : Math.ceil(volume / GIB),
    };
  });

const fileShape = z.strictObject({
  providers: z.record(checked(checkDnsLabel), z.looseObject({ kind: text })).default({}),
  pools: z.array(pool).default([]),
});

/** JSON Schema of a pool in the file, for documents. */
export function buildPoolSchema(): Readonly<Record<string, unknown>> {
  return z.toJSONSchema(pool, { io: "input" });
}

function readBlock(
  name: string,
  value: unknown,
  { kinds, readText }: Parameters<typeof readPoolsFile>[1],
): { readonly block: ProviderBlock; readonly problems: readonly Problem[] } {
  const kind = isRecord(value) && typeof value["kind"] === "string" ? value["kind"] : "";
  const block = { name, kind, settings: value };
  // The schema of the file reports a missing kind.
  if (kind === "") return { block, problems: [] };
  const known = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (known === undefined) {
    const message = `one of ${Object.keys(kinds).sort().join(", ")} is needed`;
    return { block, problems: [{ path: ["providers", name, "kind"], message }] };
  }
  const checked = known.settings.safeParse(value, { error: explain });
  if (checked.success) {
    const problems = checkFiles(["providers", name], checked.data, known.files ?? [], readText);
    return { block: { ...block, settings: checked.data }, problems };
  }
  const problems = flatten(checked.error.issues).map(({ path, message }) => ({
    path: ["providers", name, ...path],
    message,
  }));
  return { block, problems };
}

/** Reports unusable files at start, with the text of the later failure. */
function checkFiles(
  path: readonly string[],
  settings: unknown,
  files: readonly string[],
  readText: (path: string) => string,
): readonly Problem[] {
  return files.flatMap((field): Problem[] => {
    const file = isRecord(settings) ? settings[field] : undefined;
    if (typeof file !== "string") return [];
    try {
      const isEmpty = readText(file).trim() === "";
      return isEmpty ? [{ path: [...path, field], message: "the file is empty" }] : [];
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return [{ path: [...path, field], message: `a file that can be read is needed (${reason})` }];
    }
  });
}

type PlacedPool = { readonly at: number; readonly policy: PoolPolicy };

/** Reads the pools that are valid on their own, so that problems between these pools are reported together with problems of other pools. */
function readPools(value: unknown): readonly PlacedPool[] {
  const written: unknown = isRecord(value) ? value["pools"] : undefined;
  if (!Array.isArray(written)) return [];
  return written.flatMap((one: unknown, at): PlacedPool[] => {
    const parsed = pool.safeParse(one);
    return parsed.success ? [{ at, policy: parsed.data }] : [];
  });
}

type Surroundings = { readonly providers: readonly string[]; readonly poolLabel: string };

function checkTogether(pools: readonly PlacedPool[], around: Surroundings): readonly Problem[] {
  return pools.flatMap(({ at, policy }, index) => {
    const problems = checkPool(policy, around).map(({ path, message }) => ({ path: ["pools", at, ...path], message }));
    const isTwice = pools.findIndex((other) => other.policy.name === policy.name) < index;
    return isTwice ? [{ path: ["pools", at, "name"], message: "another pool has this name" }, ...problems] : problems;
  });
}

function checkPool(
  { provider, instanceTypes, standby, max, labels: ofNodes, taints }: PoolPolicy,
  { providers, poolLabel }: Surroundings,
): readonly Problem[] {
  const problems: Problem[] = [];
  const add = (path: readonly PropertyKey[], message: string): void => void problems.push({ path, message });
  if (!providers.includes(provider))
    add(
      ["provider"],
      providers.length === 0 ? "no provider is configured" : `one of ${providers.join(", ")} is needed`,
    );
  const types = instanceTypes.map((type) => type.name);
  for (const [index, type] of types.entries())
    if (types.indexOf(type) < index) add(["instanceTypes", index, "name"], "stands here twice");
  for (const [index, spec] of standby.entries())
    if (!types.includes(spec.instanceType))
      add(["standby", index, "instanceType"], `one of ${types.join(", ")} is needed`);
  const wanted = standby.reduce((sum, spec) => sum + spec.count, 0);
  if (wanted > max) add(["standby"], `${wanted} nodes are more than max, which is ${max}`);
  for (const key of Object.keys(ofNodes))
    if (key === poolLabel || key.startsWith(OWN_LABELS))
      add(["labels", key], "the scaler itself gives nodes this label");
  for (const [index, { key, effect }] of taints.entries()) {
    if (key.startsWith(OWN_LABELS)) add(["taints", index, "key"], "the scaler itself sets and removes this taint");
    if (CONDITION_TAINTS.some((prefix) => key.startsWith(prefix)))
      add(["taints", index, "key"], "Kubernetes sets this taint while the node is not usable");
    if (taints.findIndex((other) => other.key === key && other.effect === effect) < index)
      add(["taints", index, "key"], `is listed twice with the effect ${effect}`);
  }
  return problems;
}

type Issue = z.core.$ZodIssue;

function flatten(issues: readonly Issue[]): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: "there is no such field" }));
    if (issue.code === "invalid_key") return [{ path: issue.path, message: issue.issues[0]?.message ?? issue.message }];
    return [{ path: issue.path, message: issue.message }];
  });
}

const EXPECTED: Readonly<Partial<Record<string, string>>> = {
  int: "a whole number",
  number: "a number",
  string: "a text",
  boolean: "true or false",
  array: "a list",
  object: "a map of fields",
  record: "a map of fields",
};

/** States the valid form; undefined: the library's own text suffices. */
function explain(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined ? "is missing" : `${EXPECTED[issue.expected] ?? issue.expected} is needed`;
    case "invalid_value":
      return `${issue.values.length > 1 ? "one of " : ""}${issue.values.map(String).join(", ")} is needed`;
    case "too_small":
      return issue.origin === "string" || issue.origin === "array"
        ? "must not be empty"
        : `at least ${issue.minimum} is needed`;
    case "invalid_format":
      return issue.format === "url" ? "a URL such as https://host:8443 is needed" : undefined;
    case "too_big":
      return `at most ${issue.maximum} is possible`;
    default:
      return undefined;
  }
}

function show({ path, message }: Problem, root: unknown): string {
  const where = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  const value = path.reduce<unknown>(
    (at, part) => (isRecord(at) || Array.isArray(at) ? Reflect.get(at, part) : undefined),
    root,
  );
  const isLarge = typeof value === "object" && value !== null && Object.keys(value).length > 0;
  const shown = value === undefined || isLarge ? "" : ` is ${JSON.stringify(value)}`;
  return `${where.replace(/^\./, "") || "the file"}${shown}: ${message}`;
}

function refuse(problems: readonly string[]): never {
  const reason = problems.join("\n");
  throw new FaultError({ code: "invalid_request", field: "NODE_SCALER_FILE", reason });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
