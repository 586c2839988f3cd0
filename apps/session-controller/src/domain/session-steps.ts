import type { ForceReason } from "@muster/health";
import type { WorkerAddress } from "./build-pod.ts";
import type { ReplacementStep } from "./replace-machines.ts";
import type {
  Component,
  ComponentStatus,
  EndReason,
  SessionEvent,
  TerminalKind,
  SessionVerdict,
  SessionWarning,
} from "./session.ts";
import type { LivePod, GrantedMachine } from "./snapshot.ts";

/** Steps that only change the record. They are written together, before steps that depend on them. */
export type RecordStep =
  | {
      readonly kind: "note-components";
      readonly components: readonly ComponentStatus[];
      readonly because: "pods-changed";
    }
  | {
      readonly kind: "note-reservation";
      readonly reservationId: string;
      readonly warnings: readonly SessionWarning[];
      readonly because: "ledger-answered";
    }
  | { readonly kind: "explain-wait"; readonly text: string; readonly because: "wait-changed" }
  /** The session has not crashed the executor that took it over. */
  | { readonly kind: "confirm-quiet"; readonly because: "nothing-to-do" | "survived" }
  | {
      readonly kind: "accept";
      readonly event: SessionEvent;
      readonly machines: readonly GrantedMachine[];
      readonly because: "machines-granted";
    }
  | {
      readonly kind: "record";
      readonly event: SessionEvent;
      readonly because: "accepted" | "driver-ready" | "driver-ended";
    }
  | {
      readonly kind: "conclude";
      readonly verdict: SessionVerdict;
      readonly because: EndReason | TerminalKind | "cannot-be-run";
    }
  /** Pods that are no longer listed are gone together with their logs, as the warnings record. */
  | { readonly kind: "confirm-logs-read"; readonly warnings: readonly SessionWarning[]; readonly because: "none-left" }
  | { readonly kind: "confirm-pods-gone"; readonly because: "none-listed" }
  | {
      readonly kind: "finish";
      readonly atMs: number;
      readonly warnings: readonly SessionWarning[];
      readonly because: "cleaned-up" | "cleanup-limit";
    };

/** Steps with external effects. Each may be repeated without harm. */
export type ActStep =
  | { readonly kind: "reserve"; readonly because: "not-asked" }
  | {
      readonly kind: "create-pod";
      readonly component: Component;
      /** The pool of the node. */
      readonly pool: string;
      readonly node: string;
      /** The workers that the driver receives, in this order; empty for other components. */
      readonly workers: readonly WorkerAddress[];
      readonly because: "accepted" | "servers-ready" | "workers-ready";
    }
  | { readonly kind: "collect-logs"; readonly pods: readonly LivePod[]; readonly because: "session-over" }
  | {
      readonly kind: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      /** Deletes without waiting for the pod's node. */
      readonly force: boolean;
      readonly because: "session-over" | "leftover" | ForceReason;
    }
  /** An empty id releases the session's reservation that the ledger finds by name. */
  | { readonly kind: "release"; readonly reservationId: string; readonly because: "pods-gone" | "pods-ended" }
  | ReplacementStep;

export type SessionStep = RecordStep | ActStep;
