import type { Health } from "@muster/health";

/** Owner of a pod; a session is `{ kind: "session", id: <its name> }`. */
export type Owner = { readonly kind: string; readonly id: string };

/** The state of one pod. Events of one pod arrive from oldest to newest. */
export type PodWatchEvent = {
  readonly owner: Owner;
  /** Name of the pod's component (session) or replica (job). */
  readonly component: string;
  readonly pod: string;
  /** Distinguishes a pod from an earlier one of the same name. */
  readonly uid: string;
  /** Empty while it has no address. */
  readonly podIp: string;
  /** Empty while it is not scheduled. */
  readonly node: string;
  readonly health: Health;
  /** The trouble, for people: reason and message; undefined without trouble. */
  readonly error: string | undefined;
  /** The stable code of the problem, such as ImagePullBackOff; empty without one. */
  readonly reason: string;
  /** The exit code of the main container, once it has ended. */
  readonly exitCode: number | undefined;
  /** The API server was asked to delete the pod, and it still exists. */
  readonly deleting: boolean;
  /** Removed from the API server: the final event of this uid. */
  readonly deleted: boolean;
  /** When the watcher observed it, in milliseconds since 1970 by its clock. */
  readonly observedAtMs: number;
};
