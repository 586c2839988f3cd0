import type { Order } from "@muster/leases";
import type { LeaseData, LeaseType } from "@muster/leases/data";
import { type LeaseClaim, type ReadResult, addUnits, NO_UNITS, type ResourceUnits } from "../domain/claim.ts";
import { CONTAINER } from "./container.ts";
import { DEBUG } from "./debug.ts";
import { KUBERNETES } from "./kubernetes.ts";
import { MACHINE } from "./machine.ts";
import { NETWORK } from "./network.ts";
import { VOLUME } from "./volume.ts";
import type { WorkloadType, ProvisionCounters } from "./workload-type.ts";
import type { Workload, WorkloadParts } from "./workload.ts";
import { ZDB } from "./zdb.ts";
import { mayHoldResources, type LeaseRecord } from "../domain/lease.ts";

/** All types of workloads. To add one, see docs/checklists/new-lease-type.md. */
const TYPES: { readonly [Type in LeaseType]: WorkloadType<LeaseData<Type>, Type> } = {
  network: NETWORK,
  volume: VOLUME,
  container: CONTAINER,
  zdb: ZDB,
  kubernetes: KUBERNETES,
  machine: MACHINE,
  debug: DEBUG,
};

const BY_NAME: ReadonlyMap<string, WorkloadType> = new Map(Object.entries(TYPES));

function findWorkloadType(type: string): WorkloadType | undefined {
  return BY_NAME.get(type);
}

const CLAIMS = new WeakMap<Pick<Order, "type" | "data">, ReadResult<LeaseClaim>>();

/** Resources and dependencies of an order, or all problems of its type and data. Cached for each order object. */
export function readClaim(order: Pick<Order, "type" | "data">): ReadResult<LeaseClaim> {
  const known = CLAIMS.get(order);
  if (known !== undefined) return known;
  const claim = read(order);
  CLAIMS.set(order, claim);
  return claim;
}

function read(order: Pick<Order, "type" | "data">): ReadResult<LeaseClaim> {
  const found = findWorkloadType(order.type);
  if (found !== undefined) return found.claim(order.data);
  return { ok: false, problems: [{ field: "type", reason: `of reservation not supported: ${order.type}` }] };
}

/** Sorts orders that arrived together so that dependencies begin first; the sort is stable, and unknown types come last. */
export function sortByRank<Item>(items: readonly Item[], typeOf: (item: Item) => string): Item[] {
  const rank = (item: Item): number => findWorkloadType(typeOf(item))?.rank ?? BY_NAME.size + 1;
  return items.toSorted((a, b) => rank(a) - rank(b));
}

/** The workloads of all types that this engine serves; without a cluster, only types that need none. */
export function makeWorkloads(parts: WorkloadParts): readonly Workload[] {
  return Object.values(TYPES)
    .map(({ workload }) => workload(parts))
    .filter((workload) => workload !== undefined);
}

type Counted = Pick<LeaseRecord, "order" | "phase">;

/** Resources of each lease of a type beyond the resources in its order, from the configuration. */
export type TypeOverheads = Readonly<Record<string, ResourceUnits>>;

/** The counter of a lease; undefined if the lease does not count. Leases with the same `network` count once. */
export function findCounter({
  order,
  phase,
}: Counted): { readonly counter: keyof ProvisionCounters; readonly network: string | undefined } | undefined {
  const counter = phase === "ACTIVE" ? findWorkloadType(order.type)?.counter : undefined;
  if (counter === undefined) return undefined;
  const network = counter === "network" ? JSON.stringify([order.user, findNetworkName(order)]) : undefined;
  return { counter, network };
}

/** Resources that leases hold or may hold, including leases being created or removed; used by admission and reports. */
export function sumHeldUnits(records: Iterable<Counted>, overheads: TypeOverheads): ResourceUnits {
  let sum = NO_UNITS;
  for (const { order, phase } of records) {
    const claim = mayHoldResources(phase) ? readClaim(order) : undefined;
    if (claim?.ok === true) sum = addUnits(sum, sumUnits(order, claim.value, overheads));
  }
  return sum;
}

/** Name of the network that an order creates; undefined for other types. */
export function findNetworkName(order: Counted["order"]): string | undefined {
  const claim = readClaim(order);
  return claim.ok ? claim.value.network : undefined;
}

/** Sums all resources of a lease. */
export function sumUnits(
  { type }: Pick<Order, "type">,
  { units }: LeaseClaim,
  overheads: TypeOverheads,
): ResourceUnits {
  const overhead = overheads[type];
  return overhead === undefined ? units : addUnits(units, overhead);
}
