import { expect, it } from "vitest";
import { makeComponent, makeRecord, makeRunning, makeSpec, START_MS } from "../../test/samples.ts";
import type { ComponentState } from "./session.ts";
import { transitionRecord, transitionTakeOver, type SessionOutcome } from "./transition-record.ts";

it.each<[ComponentState, ComponentState]>([
  ["READY", "STOPPED"],
  ["SUCCEEDED", "SUCCEEDED"],
  ["FAILED", "FAILED"],
  ["NOT_READY", "NOT_READY"],
  ["PENDING", "PENDING"],
])("lists a component that was %s as %s once the pods are gone", (before, after) => {
  const ran = makeRunning();
  const components = ran.components.map((each) => ({ ...each, state: before }));
  const next = transitionRecord({ ...ran, components }, { kind: "confirm-pods-gone", because: "none-listed" });
  expect(new Set(next.components.map(({ state }) => state))).toEqual(new Set([after]));
});

it("orders events by time, also if the clock of the next executor is behind", () => {
  const ranAtMs = makeRunning().events.at(-1)?.atMs ?? 0;
  const atMs = START_MS - 5000;
  const verdict = { kind: "DONE", atMs, description: "well", reason: "" } as const;
  const ended = [
    { kind: "conclude", verdict, because: "DONE" } as const,
    { kind: "finish", atMs, warnings: [], because: "cleaned-up" } as const,
  ].reduce(transitionRecord, makeRunning());
  expect(ended.events.at(-1)).toMatchObject({ kind: "DONE", atMs: ranAtMs });
  expect(ended.finishedAtMs).toBe(ranAtMs);
});

it("takes the pool and the machine of each component from the grant", () => {
  const any = makeComponent("driver", "driver", { pool: "h100", otherPools: ["a100"] });
  const waiting = makeRecord({}, makeSpec({ components: [any] }));
  expect(waiting.components).toMatchObject([{ pool: "h100", node: "" }]);
  const event = { kind: "ACCEPT", atMs: START_MS, description: "", reason: "" } as const;
  const machines = [{ component: "driver", pool: "a100", node: "a100-0" }];
  const accepted = transitionRecord(waiting, { kind: "accept", event, machines, because: "machines-granted" });
  expect(accepted.components).toMatchObject([{ pool: "a100", node: "a100-0" }]);
});

it.each<[string, SessionOutcome, number]>([
  ["counts when it has only explained a wait", { kind: "explain-wait", text: "away", because: "wait-changed" }, 2],
  ["does not count when it handed the session back", { kind: "hand-back" }, 1],
  [
    "clears the count when it got further",
    { kind: "note-reservation", reservationId: "r-2", warnings: [], because: "ledger-answered" },
    0,
  ],
  [
    "clears the count when it outlived everything there was to do",
    { kind: "confirm-quiet", because: "nothing-to-do" },
    0,
  ],
])("an executor %s", (_title, outcome, attempts) => {
  const taken = transitionTakeOver(makeRunning({ attempts: 1 }), { token: 2, executor: "another" });
  expect(taken.attempts).toBe(2);
  expect(transitionRecord(taken, outcome).attempts).toBe(attempts);
});
