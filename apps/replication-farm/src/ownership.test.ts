import type { Session } from "@muster/store";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeSet } from "../test/a-set.ts";
import { buildFarmAttributes } from "./farm.ts";
import { makeScan } from "./ownership.ts";

const seen = { name: "web", revision: 1, read: { record: makeSet({ name: "web" }) } };

/** A farm whose view contains the set, even if the store does not. */
function lateView(isStored: () => boolean) {
  const locked: string[] = [];
  const stop = new AbortController();
  const sessions = new Map([["ours", { id: "ours", holder: "us", about: buildFarmAttributes("") }]]);
  const session: Session = {
    id: "ours",
    signal: stop.signal,
    lost: new AbortController().signal,
    isHeld: () => true,
    lock: async (key) => {
      locked.push(key);
      await new Promise(setImmediate);
      return { key, token: locked.length };
    },
    unlock: () => Promise.resolve(),
    view: () => ({ sessions, locks: new Map() }),
    onChange: () => () => undefined,
  };
  const owned = new Set<string>();
  const passes = {
    has: (name: string) => owned.has(name),
    // A pass reads the store, and ends the ownership of a set that is gone.
    own: (name: string) => {
      if (isStored()) owned.add(name);
      return isStored() ? new Promise<void>(() => undefined) : Promise.resolve();
    },
    release: () => Promise.resolve(),
  };
  const logger = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const world = { sets: () => [seen], set: () => seen, rollouts: () => [], rollout: () => undefined };
  const scan = makeScan({ logger, world, isStored: () => Promise.resolve(isStored()) }, session, passes);
  return { scan, locked, owned };
}

it("locks no set that the store no longer has, however long the view shows it", async () => {
  const { scan, locked } = lateView(() => false);
  scan();
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  expect(locked).toEqual([]);
});

it("owns a set that the store has", async () => {
  const { scan, locked, owned } = lateView(() => true);
  scan();
  await until("it owns the set", () => owned.has("web"));
  expect(locked).toEqual(["web"]);
});
