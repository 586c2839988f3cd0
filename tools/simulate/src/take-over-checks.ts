import { mayHoldResources, getOrigin, type LeaseRecord, type LeaseOrigin } from "@muster/provision-engine/lease";

type Find = (id: string) => LeaseRecord | undefined;

/** A violated rule about the take-over of a lease. */
export type WrongTakeOver = { readonly rule: string; readonly found: string };

/** The workload that a lease owns by the stored records, if any. A take-over is complete once the older record names the lease as its heir. */
export function findWorkload(record: LeaseRecord, find: Find): LeaseOrigin | undefined {
  if (!mayHoldResources(record.phase)) return undefined;
  return record.takesOver === undefined ? getOrigin(record) : handedOver(record, find);
}

function handedOver({ order, takesOver = "" }: LeaseRecord, find: Find): LeaseOrigin | undefined {
  const older = find(takesOver);
  return older?.heir === order.id ? getOrigin(older) : undefined;
}

/** Checks that each workload belongs to one lease, and that no take-over loses a workload. */
export function findWrongTakeOvers(leases: readonly LeaseRecord[], find: Find): WrongTakeOver[] {
  const holders = new Map<string, string>();
  const wrong: WrongTakeOver[] = [];
  for (const record of leases) {
    const { id } = record.order;
    const workload = findWorkload(record, find);
    if (workload !== undefined) {
      const key = buildKey(workload);
      const other = holders.get(key);
      if (other !== undefined)
        wrong.push({ rule: "every workload belongs to one lease", found: `${other} and ${id} have ${key}` });
      holders.set(key, id);
    }
    const lost = findLost(record, find);
    if (lost !== undefined) wrong.push(lost);
  }
  return wrong;
}

/** An heir keeps the workload of its predecessor while it may have objects. */
function findLost(record: LeaseRecord, find: Find): WrongTakeOver | undefined {
  const { heir, order } = record;
  if (heir === undefined) return undefined;
  const rule = "an heir has the workload of its predecessor";
  const found = find(heir);
  if (found === undefined) return { rule, found: `${order.id} names ${heir}, which is missing` };
  const handed = buildKey(getOrigin(record));
  const workload = findWorkload(found, find);
  const has = workload === undefined ? "nothing" : buildKey(workload);
  return !mayHoldResources(found.phase) || has === handed
    ? undefined
    : { rule, found: `${heir} has ${has} and not ${handed}` };
}

function buildKey({ id, run }: LeaseOrigin): string {
  return `${id}-${run}`;
}
