import { createHash } from "node:crypto";
import type { Order } from "@muster/leases";
import { labels } from "@muster/proto";
import { base32nopad } from "@scure/base";
import type { LeaseClaim, ReadResult } from "../domain/claim.ts";
import { getOrigin, type LeaseRecord } from "../domain/lease.ts";

/** Labels that find the objects of a lease and mark them as its own. */
export type Labels = Readonly<Record<string, string>>;

/** Owner of an object by its labels: this run of the lease, another run, or another owner. */
export type ObjectOwner = "this-run" | "earlier-run" | "later-run" | "other";

const USER_BYTES = 20;

export function buildLeaseLabels(lease: Pick<LeaseRecord, "order" | "run" | "madeFor">): Labels {
  const { id, run } = getOrigin(lease);
  return {
    [labels.managedBy]: "muster",
    [labels.lease]: id,
    [labels.leaseRun]: String(run),
    [labels.leaseUser]: userHash(lease.order.user),
  };
}

export function getOwner(
  found: Labels | undefined,
  lease: Pick<LeaseRecord, "order" | "run" | "madeFor">,
): ObjectOwner {
  const origin = getOrigin(lease);
  const run = Number(found?.[labels.leaseRun]);
  if (!isOfUser(found, origin.id, lease.order.user) || !Number.isSafeInteger(run)) return "other";
  if (run === origin.run) return "this-run";
  return run < origin.run ? "earlier-run" : "later-run";
}

/** Whether an object was created for this lease of this user, in any run. */
export function isOfUser(found: Labels | undefined, lease: string, user: string): boolean {
  const wanted = { [labels.managedBy]: "muster", [labels.lease]: lease, [labels.leaseUser]: userHash(user) };
  return Object.entries(wanted).every(([key, value]) => found?.[key] === value);
}

/** Selects the objects of all runs of the lease. */
export function buildLeaseSelector(id: string): string {
  return `${labels.managedBy}=muster,${labels.lease}=${id}`;
}

/** Hash of a user id, which may be too long for a label value: 32 characters. */
function userHash(user: string): string {
  const digest = createHash("sha256").update(user).digest();
  return base32nopad.encode(digest.subarray(0, USER_BYTES)).toLowerCase();
}

export type ObjectPlace = { readonly name: string; readonly namespace: string };

/** Name of all objects of a lease, which differ by kind. Fits a DNS label. */
export function buildLeaseName(id: string): string {
  return `lease-${id}`;
}

/** Namespace of a user's network. */
export function buildNetworkNamespaceName(user: string, network: string): string {
  return `muster-${buildNetworkId(user, network)}`;
}

/** Namespace of an order's objects: the namespace of its network, or else the engine's own. */
export function getNamespace(
  { user }: Pick<Order, "user">,
  claim: ReadResult<LeaseClaim>,
  engineNamespace: string,
): string {
  const [network] = claim.ok ? claim.value.needs.networks : [];
  return network === undefined ? engineNamespace : buildNetworkNamespaceName(user, network);
}

const ID_BYTES = 20;

/** Id of a user's network: 32 characters valid in a namespace name. User and name are delimited, so ("12", "net") and ("1", "2net") differ. */
export function buildNetworkId(user: string, name: string): string {
  const digest = createHash("sha256")
    .update(`${Buffer.byteLength(user)}:${user}${name}`)
    .digest();
  return base32nopad.encode(digest.subarray(0, ID_BYTES)).toLowerCase();
}
