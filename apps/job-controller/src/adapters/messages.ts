import type { V1Service } from "@kubernetes/client-node";
import type { Need, Reservation, Share } from "@muster/ledger-client";
import type { muster } from "@muster/proto";
import type { NodeSelection } from "@muster/resources";
import type { buildService } from "../domain/build-service.ts";
import { explainWait } from "../domain/explain-wait.ts";
import type { UnitSeen } from "../domain/snapshot.ts";

/** Builds a unit; `sinceMs` is the start of its wait by the caller's clock, because the ledger's clock is another machine's. */
export function toUnitSeen(reservation: Reservation, sinceMs: number): UnitSeen {
  const id = reservation.ownerId;
  if (reservation.state === "granted")
    return {
      id,
      state: "granted",
      nodes: new Map(reservation.machines.map(({ component, node }) => [component, node])),
      ...withPools(reservation),
      ...withShares(reservation.machines),
      ...withDomain(reservation),
      ...withQueue(reservation),
      ...(reservation.preemption && { preemption: reservation.preemption }),
    };
  const because = { pool: "", requested: 0, ...reservation.because, code: reservation.because?.code || "Waiting" };
  return {
    id,
    state: "waiting",
    components: reservation.needs.map(({ component }) => component),
    ...withShares(reservation.needs),
    ...withSelections(reservation.needs),
    ...withOtherPools(reservation.needs),
    ...(reservation.topology !== undefined && { topology: reservation.topology }),
    ...withQueue(reservation),
    ...(reservation.preemptedFor !== undefined && { isRequeued: true }),
    because: { code: because.code, text: explainWait(because) },
    sinceMs,
  };
}

function withShares(needs: readonly Pick<Need, "component" | "shared">[]): {
  readonly shares?: ReadonlyMap<string, Share>;
} {
  const shares = needs.flatMap(({ component, shared }) => (shared === undefined ? [] : [[component, shared] as const]));
  return shares.length === 0 ? {} : { shares: new Map(shares) };
}

function withSelections(needs: readonly Need[]): { readonly selections?: ReadonlyMap<string, NodeSelection> } {
  const selections = needs.flatMap(({ component, selection }) =>
    selection === undefined ? [] : [[component, selection] as const],
  );
  return selections.length === 0 ? {} : { selections: new Map(selections) };
}

function withOtherPools(needs: readonly Need[]): { readonly otherPools?: ReadonlyMap<string, readonly string[]> } {
  const pools = needs.flatMap(({ component, otherPools }) =>
    otherPools === undefined ? [] : [[component, otherPools] as const],
  );
  return pools.length === 0 ? {} : { otherPools: new Map(pools) };
}

function withPools({ needs, machines }: Extract<Reservation, { readonly state: "granted" }>) {
  const open = new Set(needs.flatMap(({ component, otherPools }) => (otherPools === undefined ? [] : [component])));
  if (open.size === 0) return {};
  const chosen = machines.filter(({ component }) => open.has(component));
  return { pools: new Map(chosen.map(({ component, pool }) => [component, pool])) };
}

function withQueue({ queue }: Reservation): { readonly queue?: string } {
  return queue === undefined ? {} : { queue };
}

function withDomain({ topology: key, domain: value }: Extract<Reservation, { readonly state: "granted" }>) {
  return key === undefined || value === undefined ? {} : { domain: { key, value } };
}

/** Converts a manifest to the argument of a call. The API server validates it. */
export function toWireService(manifest: ReturnType<typeof buildService>): V1Service {
  return manifest as unknown as V1Service;
}

/** States of unusable nodes on which other pods run. These pods end, so a request may wait for the node. A node with granted parts is in `capacity`. */
const IN_USE: ReadonlySet<string> = new Set(["OCCUPIED", "FOREIGN_USE"]);

/** Returns, by scaled pool, the maximum of machines for which the ledger lets one request wait. Nodes that the scaler did not create may exceed its limit. */
export function listPoolMaxima(pools: readonly muster.reservation.v1.Pool[]): ReadonlyMap<string, number> {
  const scaled = pools.filter(({ elasticAtMs }) => elasticAtMs > 0);
  return new Map(
    scaled.map(({ name, capacity, unusableByReason, elasticMax }) => {
      const inUse = unusableByReason.filter(({ reason }) => IN_USE.has(reason));
      const nodes = inUse.reduce((sum, { count }) => sum + count, capacity);
      return [name, Math.max(elasticMax, nodes)] as const;
    }),
  );
}
