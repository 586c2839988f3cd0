import type { muster } from "@muster/proto";
import {
  findCrowded,
  computeFreeAmounts,
  sumUse,
  type Amounts,
  type CrowdedComponent,
  type CrowdingMemory,
  type ComponentPlace,
  type PlaceLoad,
} from "@muster/resources";
import type { Nodes } from "./nodes.ts";

/** Owners with crowded components that are remembered. The oldest ones are forgotten first; their wait starts again. */
const MAX_OWNERS = 10_000;

/** Finds the crowded places of the owner with this uid, and records since when each is crowded. */
export type Crowding = (uid: string, places: readonly ComponentPlace[], nowMs: number) => readonly CrowdedComponent[];

/** `waitMs`: after this, a crowded machine counts as lost. */
export function openCrowding({ stateOf }: Pick<Nodes, "stateOf">, waitMs: number): Crowding {
  const memories = new Map<string, CrowdingMemory>();
  return (uid, places, nowMs) => {
    const loadOf = (node: string): PlaceLoad | undefined => toLoad(stateOf(node, nowMs));
    const { crowded, memory } = findCrowded(places, loadOf, memories.get(uid) ?? new Map(), { nowMs, waitMs });
    if (memory.size === 0) memories.delete(uid);
    else memories.set(uid, memory);
    const [oldest] = memories.keys();
    if (memories.size > MAX_OWNERS && oldest !== undefined) memories.delete(oldest);
    return crowded;
  };
}

function toLoad(state: muster.watch.v1.NodeState | undefined): PlaceLoad | undefined {
  const { allocatable = {}, overhead, foreign, shared = [] } = state ?? {};
  if (Object.keys(allocatable).length === 0 || foreign === undefined) return undefined;
  const used = sumUse(toAmounts(overhead?.requests), overhead?.pods ?? 0);
  const left = computeFreeAmounts({ allocatable: toAmounts(allocatable), overhead: used, uses: [] });
  return { allocatable: Object.fromEntries(left), foreign, shared: shared.flatMap(({ use }) => use ?? []) };
}

function toAmounts(requests: Readonly<Record<string, number>> = {}): Amounts {
  return new Map(Object.entries(requests));
}
