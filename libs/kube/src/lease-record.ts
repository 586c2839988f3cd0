import type { V1Lease, V1LeaseSpec } from "@kubernetes/client-node";

/** The Lease as the API server says it: times are strings there. */
export type LeaseObject = Omit<V1Lease, "spec"> & {
  readonly spec?: Omit<V1LeaseSpec, "acquireTime" | "renewTime"> & {
    readonly acquireTime?: string;
    readonly renewTime?: string;
  };
};

export type LeaseWish = {
  readonly identity: string;
  readonly leaseMs: number;
  /** Time of day, for people; no decision is made by it. */
  readonly wallMs: number;
};

export function holderOf(lease: LeaseObject): string {
  return lease.spec?.holderIdentity ?? "";
}

/** What changes with each renewal. The resource version would change with a mere annotation, too, and nobody could ever take over. */
export function mark(lease: LeaseObject): string {
  return JSON.stringify([lease.metadata?.uid, lease.spec]);
}

/** For how long the holder has promised to come again; without its word, what we would have promised. */
export function durationMs(lease: LeaseObject, ownMs: number): number {
  const seconds = lease.spec?.leaseDurationSeconds;
  return seconds === undefined ? ownMs : seconds * 1000;
}

export function buildFirst(name: string, wish: LeaseWish): LeaseObject {
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name },
    spec: { ...held(wish), acquireTime: microTime(wish.wallMs), leaseTransitions: 0 },
  };
}

/** Counts a transition also when the former holder was the same: each term has a fencing value of its own. */
export function buildTaken(lease: LeaseObject, wish: LeaseWish): LeaseObject {
  const leaseTransitions = (lease.spec?.leaseTransitions ?? 0) + 1;
  return { ...lease, spec: { ...lease.spec, ...held(wish), acquireTime: microTime(wish.wallMs), leaseTransitions } };
}

export function buildRenewed(lease: LeaseObject, wish: LeaseWish): LeaseObject {
  return { ...lease, spec: { ...lease.spec, ...held(wish) } };
}

/** Nobody's, so that the next one need not wait. */
export function buildReleased(lease: LeaseObject, wallMs: number): LeaseObject {
  const nobody = { holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(wallMs) };
  return { ...lease, spec: { ...lease.spec, ...nobody } };
}

function held({ identity, leaseMs, wallMs }: LeaseWish) {
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(leaseMs / 1000),
    renewTime: microTime(wallMs),
  };
}

/** The API server takes a time of a lease with six digits after the second, no more and no less. */
function microTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace("Z", "000Z");
}
