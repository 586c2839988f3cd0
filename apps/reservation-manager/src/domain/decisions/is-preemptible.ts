import { BATCH_KINDS, type Owner } from "@muster/names";
import type { QueueNode } from "../ledger/queue-forest.ts";

/** Owners of other kinds do not give machines back when they are asked to. */
const PREEMPTIBLE_KINDS: ReadonlySet<string> = new Set(["job", ...BATCH_KINDS]);

type Work = { readonly owner: Pick<Owner, "kind">; readonly notPreemptible?: true | undefined };

/** Whether work in the queue leaves when it is asked to: its owner can, and it does not state the contrary where the queue permits that. */
export function isPreemptible({ owner, notPreemptible }: Work, { queue }: QueueNode): boolean {
  return PREEMPTIBLE_KINDS.has(owner.kind) && !(notPreemptible === true && queue.permitsNonPreemptible === true);
}
