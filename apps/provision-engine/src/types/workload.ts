import type { KubeObject } from "@muster/kube";
import type { LedgerCalls, ReservationCalls } from "@muster/ledger-client";
import type { LeaseRecord } from "../domain/lease.ts";
import type { DiskType } from "../domain/claim.ts";
import type { ObjectPlace } from "./lease-names.ts";
import type { LeaseQueue } from "./lease-queue.ts";
import type { ObjectKind } from "./object-kinds.ts";
import type { LeaseNodes } from "./pods.ts";

/** A lease with callbacks for its provisioner. */
export type RequestedLease = LeaseRecord & {
  /** Called for each missing object that was created. */
  readonly onCreated?: (what: string) => void;
  /** Called with the reason of a wait that will not end by itself soon, each time it is observed. */
  readonly onWait?: (because: string) => Promise<void>;
  /** Called with each loss before the lease became active, so that its history explains the delay. */
  readonly onLost?: (what: string) => Promise<void>;
};

/**
 * The implementation of a workload type. Calls may be repeated at any time, by this process or another: they find existing objects and do not create them
 * twice. A missing object is no error of a removal. All calls stop at the signal.
 */
export type Workload = {
  readonly type: string;
  readonly provision: ProvisionerFunc;
  readonly decommission: DecommissionerFunc;
  /**
   * Rejects with the permanent fault that `provision` would meet, as far as it is known without creating an object. Undefined: no fault is known in advance.
   */
  readonly preflight?: (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;
  /**
   * Called periodically while the lease is active. Recreates missing objects, rejects with the trouble, or with unavailable if the check is not possible.
   * Resolves with a changed result, or undefined. Without this method, `provision` is called instead.
   */
  readonly check?: (lease: RequestedLease, signal: AbortSignal) => Promise<string | undefined>;
};

/**
 * Resolves with JSON for the user. After pool_availability and unavailable the call is repeated until it succeeds, after other retryable faults a limited
 * number of times. Any other fault fails the order.
 */
type ProvisionerFunc = (lease: RequestedLease, signal: AbortSignal) => Promise<string>;

/** Removes the objects of this and earlier runs. The call is repeated after a rejection. */
type DecommissionerFunc = (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;

/** Dependencies of workloads. */
export type WorkloadParts = {
  /** Undefined: no cluster; types that need one are not served. */
  readonly cluster: LeaseCluster | undefined;
  readonly ledger: LeaseLedger;
  readonly leaseQueue: LeaseQueue;
  readonly nameOf: GetOriginalLease;
  readonly nowNs: () => bigint;
};

/** The ledger of machines: the reservations of leases, and the standings of machines. */
export type LeaseLedger = LedgerCalls & Pick<ReservationCalls, "listMachines" | "listQueues">;

/** Returns the id of the lease for which a workload was first created. */
export type GetOriginalLease = (lease: string) => string;

/** The Kubernetes cluster of the objects of leases. */
export type LeaseCluster = {
  /** Namespace of objects outside of users' networks. */
  readonly namespace: string;
  /** Nodes for the pods of containers and stores. */
  readonly nodes: LeaseNodes;
  /** Undefined: the default class of the cluster. */
  readonly storageClasses: Readonly<Record<DiskType, string | undefined>>;
  /** Configuration of the type kubernetes. */
  readonly slices: {
    /** The ClusterRole of slice accounts in their namespaces. */
    readonly role: string;
    /** Address of the API server for users; undefined: the engine's own. */
    readonly url: string | undefined;
  };
  /** Undefined: leases of the type zdb fail. */
  readonly zdb: ZdbImage | undefined;
  readonly objects: LeaseObjects;
  readonly accessOf: RequestClusterAccess;
};

/** The image of key-value stores; one per engine. */
export type ZdbImage = {
  readonly image: string;
  /** Undefined: the command of the image. */
  readonly command: readonly string[] | undefined;
  readonly port: number;
  /** Resources of each store, counted in addition to its disk. */
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Size of the root file system and log of the store, on the node's disk. */
  readonly diskBytes: number;
};

/** An object to create. `metadata.namespace` is its namespace; apiVersion, kind and labels are added. */
export type NewObject<Object> = Object & { readonly metadata: { readonly name: string; readonly namespace?: string } };

export type Lease = Pick<LeaseRecord, "order" | "run" | "madeFor"> & Pick<RequestedLease, "onCreated">;

export type Observation<Value> =
  { readonly kind: "ready"; readonly value: Value } | { readonly kind: "pending"; readonly because: string };

/**
 * Kubernetes objects of a lease. Every method rejects with FaultError: with unavailable while the API server is unavailable or overloaded, with
 * deadline_exceeded after a timeout, and with invalid_request and the server's message after a refusal.
 */
export type LeaseObjects = {
  /**
   * Creates the object for this run of the lease, or finds it. First removes an object of an earlier run under the same name, and waits for terminating ones.
   * Rejects with already_exists if the name has another owner, and with conflict if it belongs to a later run.
   */
  ensure<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    object: NewObject<Object>,
    signal: AbortSignal,
  ): Promise<Object>;
  /**
   * Removes the objects of this and earlier runs, kind by kind, with their dependents. Resolves once they are gone; each attempt may shorten the grace period
   * of a terminating namespace's pods. Rejects with invalid_request while a namespace contains an object that keeps it.
   */
  remove(
    lease: Lease,
    from: { readonly kinds: readonly ObjectKind[]; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<void>;
  /** Undefined: the object is missing. */
  find<Object extends KubeObject>(
    kind: ObjectKind,
    at: { readonly name: string; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<Object | undefined>;
  /** The objects of one kind that belong to this run, including objects that Kubernetes created. */
  list<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    namespace: string,
    signal: AbortSignal,
  ): Promise<readonly Object[]>;
  /** Repeats the observation until it is ready. Rejects with deadline_exceeded and the reason after a long wait; the caller's call is then repeated. */
  untilReady<Value>(look: () => Promise<Observation<Value>>, signal: AbortSignal): Promise<Value>;
};

/** Credentials of a service account for external use. */
type ClusterAccess = {
  readonly url: string;
  /** The certificate authority in PEM. */
  readonly ca: string | undefined;
  /** A secret of the user, which must not be logged. */
  readonly token: string;
  /** The end of validity that the server sets, which may be earlier than requested. */
  readonly expiresAt: string;
};

export type RequestClusterAccess = (
  account: ObjectPlace,
  seconds: number,
  signal: AbortSignal,
) => Promise<ClusterAccess>;
