import { faultOf } from "@muster/faults";
import { SEALED_PREFIX } from "@muster/leases";
import type { View } from "@muster/store";
import type { Readable } from "../lead/records.ts";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";
import type { OrderSecrets } from "../orders/order-secrets.ts";

export type UnopenedWatch = Disposable & {
  /** Number of the oldest ongoing leases of the engine with secrets that its key cannot open. */
  readonly count: () => number;
};

/** Opening a secret blocks the event loop for 2 ms. If the key was replaced, the oldest leases are affected, so checking those suffices. */
const MAX_CHECKED = 100;

/** Checks the oldest leases of the engine now, and again after all found ones have ended. Reports their number and one reason. */
export function watchUnopened(
  view: Pick<View<Readable>, "get" | "entries" | "onChange">,
  { engine, secrets }: { readonly engine: string; readonly secrets: Pick<OrderSecrets, "open"> },
  report: (found: number, because: string) => void,
): UnopenedWatch {
  let unopened: ReadonlySet<string> = new Set();
  const concerned = (value: Readable | undefined): LeaseRecord[] =>
    value !== undefined && "record" in value && value.record.order.engine === engine && needsSecrets(value.record)
      ? [value.record]
      : [];
  const check = (): void => {
    const oldest = view
      .entries()
      .flatMap(({ value }) => concerned(value))
      .sort((a, b) => Number(a.order.createdNs - b.order.createdNs))
      .slice(0, MAX_CHECKED);
    const found = oldest.flatMap(({ order }) => {
      const because = whyNot(order, secrets);
      return because === "" ? [] : [{ id: order.id, because }];
    });
    unopened = new Set(found.map(({ id }) => id));
    if (found[0] !== undefined) report(found.length, `lease ${found[0].id}: ${found[0].because}`);
  };
  check();
  const stop = view.onChange((id) => {
    if (!unopened.has(id) || concerned(view.get(id)?.value).length > 0) return;
    unopened = new Set([...unopened].filter((each) => each !== id));
    if (unopened.size === 0) check();
  });
  return { count: () => unopened.size, [Symbol.dispose]: stop };
}

/** Ending leases are removed without their secrets. */
function needsSecrets(record: Pick<LeaseRecord, "phase" | "order">): boolean {
  return isOngoing(record) && record.order.data.includes(SEALED_PREFIX);
}

function whyNot(order: LeaseRecord["order"], secrets: Pick<OrderSecrets, "open">): string {
  try {
    secrets.open(order);
    return "";
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
    return error instanceof Error ? error.message : String(error);
  }
}
