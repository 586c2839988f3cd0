import { assertNever } from "@muster/faults";
import type { MemberObject } from "../domain/ownership.ts";
import {
  planMemberChange,
  type GetCachedJob,
  type MemberChange,
  type OwningKind,
} from "../domain/plan-member-change.ts";
import type { Expectations } from "./expectations.ts";

type ChangeDeps = {
  readonly kind: OwningKind;
  readonly jobOf: GetCachedJob;
  readonly expectations: Pick<Expectations, "creationObserved" | "deletionObserved">;
  /** Adds the job's `namespace/name` to the work queue, immediately and without limit. */
  readonly enqueue: (job: string) => void;
};

/** Wakes jobs and meets expectations as `planMemberChange` states. Never throws, and may be called twice. `keyOf` returns the key of expectations. */
export function recordMemberChange(
  { kind, jobOf, expectations, enqueue }: ChangeDeps,
  keyOf: (jobUid: string, replicaType: string) => string,
  change: MemberChange<MemberObject>,
): void {
  for (const step of planMemberChange(change, kind, jobOf)) {
    switch (step.kind) {
      case "wake":
        enqueue(step.job);
        break;
      case "creation-observed":
        expectations.creationObserved(keyOf(step.set.jobUid, step.set.replicaType), step.name);
        break;
      case "deletion-observed":
        expectations.deletionObserved(step.uid);
        break;
      default:
        assertNever(step);
    }
  }
}
