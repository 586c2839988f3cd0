import { faultOf } from "@muster/faults";
import { isSealed, mapSecrets, publicKeyOf, type Order } from "@muster/leases";
import { openText, sealText, type Signer } from "@muster/leases/keys";

/** Secrets stay sealed in records, and are open only during the call of a provisioner. */
export type OrderSecrets = {
  /** The order with its secrets opened. Throws FaultError invalid_request if a secret was not sealed to this engine for this lease. */
  readonly open: (order: Order) => Order;
  /** Whether both orders have equal data, although their secrets are sealed separately. Data that cannot be opened equal nothing. */
  readonly isSame: (a: Order, b: Order) => boolean;
  /** The result of a provisioner with its secrets sealed to the user. Throws FaultError invalid_request if the user id is not a key. */
  readonly seal: (order: Pick<Order, "id" | "user" | "type">, result: string) => string;
};

/** With `unsealed`, results for users without a key stay plain. */
export function orderSecrets(signer: Signer, { unsealed }: { readonly unsealed: boolean }): OrderSecrets {
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
        if (faultOf(error) === undefined) throw error;
        return false;
      }
    },
    seal: ({ id, user, type }, result) => {
      if (unsealed && publicKeyOf(user) === undefined) return result;
      return mapSecrets({ kind: "result", type, data: result }, (secret, field) =>
        typeof secret === "string" ? sealText(signer, user, secret, { kind: "result", id, user, field }) : secret,
      );
    },
  };
}
