import type { NodeUpdate, ScalingPlan, ScalingSnapshot, StartStep } from "../src/domain/compute.ts";
import type { Demand } from "../src/domain/demand.ts";
import { buildShortages } from "../src/domain/unavailability.ts";

/** The part of a plan that a simulated day uses. */
export type DayPolicy = (snapshot: ScalingSnapshot) => Pick<ScalingPlan, "start" | "stop" | "updates">;

/** Reuses free nodes, boots missing ones, and never ends any. */
export const neverStop: DayPolicy = (snapshot) => serve(snapshot, true);

/** Creates a node for each demand, which ends with it. */
export const oneNodeEach: DayPolicy = (snapshot) => serve(snapshot, false);

/** Serves demands in the order of their arrival, without regard to gangs. Boots are limited as for `computeScaling`. */
function serve(snapshot: ScalingSnapshot, reuse: boolean): ReturnType<DayPolicy> {
  const { nodes, nowMs, seed, limits } = snapshot;
  const waiting = new Set(snapshot.demands.map(({ name }) => name));
  const unheld = nodes.filter(
    ({ spec, status }) => !spec.terminate && ["Creating", "Available"].includes(status.phase),
  );
  const served = new Set(
    unheld.flatMap(({ status: { boundTo } }) => (boundTo && waiting.has(boundTo) ? [boundTo] : [])),
  );
  const free = unheld.filter(({ status: { boundTo } }) => boundTo === undefined || !waiting.has(boundTo));
  const updates: NodeUpdate[] = [];
  const start: StartStep[] = [];
  const ready = free.filter(({ status }) => status.phase === "Available");
  const max = snapshot.pools.get("gpu")?.max ?? 0;
  for (const demand of snapshot.demands.toSorted((one, other) => one.createdAtMs - other.createdAtMs)) {
    if (served.has(demand.name)) continue;
    const node = reuse ? ready.pop() : undefined;
    if (node !== undefined) updates.push({ name: node.name, boundTo: demand.name, idleSinceMs: undefined });
    else if (nodes.length + start.length < max && start.length < limits.bootsPerRound) {
      start.push(newNode(`gpu-${seed}-${start.length}`, demand, isSpotShort(snapshot)));
    }
  }
  if (reuse) return { start, stop: [], updates };
  const because = { code: "IDLE" as const, message: `its demand has ended at ${nowMs}` };
  return { start, stop: free.map(({ name }) => ({ name, because })), updates };
}

function isSpotShort({ unavailable, nowMs }: ScalingSnapshot): boolean {
  return buildShortages(unavailable, nowMs).isUnavailable("cloud", "large", true, undefined);
}

function newNode(name: string, demand: Demand, spotIsShort: boolean): StartStep {
  return {
    name,
    boundTo: demand.name,
    because: "DEMAND",
    spec: {
      pool: demand.pool,
      provider: "cloud",
      instanceType: "large",
      bootImage: "image-1",
      spot: demand.spot === "Preferred" && !spotIsShort,
      zone: undefined,
      gpus: 0,
      volumeGib: 20,
      privateIpOnly: false,
      terminate: undefined,
    },
  };
}
