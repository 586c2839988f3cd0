import type { Requests } from "@muster/resources";

/** Whether both have the same amounts, or both are whole machines (undefined). */
export function areRequestsEqual(one: Requests | undefined, other: Requests | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return canHoldRequests(one, other) && canHoldRequests(other, one);
}

/** Whether a pod with these requests fits into the part. Undefined means a whole machine. */
export function canHoldRequests(part: Requests | undefined, requests: Requests | undefined): boolean {
  if (part === undefined) return true;
  if (requests === undefined) return false;
  return Object.entries(requests).every(([resource, amount]) => amount <= (part[resource] ?? 0));
}
