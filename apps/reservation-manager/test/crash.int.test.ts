import type { NatsBus } from "@muster/bus";
import { buckets, muster, streams } from "@muster/proto";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { readSnapshotRevision, writeEntries } from "./large-ledger.ts";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
  startManager,
} from "./managers.ts";
import { followNews } from "./news.ts";
import { openWire, type Wire } from "./wire.ts";

const { RESERVATION_STATE_GRANTED: GRANTED } = muster.reservation.v1.ReservationState;
/** Slightly fewer entries than trigger the next snapshot. */
const ENTRIES_BEFORE_SNAPSHOT = 980;
const APPEND = `HPUB ${streams.ledger.subjects[0]} `;

const owner = (id: string) => ({ kind: "session", id });
const request = (id: string) => ({ owner: owner(id), needs: buildNeeds("a"), wait: true });

/** A leader behind a wire, with two free machines; `kill` ends it with SIGKILL, and its unsent messages are lost. */
async function leaderOnWire(bus: NatsBus, wire: Wire) {
  const nodes = await openNodeWriter(bus);
  for (const name of ["a0", "a1"]) await nodes.put(name, "a");
  const leader = startManager(wire.server);
  await until("it leads", () => leader.leads > 0);
  await makeReservations(bus).listPools({});
  const kill = async (): Promise<void> => {
    await leader.end("SIGKILL");
    wire.drop();
  };
  return { kill };
}

/** Retries the request until it is answered, as an owner has to. */
function askFor(bus: NatsBus, id: string) {
  return retryUntilAnswered(() => makeReservations(bus).reserve(request(id), { timeoutMs: 1500 }));
}

async function stored(bus: NatsBus, stream: string): Promise<number> {
  return (await bus.streamState(stream))?.messages ?? 0;
}

/** Owner and state of every reservation. */
async function listed(bus: NatsBus): Promise<unknown[]> {
  const { reservations } = await retryUntilAnswered(() => makeReservations(bus).listReservations({}));
  return reservations.map((one) => [one.id, one.owner?.id, one.machines.map(({ node }) => node)]);
}

it("killed with a request received and nothing written: the request has no effect, and its repetition is granted once", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using wire = await openWire(server);
  const { kill } = await leaderOnWire(bus, wire);
  const before = await stored(bus, streams.ledger.name);
  const decided = wire.stopBefore(APPEND);
  const asked = askFor(bus, "x");
  await decided;
  await kill();
  expect(await stored(bus, streams.ledger.name)).toBe(before);

  await using next = startManager(server);
  expect((await asked).reservation).toMatchObject({ id: "r-1", state: GRANTED });
  expect(await listed(bus)).toEqual([["r-1", "x", ["a0"]]]);
  expect(next.errors).toEqual([]);
});

it("killed with the decision appended and not answered: the owner holds the machines, and a repetition returns the same reservation", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using wire = await openWire(server);
  const { kill } = await leaderOnWire(bus, wire);
  const before = await stored(bus, streams.ledger.name);
  const appended = wire.stopAfter(APPEND);
  const asked = askFor(bus, "x");
  await appended;
  await until("it is on disk", async () => (await stored(bus, streams.ledger.name)) === before + 1);
  await kill();

  await using next = startManager(server);
  expect((await asked).reservation).toMatchObject({ id: "r-1", state: GRANTED });
  expect((await askFor(bus, "y")).reservation).toMatchObject({ id: "r-2" });
  expect(await listed(bus)).toEqual([
    ["r-1", "x", ["a0"]],
    ["r-2", "y", ["a1"]],
  ]);
  expect(next.errors).toEqual([]);
});

it("killed with the grant on disk and its event not published: the next leader publishes the event once", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await using wire = await openWire(server);
  const { kill } = await leaderOnWire(bus, wire);
  const granted = wire.stopBefore("HPUB muster.evt.reservation.");
  const asked = askFor(bus, "x");
  await granted;
  await kill();
  expect(await stored(bus, streams.events.name)).toBe(0);

  await using news = await followNews(bus);
  await using next = startManager(server);
  expect((await asked).reservation).toMatchObject({ id: "r-1", state: GRANTED });
  await until("the grant is published", () => news.published.length > 0);
  await askFor(bus, "y");
  await until("the next grant is published", () => news.published.includes("granted r-2"));
  expect(news.published).toEqual(["granted r-1", "granted r-2"]);
  expect(next.errors).toEqual([]);
});

it("killed with the parts of a snapshot written but not its head: continues from the older one and the log, and a later snapshot replaces both", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await writeEntries(bus, ENTRIES_BEFORE_SNAPSHOT);
  await using wire = await openWire(server);
  const { kill } = await leaderOnWire(bus, wire);
  const reservations = makeReservations(bus);
  await reservations.reserve(request("kept"));
  /** Writes entries in sequence until `done`. */
  const write = async (done: () => Promise<boolean>, prefix: string): Promise<void> => {
    for (let turn = 0; !(await done()); turn += 1) {
      const { reservation } = await retryUntilAnswered(() => reservations.reserve(request(`${prefix}${turn}`)));
      const release = { owner: owner(`${prefix}${turn}`), reservationId: reservation?.id ?? "" };
      await retryUntilAnswered(() => reservations.unreserve(release));
    }
  };
  let begun = false;
  const head = wire.stopBefore(`HPUB $KV.${buckets.snapshots}.reservation `).then(() => {
    begun = true;
  });
  const writing = write(() => Promise.resolve(begun), "first");
  await head;
  expect(await readSnapshotRevision(bus)).toBe(0);
  const parts = await stored(bus, `KV_${buckets.snapshots}`);
  expect(parts).toBeGreaterThan(0);
  await kill();

  await using next = startManager(server);
  await writing;
  expect(await listed(bus)).toEqual([["r-1", "kept", ["a0"]]]);
  await write(async () => (await readSnapshotRevision(bus)) > 0, "second");
  await next.end("SIGKILL");
  await using last = startManager(server);
  expect(await listed(bus)).toEqual([["r-1", "kept", ["a0"]]]);
  expect([...next.errors, ...last.errors]).toEqual([]);
});
