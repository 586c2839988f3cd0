import type { V1Pod } from "@kubernetes/client-node";
import { parseAmounts, canFit, computeFreeAmounts, computePodRequests, sumUse, type Amounts } from "@muster/resources";
import type { Quantities } from "./cluster.ts";

/** The use of its node by one pod. */
export function sumPodUse({ spec }: V1Pod): Amounts {
  return sumUse(computeRequests(spec));
}

/** Whether kube-scheduler would place the pod beside these pods. */
export function hasRoom(allocatable: Quantities, present: readonly V1Pod[], { spec }: V1Pod): boolean {
  const uses = present.map(sumPodUse);
  return canFit(
    computeRequests(spec),
    computeFreeAmounts({ allocatable: parseAmounts(allocatable), overhead: new Map(), uses }),
  );
}

function computeRequests(spec: V1Pod["spec"]): Amounts {
  return spec === undefined ? new Map() : computePodRequests(spec);
}
