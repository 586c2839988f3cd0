import type { Health } from "@muster/health";

/** Whose a pod is; a session is `{ kind: "session", id: <its name> }`. */
export type Owner = { readonly kind: string; readonly id: string };

/** The state of one pod. Events of one pod arrive from oldest to newest. */
export type PodWatchEvent = {
  readonly owner: Owner;
  /** Name of the component (session) or replica (job) that the pod is. */
  readonly component: string;
  readonly pod: string;
  /** Distinguishes a pod from an earlier one of the same name. */
  readonly uid: string;
  /** Empty while it has none. */
  readonly podIp: string;
  /** Empty while it is on none. */
  readonly node: string;
  readonly health: Health;
  /** The trouble, for people: reason and message; undefined when there is none. */
  readonly error: string | undefined;
  /** The stable word in it, such as ImagePullBackOff; empty without a reason. */
  readonly reason: string;
  /** The exit code of the main container, once it has ended. */
  readonly exitCode: number | undefined;
  /** The API server was asked to delete the pod, and it still exists. */
  readonly deleting: boolean;
  /** Gone from the API server: the last word about this uid. */
  readonly deleted: boolean;
  /** When the watcher saw it, milliseconds since 1970 by its clock. */
  readonly observedAtMs: number;
};
