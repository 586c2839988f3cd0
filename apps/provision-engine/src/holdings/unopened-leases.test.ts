import { mapSecrets } from "@muster/leases";
import { makeSigner, sealText } from "@muster/leases/keys";
import type { Entry } from "@muster/store";
import { expect, it } from "vitest";
import type { Readable } from "../lead/records.ts";
import { aLease } from "../../test/a-lease.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { orderSecrets } from "../orders/order-secrets.ts";
import { watchUnopened } from "./unopened-leases.ts";

const { signer: user } = makeSigner();
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
  return aLease({ order: { id, type, user: user.userId, engine: "main", createdNs, data }, ...changes });
}

function world(...records: readonly LeaseRecord[]) {
  const entries = new Map<string, Entry<Readable>>();
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
  const secrets = orderSecrets(now, { unsealed: false });
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
    aLease({ order: { id: "1-4", engine: "main" } }),
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
