import { findFault } from "@muster/faults";
import { mapSecrets, type Order } from "@muster/leases";
import { makeSigner, openText, sealText } from "@muster/leases/keys";
import { expect, it } from "vitest";
import type { Entry } from "@muster/store";
import { makeOrder, makeLeaseRecord } from "../../test/a-lease.ts";
import { makeOrderSecrets, watchUnopened } from "./order-secrets.ts";
import type { StoredValue } from "./records.ts";
import type { LeaseRecord } from "../domain/lease.ts";

const { signer: engine } = makeSigner();
const { signer: user } = makeSigner();
const secrets = makeOrderSecrets(engine, { unsealed: false });
const plain = makeOrder({ id: "1-1", user: user.userId, type: "zdb", data: '{"size":1,"password":"hush"}' });

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
    const fault = findFault(error);
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
  const order = makeOrder({ id: "1-1", user: user.userId, type: "kubernetes" });
  const result = JSON.stringify({ namespace: "n", kubeconfig: "token" });
  const { namespace, kubeconfig } = JSON.parse(secrets.seal(order, result)) as Record<string, string>;
  expect(namespace).toBe("n");
  const place = { kind: "result", id: "1-1", user: user.userId, field: "kubeconfig" } as const;
  expect(openText(user, kubeconfig ?? "", place)).toBe("token");
  expect(secrets.seal({ ...order, type: "debug" }, result)).toBe(result);
});

it("returns no secret to a user without a key, unless plain secrets are allowed", () => {
  const order = makeOrder({ user: "12", type: "kubernetes" });
  expect(reasonOf(() => secrets.seal(order, '{"kubeconfig":"token"}'))).toContain("data.kubeconfig cannot be sealed");
  expect(makeOrderSecrets(engine, { unsealed: true }).seal(order, '{"kubeconfig":"token"}')).toBe(
    '{"kubeconfig":"token"}',
  );
});

it("compares two orders by their opened data, though each is sealed separately", () => {
  const other = { ...plain, id: "1-2" };
  const changed = { ...other, data: '{"size":1,"password":"other"}' };
  const pairs = [other, changed].map((each) => secrets.isSame(sealed(plain), sealed(each)));
  expect(sealed(plain).data).not.toBe(sealed(other).data);
  expect([...pairs, secrets.isSame(plain, other), secrets.isSame(plain, changed)]).toEqual([true, false, true, false]);
  // Data that cannot be opened never count as equal.
  expect(secrets.isSame(sealed(plain), { ...sealed(plain), data: sealed(other).data })).toBe(false);
});

const { signer: before } = makeSigner();
const { signer: now } = makeSigner();

/** A store of one password, sealed to the key. */
function aStore(
  id: string,
  key: string,
  changes: Partial<Pick<LeaseRecord, "phase" | "attempts">> = {},
  createdNs = 1n,
): LeaseRecord {
  const type = "zdb";
  const data = mapSecrets({ kind: "order", type, data: '{"size":1,"password":"hush"}' }, (secret, field) =>
    sealText(user, key, String(secret), { kind: "order", id, user: user.userId, field }),
  );
  return makeLeaseRecord({ order: { id, type, user: user.userId, engine: "main", createdNs, data }, ...changes });
}

function world(...records: readonly LeaseRecord[]) {
  const entries = new Map<string, Entry<StoredValue>>();
  const listeners = new Set<(key: string) => void>();
  const put = (record: LeaseRecord): void => {
    const key = record.order.id;
    entries.set(key, { key, value: { record }, revision: 1 });
    for (const listener of listeners) listener(key);
  };
  records.forEach(put);
  const view = {
    entries: () => [...entries.values()],
    get: (key: string) => entries.get(key),
    onChange: (listener: (key: string) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const reported: string[] = [];
  const opened: string[] = [];
  const secrets = makeOrderSecrets(now, { unsealed: false });
  const open: typeof secrets.open = (order) => {
    opened.push(order.id);
    return secrets.open(order);
  };
  const watch = watchUnopened(view, { engine: "main", secrets: { open } }, (found, because) =>
    reported.push(`${found}: ${because}`),
  );
  return { put, reported, opened, count: watch.count };
}

it("counts ongoing leases whose secrets were sealed to another key, and reports them once", () => {
  const { put, reported, count } = world(
    aStore("1-1", before.userId),
    aStore("1-2", now.userId),
    aStore("1-3", before.userId),
  );
  expect(count()).toBe(2);
  put(aStore("1-1", before.userId, { attempts: 1 }));
  expect(reported).toEqual([expect.stringMatching(/^2: lease 1-1: data\.password: cannot be opened/)]);
});

it("does not count leases that have ended, end, have no secrets, or belong to another engine", () => {
  const other = aStore("1-1", before.userId);
  const { count } = world(
    { ...other, order: { ...other.order, engine: "other" } },
    aStore("1-2", before.userId, { phase: "DECOMMISSIONING" }),
    aStore("1-3", before.userId, { phase: "ENDED" }),
    makeLeaseRecord({ order: { id: "1-4", engine: "main" } }),
  );
  expect(count()).toBe(0);
});

it("checks the hundred oldest, and the next ones after these have ended", () => {
  const all = Array.from({ length: 150 }, (_, n) => aStore(`1-${n}`, before.userId, {}, BigInt(n)));
  const { put, reported, opened, count } = world(...all.toReversed());
  expect([count(), opened.length]).toEqual([100, 100]);
  for (const record of all.slice(0, 100)) put({ ...record, phase: "ENDED" });
  expect([count(), opened.length]).toEqual([50, 150]);
  expect(reported).toEqual([expect.stringMatching(/^100: lease 1-0: /), expect.stringMatching(/^50: lease 1-100: /)]);
});
