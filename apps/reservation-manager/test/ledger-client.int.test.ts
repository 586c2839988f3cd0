import { openLedgerClient, type LedgerClient } from "@muster/ledger-client";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
  startManager,
} from "./managers.ts";

const JOB = "job";
/** More reservations than one page of a list holds. */
const MANY = 501;
const { signal } = new AbortController();

const statesOf = (ledger: LedgerClient) =>
  new Map([...ledger.groups()].flatMap((group) => ledger.inGroup(group).map(({ ownerId, state }) => [ownerId, state])));

it("reflects the ledger by answers, events and lists, also after another replica takes the lead", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server, "job-controller");
  const nodes = await openNodeWriter(bus);
  await nodes.put("node-1", "a");
  const calls = makeReservations(bus);
  const groupOf = (ownerId: string): string => ownerId;
  await using ledger = await openLedgerClient({ bus, calls, ownerKind: JOB, groupOf });
  await using other = await openLedgerClient({ bus, calls, ownerKind: JOB, groupOf });
  const changed = new Set<string | undefined>();
  ledger.onChange((group) => changed.add(group));
  await using first = startManager(server);
  expect(ledger.isKnown()).toBe(false);
  await retryUntilAnswered(() => ledger.refresh(signal));
  expect(ledger.isKnown()).toBe(true);
  const held = await retryUntilAnswered(() => ledger.reserve("first", buildNeeds("a")));
  expect(held).toMatchObject({ state: "granted", machines: [{ component: "c0", pool: "a", node: "node-1" }] });
  expect(await retryUntilAnswered(() => ledger.reserve("second", buildNeeds("a")))).toMatchObject({
    state: "waiting",
    because: { code: "POOL_AVAILABILITY", pool: "a", requested: 1 },
  });
  // The other client learns it from events alone.
  await until("the other client has heard of the grant", () => other.get("first")?.state === "granted");
  await retryUntilAnswered(() => other.release("first", held?.id ?? ""));
  await until("the machine is the second one's", () => ledger.get("second")?.state === "granted");
  await until("the first one has ended", () => ledger.get("first") === undefined);
  expect(changed).toEqual(new Set([undefined, "first", "second"]));

  for (let at = 0; at < MANY; at += 1) await retryUntilAnswered(() => other.reserve(`many-${at}`, buildNeeds("a")));
  await using _next = startManager(server);
  await first.end("SIGKILL");
  ledger.invalidate();
  expect(ledger.isKnown()).toBe(false);
  await retryUntilAnswered(() => ledger.refresh(signal));
  expect(ledger.isKnown()).toBe(true);
  const names = Array.from({ length: MANY }, (_, at) => `many-${at}`);
  expect(statesOf(ledger)).toEqual(
    new Map([["second", "granted"], ...names.map((name) => [name, "waiting"] as const)]),
  );
  // The machines that it has instead of the requested ones.
  expect(await retryUntilAnswered(() => ledger.reserve("second", buildNeeds("a", "a")))).toMatchObject({
    state: "granted",
  });
  // A second release has no effect.
  const { id = "" } = ledger.get("many-0") ?? {};
  for (const _time of [1, 2]) await retryUntilAnswered(() => ledger.release("many-0", id));
  expect(await retryUntilAnswered(() => ledger.ask("many-0"))).toBeUndefined();
  expect(ledger.get("many-0")).toBeUndefined();
});
