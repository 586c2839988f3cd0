import { expect, it } from "vitest";
import { makeProvisioning, makeRecord, makeSnapshot } from "../../test/samples.ts";
import { deferNotes, isRediscovered } from "./defer-notes.ts";
import type { ComponentStatus, SessionRecord } from "./session.ts";
import type { SessionStep } from "./session-steps.ts";
import type { SessionOutcome } from "./transition-record.ts";

const YOUNG_MS = 400;
const EXPLAIN: SessionStep & SessionOutcome = {
  kind: "explain-wait",
  text: "server-0 is NOT_READY",
  because: "wait-changed",
};
const session = makeProvisioning(["server-0"]);

/** A note about this change of the server. */
function note(change: Partial<ComponentStatus>, { components }: SessionRecord = session): SessionStep {
  const changed = components.map((each) => (each.name === "server-0" ? { ...each, ...change } : each));
  return { kind: "note-components", components: changed, because: "pods-changed" };
}

it.each<[string, readonly SessionStep[]]>([
  ["a state that a pod passes through", [note({ state: "NOT_READY", message: "pulling" }), EXPLAIN]],
  ["that one of several components is ready", [note({ state: "READY", podIp: "10.0.0.1" })]],
  ["the remaining pods of a clean-up", [EXPLAIN]],
])("does not write %s while the record is young", (_title, steps) => {
  expect(deferNotes(makeSnapshot({ record: session }), steps, YOUNG_MS)).toEqual({ steps: [], notesInMs: 600 });
});

it.each<[string, Partial<ComponentStatus>]>([
  ["the end of a pod", { state: "FAILED", exitCode: 1 }],
  ["that a machine is lost", { node: "", lostAtMs: 1, state: "PENDING" }],
  ["another machine", { node: "workers-9" }],
  ["that the pod of a lost machine is gone", { podUid: "" }],
])("writes %s immediately", (_title, change) => {
  const steps = [note(change)];
  expect(deferNotes(makeSnapshot({ record: session }), steps, YOUNG_MS)).toEqual({ steps, notesInMs: undefined });
});

it("writes notes together with other changes", () => {
  const steps = [EXPLAIN, { kind: "confirm-quiet", because: "survived" } as const];
  expect(deferNotes(makeSnapshot({ record: session }), steps, YOUNG_MS)).toEqual({ steps, notesInMs: undefined });
});

it("deletes pods without a write", () => {
  const deletion = { kind: "delete-pod", pod: "p", uid: "u", force: false, because: "session-over" } as const;
  const plan = deferNotes(makeSnapshot({ record: session }), [EXPLAIN, deletion], YOUNG_MS);
  expect(plan).toEqual({ steps: [deletion], notesInMs: 600 });
});

it.each([
  ["once the record is a second old", makeSnapshot({ record: session }), 1000],
  ["of the wait for machines", makeSnapshot({ record: makeRecord() }), YOUNG_MS],
  ["of trouble", makeSnapshot({ record: session, trouble: "the API server is unavailable" }), YOUNG_MS],
])("writes a note %s", (_title, seen, unchangedMs) => {
  expect(deferNotes(seen, [EXPLAIN], unchangedMs)).toEqual({ steps: [EXPLAIN], notesInMs: undefined });
});

const CREATED: SessionOutcome = { kind: "pod-created", component: "server-0", uid: "u", node: "workers-0" };

it.each<[string, SessionRecord, SessionOutcome, boolean]>([
  ["a pod, by its name", session, CREATED, true],
  ["an explanation", session, EXPLAIN, true],
  ["the release of machines", session, { kind: "released" }, false],
  ["logs that were read", session, { kind: "logs-read", pod: "p", warnings: [], resultJson: undefined }, false],
  ["the first pod after a take-over, which proves progress", { ...session, attempts: 1 }, CREATED, false],
])("decides whether another executor finds %s", (_title, before, outcome, expected) => {
  expect(isRediscovered(before, outcome)).toBe(expected);
});
