import { findFault } from "@muster/faults";
import { isSealed, mapSecrets, parsePublicKey, type Order, SEALED_PREFIX } from "@muster/leases";
import { openText, sealText, type Signer } from "@muster/leases/keys";
import type { View } from "@muster/store";
import type { StoredValue } from "./records.ts";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";

/** Secrets stay sealed in records, and are open only during the call of a provisioner. */
export type OrderSecrets = {
  /** The order with its secrets opened. Throws FaultError invalid_request if a secret was not sealed to this engine for this lease. */
  readonly open: (order: Order) => Order;
  /** Whether both orders have equal data, although their secrets are sealed separately. False for data that cannot be opened. */
  readonly isSame: (a: Order, b: Order) => boolean;
  /** The result of a provisioner with its secrets sealed to the user. Throws FaultError invalid_request if the user id is not a key. */
  readonly seal: (order: Pick<Order, "id" | "user" | "type">, result: string) => string;
};

/** With `unsealed`, results for users without a key stay plain. */
export function makeOrderSecrets(signer: Signer, { unsealed }: { readonly unsealed: boolean }): OrderSecrets {
  const open = (order: Order): Order => {
    const { id, user, type } = order;
    const data = mapSecrets({ kind: "order", type, data: order.data }, (secret, field) =>
      isSealed(secret) ? openText(signer, secret, { kind: "order", id, user, field }) : secret,
    );
    return data === order.data ? order : { ...order, data };
  };
  return {
    open,
    isSame: (a, b) => {
      if (a.data === b.data) return true;
      try {
        const [left, right] = [open(a), open(b)];
        return left !== a && right !== b && left.data === right.data;
      } catch (error) {
        if (findFault(error) === undefined) throw error;
        return false;
      }
    },
    seal: ({ id, user, type }, result) => {
      if (unsealed && parsePublicKey(user) === undefined) return result;
      return mapSecrets({ kind: "result", type, data: result }, (secret, field) =>
        typeof secret === "string" ? sealText(signer, user, secret, { kind: "result", id, user, field }) : secret,
      );
    },
  };
}

type UnopenedWatch = Disposable & {
  /** Number of the oldest ongoing leases of the engine with secrets that its key cannot open. */
  readonly count: () => number;
};

/**
 * Limits the check, because opening a secret blocks the event loop for 2 ms. If the key was replaced, the oldest leases are affected, so checking them
 * suffices.
 */
const MAX_CHECKED = 100;

/** Checks the oldest leases of the engine now, and again after all found leases have ended. Reports their number and one reason. */
export function watchUnopened(
  view: Pick<View<StoredValue>, "get" | "entries" | "onChange">,
  { engine, secrets }: { readonly engine: string; readonly secrets: Pick<OrderSecrets, "open"> },
  report: (found: number, because: string) => void,
): UnopenedWatch {
  let unopened: ReadonlySet<string> = new Set();
  const concerned = (value: StoredValue | undefined): LeaseRecord[] =>
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
    if (findFault(error) === undefined) throw error;
    return error instanceof Error ? error.message : String(error);
  }
}
