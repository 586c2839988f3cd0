import { describeNodeSelection } from "@muster/resources";
import { getDemandClass } from "./acceptance.ts";
import { decideBoot, type BootConditions, type BootVerdict } from "./decide-boot.ts";
import type { Demand } from "./demand.ts";
import { describeLeft } from "./describe-duration.ts";
import type { Pool } from "./fit.ts";
import { listAcceptedZones, describeRefusal, mayAccept } from "./may-accept.ts";
import type { SizeMismatch } from "./observe-mismatches.ts";
import { isInDomain } from "./topology.ts";

type BootWorld = { readonly conditions: BootConditions; readonly mismatches: readonly SizeMismatch[] };

/** Caches verdicts, because many demands have equal requests, and shortages do not change within a round. */
export function rememberVerdicts(world: BootWorld): (demand: Demand, pool: Pool) => BootVerdict {
  const known = new Map<string, BootVerdict>();
  return (demand, pool) => {
    const key = `${demand.pool}\n${demand.spot}\n${demand.zone ?? ""}\n${getDemandClass(demand)}\n${demand.instanceTypes.join("\n")}`;
    const verdict = known.get(key) ?? decideAcceptedBoot(demand, pool, world);
    known.set(key, verdict);
    return verdict;
  };
}

/** Decides a boot among the types whose nodes the demand may accept, by the properties that are known before the boot. */
function decideAcceptedBoot(demand: Demand, pool: Pool, { conditions, mismatches }: BootWorld): BootVerdict {
  const { instanceTypes, selection, topology } = demand;
  if (!isInDomain(topology, pool.policy)) {
    const domain = `${topology?.key ?? ""}=${topology?.value ?? ""}`;
    const because = `new nodes of pool ${demand.pool} are not known to have ${domain}`;
    return { kind: "wait", code: "TOPOLOGY", because };
  }
  if (!mayAccept(selection, pool.policy))
    return { kind: "wait", code: "NODE_SELECTION", because: describeRefusal(selection, pool.policy) };
  const known = mismatches.filter((one) => one.pool === demand.pool && one.demandClass === getDemandClass(demand));
  const possible = instanceTypes.filter((type) => !known.some(({ instanceType }) => instanceType === type));
  const [first] = known;
  if (first === undefined || possible.length > 0 || instanceTypes.length === 0) {
    const zones = listAcceptedZones(selection, pool.policy) ?? pool.policy.zones;
    return decideBoot(
      { ...demand, instanceTypes: possible },
      { ...pool, policy: { ...pool.policy, zones } },
      conditions,
    );
  }
  const left = describeLeft(Math.min(...known.map(({ untilMs }) => untilMs)) - conditions.nowMs);
  const wanted = selection === undefined ? "a selection without tolerations" : describeNodeSelection(selection);
  const because = `${first.node}, created for the same selection, does not match ${wanted}; requested again in ${left}`;
  return { kind: "wait", code: "NODE_SELECTION", because };
}
