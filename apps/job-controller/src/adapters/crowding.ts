import type { muster } from "@muster/proto";
import { freeOf, useOf, type Amounts } from "@muster/resources";
import type { Nodes } from "@muster/watch";
import { findCrowding, type CrowdingMemory, type NodeLoad } from "../domain/find-crowding.ts";
import type { CrowdedMember } from "../domain/snapshot.ts";

/** Jobs with crowded members that are remembered. The oldest ones are forgotten first; their wait starts again. */
const MAX_JOBS = 10_000;

/** Finds the crowded members of the job with this uid, and remembers since when they are. */
export type Crowding = (
  uid: string,
  job: Parameters<typeof findCrowding>[0],
  nowMs: number,
) => readonly CrowdedMember[];

export function openCrowding({ stateOf }: Pick<Nodes, "stateOf">, waitMs: number): Crowding {
  const memories = new Map<string, CrowdingMemory>();
  return (uid, job, nowMs) => {
    const loadOf = (node: string): NodeLoad | undefined => toLoad(stateOf(node, nowMs));
    const { crowded, memory } = findCrowding(job, loadOf, memories.get(uid) ?? new Map(), { nowMs, waitMs });
    if (memory.size === 0) memories.delete(uid);
    else memories.set(uid, memory);
    const [oldest] = memories.keys();
    if (memories.size > MAX_JOBS && oldest !== undefined) memories.delete(oldest);
    return crowded;
  };
}

function toLoad(state: muster.watch.v1.NodeState | undefined): NodeLoad | undefined {
  const { allocatable = {}, overhead, foreign, shared = [] } = state ?? {};
  if (Object.keys(allocatable).length === 0 || foreign === undefined) return undefined;
  const used = useOf(toAmounts(overhead?.requests), overhead?.pods ?? 0);
  const left = freeOf({ allocatable: toAmounts(allocatable), overhead: used, uses: [] });
  return { allocatable: Object.fromEntries(left), foreign, shared: shared.flatMap(({ use }) => use ?? []) };
}

function toAmounts(requests: Readonly<Record<string, number>> = {}): Amounts {
  return new Map(Object.entries(requests));
}
