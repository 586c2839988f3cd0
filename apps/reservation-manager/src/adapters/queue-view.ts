import type { muster } from "@muster/proto";
import type { View } from "@muster/store";
import type { Queue } from "../domain/ledger/queue.ts";
import { toQueue } from "./queue-messages.ts";

/** Returns the queues of the view; the same list until a queue changes. */
export function followQueues(
  view: Pick<View<muster.reservation.v1.Queue>, "entries" | "onChange">,
): Disposable & { readonly list: () => readonly Queue[] } {
  let known: readonly Queue[] | undefined;
  const stop = view.onChange(() => {
    known = undefined;
  });
  return {
    list: () => (known ??= view.entries().map(({ key, value }) => ({ ...toQueue(value), name: key }))),
    [Symbol.dispose]: stop,
  };
}
