import { mayHoldResources, originOf, type LeaseRecord, type Origin } from "@muster/provision-engine/lease";

type Find = (id: string) => LeaseRecord | undefined;

/** What lets a lease be wrong in how it has what another one had: the rule, and what was found. */
export type Wrong = { readonly rule: string; readonly found: string };

/** Which workload a lease has, or may have, by what is stored; undefined: none. What it is to take over it has from the write on by which the older one names it as its heir. */
export function workloadOf(record: LeaseRecord, find: Find): Origin | undefined {
  if (!mayHoldResources(record.phase)) return undefined;
  return record.takesOver === undefined ? originOf(record) : handedOver(record, find);
}

function handedOver({ order, takesOver = "" }: LeaseRecord, find: Find): Origin | undefined {
  const older = find(takesOver);
  return older?.heir === order.id ? originOf(older) : undefined;
}

/** Of leases that take over what others have: each workload is one lease's, and what was handed over is not lost on the way. */
export function findWrongTakeOvers(leases: readonly LeaseRecord[], find: Find): Wrong[] {
  const holders = new Map<string, string>();
  const wrong: Wrong[] = [];
  for (const record of leases) {
    const { id } = record.order;
    const workload = workloadOf(record, find);
    if (workload !== undefined) {
      const key = keyOf(workload);
      const other = holders.get(key);
      if (other !== undefined)
        wrong.push({ rule: "one lease has what is there", found: `${other} and ${id} have ${key}` });
      holders.set(key, id);
    }
    const lost = findLost(record, find);
    if (lost !== undefined) wrong.push(lost);
  }
  return wrong;
}

/** An heir has what was handed over for as long as it may have anything. */
function findLost(record: LeaseRecord, find: Find): Wrong | undefined {
  const { heir, order } = record;
  if (heir === undefined) return undefined;
  const rule = "an heir has what was handed over to it";
  const found = find(heir);
  if (found === undefined) return { rule, found: `${order.id} names ${heir}, which is not there` };
  const handed = keyOf(originOf(record));
  const workload = workloadOf(found, find);
  const has = workload === undefined ? "nothing" : keyOf(workload);
  return !mayHoldResources(found.phase) || has === handed
    ? undefined
    : { rule, found: `${heir} has ${has} and not ${handed}` };
}

function keyOf({ id, run }: Origin): string {
  return `${id}-${run}`;
}
