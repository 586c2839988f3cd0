import type { Client } from "@muster/bus";
import type { KubeObject } from "@muster/kube";
import type { ReservationService } from "@muster/proto";
import type { LeaseRecord } from "../domain/lease.ts";
import type { DiskType } from "../domain/resource-units.ts";
import type { Place } from "./lease-names.ts";
import type { ObjectKind } from "./object-kinds.ts";
import type { LeaseNodes } from "./pods.ts";

/** A lease that something is made for. */
export type AskedLease = LeaseRecord & {
  /** Told of each thing that was not there. */
  readonly onCreated?: (what: string) => void;
  /** Told what is waited for as soon as that is known not to pass by itself in a moment; as often as it is seen. */
  readonly onWait?: (because: string) => Promise<void>;
  /** Called with each thing that was lost before the lease became active, so that its history records why it took longer. */
  readonly onLost?: (what: string) => Promise<void>;
};

/**
 * What makes one type of workload. Both are called again after whatever happened in between, by this process or another: what is there already is found and not made
 * twice, and what is not there any more is no error. They stop at the signal.
 */
export type Workload = {
  readonly type: string;
  readonly provision: ProvisionerFunc;
  readonly decommission: DecommissionerFunc;
  /** Rejects with what `provision` would fail with for good, as far as that is known without making anything. Undefined: nothing is known. */
  readonly preflight?: (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;
  /** Called now and then while the lease is active: makes again what is missing, and rejects with what is wrong, with unavailable if it cannot tell. Undefined: its result is as it was. Without it the provisioner is called. */
  readonly check?: (lease: AskedLease, signal: AbortSignal) => Promise<string | undefined>;
};

/** Resolves with JSON for the user. Rejects with pool_availability or unavailable to be called until its turn has come, with another fault that is retryable to be called some times more, with any other to have failed. */
export type ProvisionerFunc = (lease: AskedLease, signal: AbortSignal) => Promise<string>;

/** Removes what is there of this run of the lease and of earlier ones. Is called again when it rejects. */
export type DecommissionerFunc = (lease: LeaseRecord, signal: AbortSignal) => Promise<void>;

/** What workloads are made with. */
export type WorkloadParts = {
  /** Undefined: there is none, and the types that live in one are not served. */
  readonly cluster: LeaseCluster | undefined;
  readonly ledger: Ledger;
  readonly nameOf: NameOf;
  readonly nowNs: () => bigint;
  readonly newRequestId: () => string;
};

/** The ledger of machines. */
export type Ledger = Pick<
  Client<typeof ReservationService>,
  "reserve" | "checkReservation" | "listMachines" | "getReservation" | "unreserve"
>;

/** The lease that what another one has was made for first. */
export type NameOf = (lease: string) => string;

/** The Kubernetes cluster that leases live in. */
export type LeaseCluster = {
  /** Where what belongs to no network of a user lives. */
  readonly namespace: string;
  /** Where pods of containers and stores run. */
  readonly nodes: LeaseNodes;
  /** Undefined: the default class of the cluster. */
  readonly storageClasses: Readonly<Record<DiskType, string | undefined>>;
  /** Of leases of the type kubernetes. */
  readonly slices: {
    /** The ClusterRole that says what their accounts may do in their namespaces. */
    readonly role: string;
    /** Where users reach the API server; undefined: where the engine does. */
    readonly url: string | undefined;
  };
  /** Undefined: leases of the type zdb fail. */
  readonly zdb: ZdbImage | undefined;
  readonly objects: LeaseObjects;
  readonly accessOf: AccessOf;
};

/** What runs a key-value store; each engine has one. */
export type ZdbImage = {
  readonly image: string;
  /** Undefined: the image's own. */
  readonly command: readonly string[] | undefined;
  readonly port: number;
  /** What each may take, and is counted to take beside its disk. */
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Of its root file system and its log, on the disk of its node. */
  readonly diskBytes: number;
};

/** Its namespace is that of the object; apiVersion, kind and labels are added. */
export type NewObject<Object> = Object & { readonly metadata: { readonly name: string; readonly namespace?: string } };

export type Lease = Pick<LeaseRecord, "order" | "run" | "madeFor"> & Pick<AskedLease, "onCreated">;

export type Observation<Value> =
  { readonly kind: "ready"; readonly value: Value } | { readonly kind: "pending"; readonly because: string };

/**
 * Objects of Kubernetes that are a lease's. Everything rejects with FaultError: with unavailable while the API server is away or overloaded, with deadline_exceeded when
 * something took too long, with invalid_request and the server's words where it refuses.
 */
export type LeaseObjects = {
  /**
   * Makes the object for this run of the lease, or finds it made. What an earlier run has left under the name goes first, and what is going is waited for. Rejects with
   * already_exists where the name is somebody else's, and with conflict where a later run has it.
   */
  ensure<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    object: NewObject<Object>,
    signal: AbortSignal,
  ): Promise<Object>;
  /**
   * Removes what is there of the lease's run and of earlier ones, kind by kind, with what Kubernetes has made of it. Resolves once it is gone; at each look the pods of a namespace whose kind says so are given less time. Rejects with invalid_request, naming it, while something is in a
   * namespace that its kind spares.
   */
  remove(
    lease: Lease,
    from: { readonly kinds: readonly ObjectKind[]; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<void>;
  /** Undefined: there is none. */
  find<Object extends KubeObject>(
    kind: ObjectKind,
    at: { readonly name: string; readonly namespace?: string },
    signal: AbortSignal,
  ): Promise<Object | undefined>;
  /** What this run of the lease has of one kind, made by whomever. */
  list<Object extends KubeObject>(
    lease: Lease,
    kind: ObjectKind,
    namespace: string,
    signal: AbortSignal,
  ): Promise<readonly Object[]>;
  /** Looks until it is there. Rejects with deadline_exceeded, and why, when that takes long: the caller is called again. */
  untilReady<Value>(look: () => Promise<Observation<Value>>, signal: AbortSignal): Promise<Value>;
};

/** What somebody outside needs to come in as an account. */
export type ClusterAccess = {
  readonly url: string;
  /** PEM. */
  readonly ca: string | undefined;
  /** A secret: it belongs to the user, and into no log. */
  readonly token: string;
  /** As the server says, which may give less time than was asked for. */
  readonly expiresAt: string;
};

export type AccessOf = (account: Place, seconds: number, signal: AbortSignal) => Promise<ClusterAccess>;
