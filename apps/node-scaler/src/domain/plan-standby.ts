import { decideBoot, type BootConditions } from "./decide-boot.ts";
import type { Pool } from "./fit.ts";
import type { NewNode, ScaledNode } from "./node.ts";
import type { StandbyNodeSpec } from "./pool.ts";

/** The nodes that a pool's standby lacks. */
export type StandbyPlan = {
  readonly boots: readonly NewNode[];
  /** Why desired nodes are not created, one text for each kind. */
  readonly lacks: readonly { readonly code: "POOL_MAX" | "UNAVAILABLE"; readonly because: string }[];
};

/** Sums entries for the same kind of node, in the order in which the kinds first occur. */
export function mergeStandby(standby: readonly StandbyNodeSpec[]): readonly StandbyNodeSpec[] {
  const merged = new Map<string, StandbyNodeSpec>();
  for (const entry of standby) {
    const key = `${entry.instanceType}\n${entry.spot}`;
    merged.set(key, { ...entry, count: entry.count + (merged.get(key)?.count ?? 0) });
  }
  return [...merged.values()].filter(({ count }) => count > 0);
}

/** Whether an unbound node stands by for an entry. Nodes with an unusual volume size do not stand by, because they suit too few demands. */
export function isStandbyFor({ spec }: ScaledNode, entry: StandbyNodeSpec, { policy }: Pool): boolean {
  return (
    spec.pool === policy.name &&
    spec.instanceType === entry.instanceType &&
    spec.spot === entry.spot &&
    spec.volumeGib === policy.volumeGib
  );
}

/** Plans new nodes for standby that the unbound nodes of a pool do not cover; `headroom` is how many may be created. */
export function planStandby(
  pool: Pool,
  unbound: readonly ScaledNode[],
  headroom: number,
  conditions: BootConditions,
): StandbyPlan {
  const boots: NewNode[] = [];
  const lacks: StandbyPlan["lacks"][number][] = [];
  const { policy } = pool;
  for (const entry of mergeStandby(policy.standby)) {
    const missing = entry.count - unbound.filter((node) => isStandbyFor(node, entry, pool)).length;
    if (missing <= 0) continue;
    const wish = { instanceTypes: [entry.instanceType], spot: getSpotPolicy(entry), zone: undefined };
    const boot = decideBoot(wish, pool, conditions);
    if (boot.kind === "wait") {
      lacks.push({ code: "UNAVAILABLE", because: `${missing} nodes on standby are missing: ${boot.because}` });
      continue;
    }
    const possible = Math.min(missing, headroom - boots.length);
    if (possible < missing) {
      const because = `${missing - possible} nodes on standby are missing: the pool may have ${policy.max} nodes`;
      lacks.push({ code: "POOL_MAX", because });
    }
    for (let made = 0; made < possible; made += 1) boots.push(buildStandbyNode(pool, boot));
  }
  return { boots, lacks };
}

function getSpotPolicy({ spot }: StandbyNodeSpec): "Always" | "Never" {
  return spot ? "Always" : "Never";
}

function buildStandbyNode(
  { policy, bootImage }: Pool,
  { instanceType, spot, zone }: { instanceType: string; spot: boolean; zone: string | undefined },
): NewNode {
  const { name, provider, volumeGib, privateIpOnly, instanceTypes } = policy;
  const gpus = instanceTypes.find((type) => type.name === instanceType)?.gpus ?? 0;
  return {
    boundTo: undefined,
    spec: {
      pool: name,
      provider,
      instanceType,
      bootImage: bootImage ?? "",
      spot,
      zone,
      gpus,
      volumeGib,
      privateIpOnly,
      terminate: undefined,
    },
  };
}
