import { BATCH_KINDS, type Owner } from "@muster/names";
import type { QueueNode } from "../ledger/queue-forest.ts";

/** Owners of other kinds do not end their work for a preemption. */
const PREEMPTIBLE_KINDS: ReadonlySet<string> = new Set(["job", ...BATCH_KINDS]);

type Work = { readonly owner: Pick<Owner, "kind">; readonly notPreemptible?: true | undefined };

/** Whether preemption can end the work: its owner supports it, and the work has not opted out where its queue permits that. */
export function isPreemptible({ owner, notPreemptible }: Work, { queue }: QueueNode): boolean {
  return PREEMPTIBLE_KINDS.has(owner.kind) && !(notPreemptible === true && queue.permitsNonPreemptible === true);
}
