import { makeBell } from "@muster/backoff";
import type { Bus } from "@muster/bus";
import { muster } from "@muster/proto";
import type { View } from "@muster/store";
import { expect, it } from "vitest";
import { makeRecord, START_MS } from "../../test/samples.ts";
import { buildDigest, type SessionDigest } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import { buildReplacementId } from "../domain/replacement-owner.ts";
import { makeFollowers } from "../followers.ts";
import type { HintReceivers } from "../sessions.ts";
import { followGrants, followViews } from "./hints.ts";

/** A view of one session that the test writes. */
function viewOf(initial: SessionRecord) {
  let value: SessionDigest = buildDigest(initial);
  let changed: (key: string) => void = () => undefined;
  const view: View<SessionDigest> = {
    get: (key) => ({ key, value, revision: 1 }),
    entries: () => [],
    revision: () => 1,
    onChange: (listener) => {
      changed = listener;
      return () => undefined;
    },
    ageMs: () => 0,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  return {
    view,
    write: (next: SessionRecord) => {
      value = buildDigest(next);
      changed(next.name);
    },
  };
}

/** The dependencies of `followViews` other than the view. */
function hinted(view: View<SessionDigest>, has: boolean, revision: number) {
  const woken: string[] = [];
  const priorities: unknown[] = [];
  const sessions = { has: () => has, isUnseenChange: (_name: string, newest: number) => newest > revision };
  const add: HintReceivers["queue"]["add"] = (name, priority) => {
    woken.push(name);
    priorities.push(priority);
  };
  const led = { queue: { add }, sessions } as unknown as HintReceivers;
  const pods = { ...view, get: () => undefined, entries: () => [], onChange: () => () => undefined };
  followViews({ followers: makeFollowers(), leftover: makeBell(), index: view, pods, led: () => led });
  return { woken, priorities };
}

it.each<[string, Partial<SessionRecord>, boolean]>([
  ["a new session", {}, true],
  ["one that waits at the ledger", { reservationId: "r-1" }, false],
  ["one that waits and is to be cancelled", { reservationId: "r-1", cancelRequested: true }, true],
  ["a finished one", { finishedAtMs: START_MS }, false],
])("schedules a pass for a session with pending work: %s", (_what, change, isWoken) => {
  const { view, write } = viewOf(makeRecord());
  const { woken } = hinted(view, false, 0);
  write(makeRecord(change));
  expect(woken).toEqual(isWoken ? [makeRecord().name] : []);
});

it("schedules no pass for the echo of its own write", () => {
  const { view, write } = viewOf(makeRecord());
  const { woken } = hinted(view, true, 1);
  write(makeRecord());
  expect(woken).toEqual([]);
});

it("lets running sessions have their passes before new ones", () => {
  const passes = [false, true].map((isRun) => {
    const { view, write } = viewOf(makeRecord());
    const { priorities } = hinted(view, isRun, 0);
    write(makeRecord());
    return priorities;
  });
  expect(passes).toEqual([["low"], ["high"]]);
});

it.each([
  ["a short name", "bench"],
  ["a name that is longer than its part of the owner id", `bench-${"a".repeat(55)}`],
])("schedules a pass for the session of a granted replacement machine: %s", async (_what, name) => {
  const record = { ...makeRecord(), name };
  const { view } = viewOf(record);
  const listed = { key: name, value: buildDigest(record), revision: 1 };
  const index = { ...view, entries: () => [listed], get: (key: string) => (key === name ? listed : undefined) };
  const woken: string[] = [];
  const led = {
    queue: { add: (added: string) => void woken.push(added) },
    sessions: { granted: (granted: string) => void woken.push(`granted ${granted}`) },
  } as unknown as HintReceivers;
  let notify: Parameters<Bus["listen"]>[1] | undefined;
  const listen: Bus["listen"] = (_subject, handler) => {
    notify = handler;
    return Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() });
  };
  await using _listening = await followGrants({ listen }, { index, led: () => led });
  const id = buildReplacementId({ name, uid: "0a1b2c3d-4e5f", components: record.components }, "driver");
  const { ReservationGranted } = muster.reservation.v1;
  const reservation = { id: "1", sequence: 1, owner: { kind: "session-part", id }, state: 2 };
  notify?.({ subject: "", payload: ReservationGranted.encode({ reservation }).finish(), headers: {} } as never);
  expect(woken).toEqual([`granted ${name}`, name]);
});
