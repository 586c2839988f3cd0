import { buildOrderBytes, MAX_DURATION_NS } from "@muster/leases";
import { digest } from "@muster/leases/keys";
import { expect, it } from "vitest";
import { makeLease } from "../../test/a-lease.ts";
import { buildLeaseDescription, buildLeaseHistory, buildLeaseTable } from "./build-lease-views.ts";
import { buildLeaseId, buildRenewal, decideLeaseCondition, LEASE_PHASES, planOrder } from "./lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import type { WaitGoal } from "./decide-wait.ts";
import type { LeaseDocument } from "./lease-document.ts";

const lease = makeLease();
const { order } = lease;
const NOW_MS = 1_700_003_600_123;
const document: LeaseDocument = {
  id: order.id,
  engine: "main",
  type: "debug",
  durationNs: order.durationNs,
  data: order.data,
  reference: undefined,
};

const plan = (wanted: LeaseDocument, found: Lease | undefined) => planOrder(wanted, order.user, found, digest);

it("sends an order again only if the same user's same order exists and has not ended", () => {
  expect(plan(document, undefined)).toEqual({ send: "new" });
  expect(plan(document, lease)).toEqual({ send: "again" });
  expect(plan(document, { ...lease, phase: "FAILED" })).toEqual({ send: "again" });
  expect(plan(document, { ...lease, phase: "ENDED" })).toMatchObject({ send: "nothing" });
  const refused = (because: string) => ({
    send: "nothing",
    because: `lease 4711-1 exists already, ${because}; an id is used once`,
  });
  expect(planOrder(document, "another", lease, digest)).toEqual(refused(`of user ${order.user}`));
  const others: readonly [Partial<LeaseDocument>, string][] = [
    [{ data: "1" }, "with other data"],
    [{ type: "zdb" }, "of type debug"],
    [{ durationNs: 1n }, "for 2h"],
    [{ engine: "two" }, "of engine main"],
    [{ reference: "1-1" }, "with no reference"],
  ];
  for (const [other, because] of others) expect(plan({ ...document, ...other }, lease)).toEqual(refused(because));
});

it("recognizes an order by its hash if the engine no longer keeps the data", () => {
  const orderHash = digest(buildOrderBytes(order));
  const compact: Lease = { ...lease, phase: "FAILED", order: { ...order, data: "" }, orderHash };
  const other = { send: "nothing", because: "lease 4711-1 exists already, with other data; an id is used once" };
  expect(plan(document, compact)).toEqual({ send: "again" });
  expect(plan(document, { ...compact, phase: "ENDED" })).toMatchObject({ send: "nothing" });
  expect(plan({ ...document, data: "1" }, compact)).toMatchObject(other);
  expect(plan({ ...document, data: "" }, compact)).toMatchObject(other);
});

it("renews from the present end, with the next sequence, and keeps an unlimited end", () => {
  expect(buildRenewal(lease, 5n)).toMatchObject({ expiresAtNs: lease.expiresAtNs + 5n, sequence: 1 });
  const { id, engine, user, signature } = order;
  const renewal = { id, engine, user, signature, expiresAtNs: lease.expiresAtNs, sequence: 8 };
  expect(buildRenewal({ ...lease, renewal }, MAX_DURATION_NS)).toMatchObject({
    expiresAtNs: order.createdNs + MAX_DURATION_NS,
    sequence: 9,
  });
});

it("builds ids from the time and random bits", () => {
  expect(buildLeaseId(5, "ffffffff-0000-4000-8000-000000000000")).toBe("5-4294967295");
});

it("waits for a reachable phase, and no longer", () => {
  const waits = (goal: WaitGoal) => LEASE_PHASES.map((phase) => decideLeaseCondition({ phase }, goal));
  expect(waits({ kind: "condition", type: "ACTIVE", isTrue: true })).toEqual([
    "open",
    "open",
    "met",
    "never",
    "never",
    "never",
  ]);
  expect(waits({ kind: "delete" })).toEqual(["open", "open", "open", "open", "met", "met"]);
});

const style = (columns: number | undefined) => ({ columns, colours: false });
const inTable = (columns: number | undefined) => ({ style: style(columns), isOfOneUser: false });

it("lists leases in a table that fits any terminal", () => {
  const waiting = makeLease({ phase: "PROVISIONING", waitingBecause: "pool workers: 2 wanted, 1 available" });
  const forever = { ...order, id: "1-1", durationNs: MAX_DURATION_NS };
  const all = [
    lease,
    waiting,
    makeLease({ order: forever, expiresAtNs: order.createdNs + MAX_DURATION_NS }),
    makeLease({ phase: "ENDED", ending: { cause: "REQUESTED", message: "", atNs: 1n } }),
    makeLease({ phase: "ENDED", ending: { cause: "CRASHED", message: "4 exits", atNs: 1n } }),
  ];
  expect(buildLeaseTable(all, NOW_MS, inTable(undefined))).toEqual([
    "LEASE   TYPE   PHASE            ENDS      AGE    USER                                         WHY",
    `4711-1  debug  ACTIVE           in 1h00m  1h00m  ${order.user}`,
    `4711-1  debug  PROVISIONING     in 1h00m  1h00m  ${order.user}  pool workers: 2 wanted, 1 available`,
    `1-1     debug  ACTIVE           never     1h00m  ${order.user}`,
    `4711-1  debug  ENDED            over      1h00m  ${order.user}  REQUESTED`,
    `4711-1  debug  ENDED (CRASHED)  over      1h00m  ${order.user}  CRASHED: 4 exits`,
  ]);
  for (const columns of [20, 40, 60, 80, 120])
    for (const line of buildLeaseTable(all, NOW_MS, inTable(columns))) expect(line.length).toBeLessThanOrEqual(columns);
});

it("describes one lease completely, with its history", () => {
  const failed = makeLease({
    phase: "FAILED",
    run: 2,
    result: {
      id: order.id,
      type: "debug",
      createdNs: 1n,
      state: "error",
      message: "failed to apply provision: no such pool",
      data: "null",
      signature: new Uint8Array(),
    },
  });
  expect(buildLeaseDescription(failed, NOW_MS)).toEqual([
    "lease    4711-1",
    "phase    FAILED",
    "why      no such pool",
    "type     debug",
    'data     {"say":"hello"}',
    "ordered  2023-11-14T22:13:20.123456789Z, for 2h",
    "ends     2023-11-15T00:13:20.123456789Z, over",
    `user     ${order.user}`,
    "engine   main",
    "begun    2 times",
    "result   error: no such pool",
    "",
    "`muster lease history 4711-1` shows what happened to it",
  ]);
  const event = { id: "4711-1.1", event: "ORDERED", message: "by api", atNs: order.createdNs, traceparent: "" };
  expect(buildLeaseHistory([event], style(undefined))).toEqual([
    "TIME                      EVENT    MESSAGE",
    "2023-11-14T22:13:20.123Z  ORDERED  by api",
  ]);
});

it("shows no sealed value, and how its user decrypts it", () => {
  const sealed = makeLease({
    order: { ...order, type: "kubernetes", data: '{"size":1}' },
    result: {
      id: order.id,
      type: "kubernetes",
      createdNs: 1n,
      state: "ok",
      message: "",
      data: '{"namespace":"n","kubeconfig":"muster-sealed-v1:AAAA"}',
      signature: new Uint8Array(),
    },
  });
  const shown = buildLeaseDescription(sealed, NOW_MS).find((line) => line.startsWith("result"));
  expect(shown).toBe(
    `result   ok: {"namespace":"n","kubeconfig":"(sealed for user ${order.user}; \`muster lease get ID --secret kubeconfig\` opens it)"}`,
  );
});

it("describes an early end with its time and the planned time", () => {
  const ending = { cause: "REQUESTED", message: "", atNs: order.createdNs + 60_000_000_000n };
  const endOf = (changes: Parameters<typeof makeLease>[0]) =>
    buildLeaseDescription(makeLease(changes), NOW_MS).find((line) => line.startsWith("ends"));
  expect(endOf({ phase: "DECOMMISSIONING", ending })).toBe(
    "ends     2023-11-14T22:14:20.123456789Z, now; without that 2023-11-15T00:13:20.123456789Z",
  );
  expect(endOf({ phase: "ENDED", ending: { ...ending, cause: "EXPIRED", atNs: lease.expiresAtNs + 1n } })).toBe(
    "ends     2023-11-15T00:13:20.123456789Z, over",
  );
  expect(endOf({ phase: "FAILED", endedAtNs: order.createdNs + 1_000_000_000n })).toBe(
    "ends     2023-11-14T22:13:21.123456789Z, over; without that 2023-11-15T00:13:20.123456789Z",
  );
});

it("accepts a phase in any letter case, and ends the wait once the lease can no longer enter it", () => {
  const goal = (type: string, is = true) => ({ kind: "condition" as const, type, isTrue: is });
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("active"))).toBe("met");
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("ACTIVE", false))).toBe("open");
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("PROVISIONING"))).toBe("never");
  expect(decideLeaseCondition({ phase: "DECOMMISSIONING" }, goal("ENDED"))).toBe("open");
});
