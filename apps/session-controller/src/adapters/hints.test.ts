import { makeBell } from "@muster/backoff";
import type { View } from "@muster/store";
import { expect, it } from "vitest";
import { silent } from "../../test/fake-world.ts";
import { record, START_MS } from "../../test/samples.ts";
import { digestOf, type SessionDigest } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import { createWakeups } from "../wakeups.ts";
import { followViews } from "./hints.ts";

/** A view of one session that is written by hand. */
function viewOf(initial: SessionRecord) {
  let value: SessionDigest = digestOf(initial);
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
      value = digestOf(next);
      changed(next.name);
    },
  };
}

it("forgets the failures of a session that another replica has finished", () => {
  const { view, write } = viewOf(record());
  const failures = new Map([[record().uid, 2]]);
  followViews({
    logger: silent,
    wakeups: createWakeups(),
    leftover: makeBell(),
    index: view,
    pods: { ...view, get: () => undefined, entries: () => [], onChange: () => () => undefined },
    failures,
    load: () => Promise.reject(new Error("not asked for")),
    enqueue: () => Promise.reject(new Error("not asked for")),
  });
  write(record({ epoch: 2 }));
  expect(failures.size).toBe(1);
  write(record({ epoch: 2, finishedAtMs: START_MS }));
  expect(failures.size).toBe(0);
});
