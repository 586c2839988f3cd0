import { faultOf } from "@muster/faults";
import { mapSecrets, type Order } from "@muster/leases";
import { makeSigner, openText, sealText } from "@muster/leases/keys";
import { expect, it } from "vitest";
import { anOrder } from "../../test/a-lease.ts";
import { orderSecrets } from "./order-secrets.ts";

const { signer: engine } = makeSigner();
const { signer: user } = makeSigner();
const secrets = orderSecrets(engine, { unsealed: false });
const plain = anOrder({ id: "1-1", user: user.userId, type: "zdb", data: '{"size":1,"password":"hush"}' });

function sealed(order: Order): Order {
  const { id, type } = order;
  const data = mapSecrets({ kind: "order", type, data: order.data }, (secret, field) =>
    sealText(user, engine.userId, String(secret), { kind: "order", id, user: order.user, field }),
  );
  return { ...order, data };
}
function reasonOf(work: () => unknown): string {
  try {
    return String(work());
  } catch (error) {
    const fault = faultOf(error);
    return fault?.code === "invalid_request" ? `${fault.field} ${fault.reason}` : String(error);
  }
}

it("opens the sealed secrets of an order, and leaves plain ones", () => {
  expect(sealed(plain).data).not.toContain("hush");
  expect(secrets.open(sealed(plain))).toEqual(plain);
  expect(secrets.open(plain)).toBe(plain);
});

it("opens nothing copied from the order of another lease or user", () => {
  for (const changes of [{ id: "1-2" }, { user: makeSigner().signer.userId }])
    expect(reasonOf(() => secrets.open({ ...sealed(plain), ...changes }))).toContain("data.password cannot be opened");
});

it("seals the kubeconfig of a result to the user of the order, and nothing of other results", () => {
  const order = anOrder({ id: "1-1", user: user.userId, type: "kubernetes" });
  const result = JSON.stringify({ namespace: "n", kubeconfig: "token" });
  const { namespace, kubeconfig } = JSON.parse(secrets.seal(order, result)) as Record<string, string>;
  expect(namespace).toBe("n");
  const place = { kind: "result", id: "1-1", user: user.userId, field: "kubeconfig" } as const;
  expect(openText(user, kubeconfig ?? "", place)).toBe("token");
  expect(secrets.seal({ ...order, type: "debug" }, result)).toBe(result);
});

it("returns no secret to a user without a key, unless plain secrets are allowed", () => {
  const order = anOrder({ user: "12", type: "kubernetes" });
  expect(reasonOf(() => secrets.seal(order, '{"kubeconfig":"token"}'))).toContain("data.kubeconfig cannot be sealed");
  expect(orderSecrets(engine, { unsealed: true }).seal(order, '{"kubeconfig":"token"}')).toBe('{"kubeconfig":"token"}');
});

it("compares two orders by their opened data, though each is sealed separately", () => {
  const other = { ...plain, id: "1-2" };
  const changed = { ...other, data: '{"size":1,"password":"other"}' };
  const pairs = [other, changed].map((each) => secrets.isSame(sealed(plain), sealed(each)));
  expect(sealed(plain).data).not.toBe(sealed(other).data);
  expect([...pairs, secrets.isSame(plain, other), secrets.isSame(plain, changed)]).toEqual([true, false, true, false]);
  // Data that cannot be opened equal nothing.
  expect(secrets.isSame(sealed(plain), { ...sealed(plain), data: sealed(other).data })).toBe(false);
});
