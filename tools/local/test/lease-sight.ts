import type { KubeCalls } from "@muster/kube";
import type { LeaseType } from "@muster/leases/data";

/** For what pods do on machines that are slow. */
export const PATIENCE = { timeoutMs: 180_000, everyMs: 300 };

/** Where leases are tried. */
export type LeaseWorld = {
  /** File, with all rights. */
  readonly kubeconfig: string;
  /** Whether claims get disks there, and pods are reached by names of services: what the embedded kubelet does not give. */
  readonly isWhole: boolean;
  /** Whose machines are leased. */
  readonly pool: string;
  /** The command line: resolves with what it printed, rejects where it does not end with 0. */
  readonly muster: (words: string) => Promise<string>;
};

export type Result = Readonly<Record<string, unknown>>;

/** Pods, by where they are or whose. */
export type Where = { readonly namespace: string; readonly lease?: string };

/** One lease that is active, as its user and as the cluster sees it. */
export type LeaseSight = {
  readonly world: LeaseWorld;
  readonly id: string;
  readonly result: Result;
  /** Of another lease of the same user. */
  readonly resultOf: (type: LeaseType) => Result;
  /** A field of the result that is sealed to the user. */
  readonly secret: (field: string) => Promise<string>;
  /** With all rights. */
  readonly calls: KubeCalls;
  /** With those of a kubeconfig. */
  readonly enter: (kubeconfig: string) => Promise<KubeCalls>;
  /** What the pod of the lease has told first. */
  readonly said: () => Promise<unknown>;
  readonly saidBy: (where: Where) => Promise<unknown>;
};

/** Of what is held in the ledger, as `KIND/ID`. */
export async function holders(world: LeaseWorld): Promise<readonly string[]> {
  const held = JSON.parse(await world.muster("get reservations -o json")) as readonly Record<string, string>[];
  return held.map(({ ownerKind, ownerId }) => `${ownerKind ?? ""}/${ownerId ?? ""}`);
}
