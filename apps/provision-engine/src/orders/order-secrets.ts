import { faultOf } from "@muster/faults";
import { isSealed, mapSecrets, publicKeyOf, type Order } from "@muster/leases";
import { openText, sealText, type Signer } from "@muster/leases/keys";

/** What stands sealed in records, and is open only between the call of a provisioner and its answer. */
export type OrderSecrets = {
  /** The order as its user wrote it. Throws FaultError invalid_request where something was not sealed to this engine for this lease. */
  readonly open: (order: Order) => Order;
  /** Whether both orders have the same data, whose secrets are sealed for each of them; what cannot be opened is the same as nothing. */
  readonly isSame: (a: Order, b: Order) => boolean;
  /** What a provisioner gave, with its secrets sealed to the user of the order. Throws FaultError invalid_request where he has no key to seal to. */
  readonly seal: (order: Pick<Order, "id" | "user" | "type">, result: string) => string;
};

/** `unsealed`: what cannot be sealed is told as it is. */
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
