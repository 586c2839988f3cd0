import type { KubeCalls } from "@muster/kube";
import type { LeaseType } from "@muster/leases/data";

/** Wait for pods on slow machines. */
export const PATIENCE = { timeoutMs: 180_000, everyMs: 300 };

/** A cluster on which the tests order leases. */
export type LeaseWorld = {
  /** File of a kubeconfig with all rights. */
  readonly kubeconfig: string;
  /** Whether claims get disks and service names resolve; the embedded kubelet provides neither. */
  readonly isRealCluster: boolean;
  /** The pool of the leased machines. */
  readonly pool: string;
  /** The pool on whose nodes the pods of the slice run: a machine that they use is not granted as a whole. Undefined: on any node. */
  readonly slicePool?: string;
  /** Runs the command line: resolves with its output, rejects when the exit code is not 0. */
  readonly muster: (words: string) => Promise<string>;
};

export type Result = Readonly<Record<string, unknown>>;

/** Selects pods by namespace, and by lease. */
export type Where = { readonly namespace: string; readonly lease?: string };

/** An active lease, from the view of its user and of the cluster. */
export type ActiveLease = {
  readonly world: LeaseWorld;
  readonly id: string;
  readonly result: Result;
  /** The result of another lease of the same user. */
  readonly resultOf: (type: LeaseType) => Result;
  /** Decrypts a field of the result that is sealed to the user. */
  readonly secret: (field: string) => Promise<string>;
  /** Client with all rights. */
  readonly calls: KubeCalls;
  /** Client with the rights of a kubeconfig. */
  readonly enter: (kubeconfig: string) => Promise<KubeCalls>;
  /** The first log line of the lease's pod, parsed. */
  readonly output: () => Promise<unknown>;
  readonly outputOf: (where: Where) => Promise<unknown>;
};

/** Owners of all reservations in the ledger, as `KIND/ID`. */
export async function holders(world: LeaseWorld): Promise<readonly string[]> {
  const held = JSON.parse(await world.muster("get reservations -o json")) as readonly Record<string, string>[];
  return held.map(({ ownerKind, ownerId }) => `${ownerKind ?? ""}/${ownerId ?? ""}`);
}
