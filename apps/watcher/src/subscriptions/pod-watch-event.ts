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
  /** Empty while the pod has no address. */
  readonly podIp: string;
  /** Empty while the pod is not scheduled. */
  readonly node: string;
  readonly health: Health;
  /** The reason and the message of a problem, for people; undefined without a problem. */
  readonly error: string | undefined;
  /** The stable code of the problem, for example ImagePullBackOff; empty without a problem. */
  readonly reason: string;
  /** The exit code of the main container, once it has ended. */
  readonly exitCode: number | undefined;
  /** True while the pod still exists after the API server received its deletion. */
  readonly deleting: boolean;
  /** True once the pod is removed from the API server: the final event of this uid. */
  readonly deleted: boolean;
  /** Time at which the watcher observed the state, in milliseconds since 1970 by its clock. */
  readonly observedAtMs: number;
};
