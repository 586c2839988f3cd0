import { makeBell } from "@muster/backoff";
import type { View } from "@muster/store";
import { expect, it } from "vitest";
import { makeRecord, START_MS } from "../../test/samples.ts";
import { buildDigest, type SessionDigest } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import { makeFollowers } from "../followers.ts";
import type { HintReceivers } from "../sessions.ts";
import { followViews } from "./hints.ts";

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
