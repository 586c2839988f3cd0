import { expect, it } from "vitest";
import type { PublishStep } from "./plan-publish.ts";
import type { PodState } from "./pod-state.ts";
import { MAX_POSTPONE_MS, postponeShortLivedStates } from "./postpone-short-lived.ts";

const NOW = 1_000_000;
const KEY = "session.s.p";

const pending: PodState = {
  owner: { kind: "session", id: "s" },
  component: "server",
  namespace: "ns",
  pod: "p",
  uid: "u",
  resourceVersion: 10,
  podIp: "",
  node: "",
  health: "NOT_READY",
  reason: "Pending",
  message: "",
  deleting: false,
  deleted: false,
  exitCode: undefined,
  observedAtMs: NOW - 100,
};
const bound: PodState = { ...pending, node: "n" };
const starting: PodState = { ...bound, health: "UNKNOWN", reason: "ContainerCreating" };
const ready: PodState = { ...bound, podIp: "10.0.0.1", health: "READY", reason: "" };
const ending: PodState = { ...ready, health: "FAILED", reason: "Deleted", deleting: true };

type Because = Extract<PublishStep<PodState>, { kind: "put" }>["because"];

/** Returns the time until which the write of this state waits; undefined: it does not wait. */
function waitsUntilMs(
  state: PodState,
  { before, createdAtMs = NOW - 100, because = before === undefined ? "new" : "changed" }: Options = {},
): number | undefined {
  const step = { kind: "put", key: KEY, state, expectedRevision: undefined, because } as const;
  const published = before === undefined ? [] : [{ key: KEY, state: before, revision: 1 }];
  const seen = { nowMs: NOW, desired: [{ key: KEY, state, createdAtMs }], published };
  const { due, postponed } = postponeShortLivedStates([step], seen);
  expect(due).toEqual(postponed.length === 0 ? [step] : []);
  return postponed.at(0)?.untilMs;
}

type Options = { readonly before?: PodState; readonly createdAtMs?: number; readonly because?: Because };

it.each<[string, PodState, PodState | undefined]>([
  ["a new pod that has no node", pending, undefined],
  ["a new pod that starts", starting, undefined],
  ["a pod that gets its node", bound, pending],
  ["a pod whose image is pulled", starting, pending],
  ["the exit code of a pod that is being deleted", { ...ending, exitCode: 137 }, ending],
  ["another message of the same reason", { ...bound, message: "0/3 nodes are available" }, bound],
])("postpones %s until a second after the state before", (_what, state, before) => {
  expect(waitsUntilMs(state, before && { before })).toBe(NOW - 100 + MAX_POSTPONE_MS);
});

it.each<[string, PodState, PodState | undefined]>([
  ["a new pod that is ready", ready, undefined],
  ["a new pod that has failed", { ...bound, health: "FAILED", reason: "Evicted" }, undefined],
  ["a new pod that is being deleted", { ...bound, deleting: true }, undefined],
  ["a pod that becomes ready", ready, pending],
  ["a ready pod without an address of its own", { ...ready, podIp: "" }, pending],
  ["a pod that gets its address", { ...bound, podIp: "10.0.0.1" }, bound],
  ["a pod that is no longer ready", { ...ready, health: "NOT_READY", reason: "ProbeFailing" }, ready],
  ["a pod that has another reason", { ...ending, reason: "DeletionByTaintManager" }, ending],
  ["a pod whose deletion begins", ending, ready],
  ["a pending pod whose deletion begins", { ...pending, deleting: true }, pending],
  ["an end that is published without its exit code", { ...ready, health: "SUCCEEDED", exitCode: 0 }, ready],
])("does not postpone %s", (_what, state, before) => {
  expect(waitsUntilMs(state, before && { before })).toBeUndefined();
});

it("does not postpone an end, another pod of the same name, or the removal of a state", () => {
  expect(waitsUntilMs(pending, { because: "gone" })).toBeUndefined();
  expect(waitsUntilMs(pending, { before: { ...pending, uid: "other" }, because: "replaced" })).toBeUndefined();
  const forget = { kind: "forget", key: KEY, expectedRevision: 1, because: "kept-long-enough" } as const;
  const published = [{ key: KEY, state: pending, revision: 1 }];
  expect(postponeShortLivedStates([forget], { nowMs: NOW, desired: [], published })).toEqual({
    due: [forget],
    postponed: [],
  });
});

it("postpones at most a second, and not by a clock that is ahead", () => {
  expect(waitsUntilMs(pending, { createdAtMs: NOW - MAX_POSTPONE_MS })).toBeUndefined();
  expect(waitsUntilMs(pending, { createdAtMs: NOW - MAX_POSTPONE_MS + 1 })).toBe(NOW + 1);
  expect(waitsUntilMs(pending, { createdAtMs: NOW + 1 })).toBeUndefined();
  expect(waitsUntilMs(bound, { before: { ...pending, observedAtMs: NOW - MAX_POSTPONE_MS } })).toBeUndefined();
  expect(waitsUntilMs(bound, { before: { ...pending, observedAtMs: NOW + 1 } })).toBeUndefined();
});
