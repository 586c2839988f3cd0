import { NANO, parseQuantity, printQuantity } from "@muster/resources";
import { type JsonValue, type JsonObject, getList, mapEntries, getObject, getText } from "./json.ts";
import { pods } from "./kinds/pod.ts";
import { volumeClaims } from "./kinds/volume-claim.ts";
import { getName } from "./metadata.ts";
import type { Resource } from "./resource.ts";

/** An amount in units of 10^-9. `like` is a text whose format is used for printing. */
type Amount = { readonly nano: bigint; readonly like: string };
export type Usage = ReadonlyMap<string, Amount>;

/** An object and its kind. */
export type CountedObject = { readonly resource: Resource; readonly object: JsonObject };

const COMPUTE = ["cpu", "memory", "ephemeral-storage"];
/** Objects of the core group that are counted by their plural alone. */
const COUNTED = ["configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services"];
const ONE: Amount = { nano: NANO, like: "" };

/** Computes the status of a quota from the objects of its namespace. */
export function buildQuotaStatus(quota: JsonObject, world: readonly CountedObject[]): JsonObject {
  const hard = getObject(quota, "spec", "hard");
  const total = sumUsage(quota, world);
  return {
    hard,
    used: mapEntries(hard, (name) => {
      const amount = total.get(name);
      return printQuantity(amount?.nano ?? 0n, amount?.like);
    }),
  };
}

/** Returns why a quota refuses an object; undefined: it does not. */
export function decideQuota(
  quota: JsonObject,
  added: CountedObject,
  world: readonly CountedObject[],
): string | undefined {
  if (!isInScope(quota, added)) return undefined;
  const hard = getObject(quota, "spec", "hard");
  const wanted = computeUsage(added);
  const missing = listMissing(added, Object.keys(hard));
  if (missing.length > 0) return `failed quota: ${getName(quota)}: must specify ${missing.join("; ")}`;
  const used = sumUsage(quota, world);
  const exceeded = Object.keys(hard)
    .filter((name) => {
      const more = wanted.get(name)?.nano ?? 0n;
      return more > 0n && more + (used.get(name)?.nano ?? 0n) > (parseQuantity(getText(hard, name)) ?? 0n);
    })
    .toSorted();
  if (exceeded.length === 0) return undefined;
  const print = (usage: Usage): string =>
    exceeded.map((name) => `${name}=${printQuantity(usage.get(name)?.nano ?? 0n, usage.get(name)?.like)}`).join();
  const limited = exceeded.map((name) => `${name}=${getText(hard, name)}`).join();
  return `exceeded quota: ${getName(quota)}, requested: ${print(wanted)}, used: ${print(used)}, limited: ${limited}`;
}

function sumUsage(quota: JsonObject, world: readonly CountedObject[]): Usage {
  const total = new Map<string, Amount>();
  for (const counted of world)
    if (isInScope(quota, counted)) for (const [name, amount] of computeUsage(counted)) add(total, name, amount);
  return total;
}

/** Returns whether the quota counts the object. The only scope here, priority classes, counts the pods that have a class. */
function isInScope(quota: JsonObject, { resource, object }: CountedObject): boolean {
  return (
    getList(quota, "spec", "scopes").length === 0 ||
    (resource === pods && getText(object, "spec", "priorityClassName") !== "")
  );
}

function computeUsage({ resource, object }: CountedObject): Usage {
  const { group, plural } = resource;
  const usage = new Map<string, Amount>([[`count/${plural}${group === "" ? "" : `.${group}`}`, ONE]]);
  if (resource === pods) {
    // A pod that has ended uses nothing.
    if (!["Succeeded", "Failed"].includes(getText(object, "status", "phase"))) addPod(usage, object);
    return usage;
  }
  if (group === "" && COUNTED.includes(plural)) usage.set(plural, ONE);
  if (resource === volumeClaims) addClaim(usage, object);
  return usage;
}

function addPod(usage: Map<string, Amount>, pod: JsonObject): void {
  usage.set("pods", ONE);
  for (const kind of ["requests", "limits"] as const) {
    for (const [name, amount] of podAmounts(pod, kind)) {
      usage.set(`${kind}.${name}`, amount);
      if (kind === "requests" && COMPUTE.includes(name)) usage.set(name, amount);
    }
  }
}

/** Sums containers and sidecars, or takes an init container with its earlier sidecars if that is more. */
function podAmounts(pod: JsonObject, kind: "requests" | "limits"): Usage {
  const total = new Map<string, Amount>();
  const amounts = (container: JsonValue): [string, Amount][] =>
    Object.entries(getObject(container, "resources", kind)).map(([name, text]) => [name, parseAmount(text)]);
  for (const container of getList(pod, "spec", "containers"))
    for (const [name, amount] of amounts(container)) add(total, name, amount);
  const sidecars = new Map<string, Amount>();
  const starting = new Map<string, Amount>();
  for (const container of getList(pod, "spec", "initContainers")) {
    for (const [name, amount] of amounts(container)) {
      if (getText(container, "restartPolicy") === "Always") add(sidecars, name, amount);
      else raise(starting, name, { ...amount, nano: amount.nano + (sidecars.get(name)?.nano ?? 0n) });
    }
  }
  for (const [name, amount] of sidecars) add(total, name, amount);
  for (const [name, amount] of starting) raise(total, name, amount);
  return total;
}

function addClaim(usage: Map<string, Amount>, claim: JsonObject): void {
  usage.set("requests.storage", parseAmount(getObject(claim, "spec", "resources", "requests")["storage"]));
}

/** Lists resources that a quota limits and a container does not declare. */
function listMissing({ resource, object }: CountedObject, limited: readonly string[]): string[] {
  if (resource !== pods) return [];
  const containers = [...getList(object, "spec", "containers"), ...getList(object, "spec", "initContainers")];
  return limited.toSorted().flatMap((name) => {
    const [, kind = "requests", what = ""] = /^(?:(requests|limits)\.)?(cpu|memory)$/.exec(name) ?? [];
    if (what === "") return [];
    const lacking = containers.filter((one) => getObject(one, "resources", kind)[what] === undefined);
    const names = lacking.map((one) => getText(one, "name")).toSorted();
    return names.length === 0 ? [] : [`${name} for: ${names.join()}`];
  });
}

function parseAmount(text: JsonValue | undefined): Amount {
  // In JSON and YAML a quantity may also be a number.
  const like = typeof text === "string" || typeof text === "number" ? String(text) : "0";
  return { nano: parseQuantity(like) ?? 0n, like };
}

function add(total: Map<string, Amount>, name: string, more: Amount): void {
  const before = total.get(name);
  const like = before === undefined || before.nano === 0n ? more.like : before.like;
  total.set(name, { nano: (before?.nano ?? 0n) + more.nano, like });
}

function raise(total: Map<string, Amount>, name: string, amount: Amount): void {
  if (amount.nano > (total.get(name)?.nano ?? 0n)) total.set(name, amount);
}
