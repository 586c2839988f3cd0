import { faultOf } from "@muster/faults";
import { SEALED_PREFIX } from "@muster/leases";
import type { View } from "@muster/store";
import type { Readable } from "../lead/records.ts";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";
import type { OrderSecrets } from "../orders/order-secrets.ts";

export type UnopenedWatch = Disposable & {
  /** How many of the oldest leases of the engine, which go on, have secrets that cannot be opened with its key. */
  readonly count: () => number;
};

/** To open a secret takes 2 ms, in which nothing else is done; and of leases that are older than the key, the oldest are some. */
const MAX_CHECKED = 100;

/** Looks at the oldest leases of the engine, at once and whenever all that it has found have ended, and tells how many were found, and why one of them cannot be opened. */
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

/** What goes away is taken down without them. */
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
