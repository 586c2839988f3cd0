import { expect, it } from "vitest";
import type { PodState, WatchedPod } from "../domain/pod-state.ts";
import { buildPodState } from "../domain/pod-state.ts";
import { makeRemovedPods } from "./removed-pods.ts";

function pod(name: string, part: Partial<WatchedPod> = {}): WatchedPod {
  return {
    owner: { kind: "session", id: "s" },
    component: "c",
    namespace: "ns",
    name,
    uid: `uid-${name}`,
    resourceVersion: 10,
    createdAtMs: 0,
    podIp: "",
    node: "",
    deleting: false,
    exclusive: true,
    finished: false,
    requests: new Map(),
    mainContainer: undefined,
    facts: { spec: { containers: [{ name: "main" }] } },
    ...part,
  };
}

function published(of: WatchedPod, part: Partial<PodState>): PodState {
  return { ...buildPodState(of, { startGraceMs: 0, nodeGraceMs: 0, nowMs: 0, nodeGoneMs: undefined }).state, ...part };
}

const names = (removed: ReturnType<typeof makeRemovedPods>): string[] =>
  removed.keys().flatMap((key) => removed.unpublished(key, undefined).map((each) => each.pod.uid));

it("keeps at most so many pods, and returns the dropped one: the one that was removed first", () => {
  const dropped: string[] = [];
  const removed = makeRemovedPods({ now: () => 1, limit: 2, onDropped: (each) => dropped.push(each.pod.name) });
  for (const name of ["a", "b", "c", "d"]) removed.change(pod(name), undefined);
  expect(dropped).toEqual(["a", "b"]);
  expect(names(removed)).toEqual(["uid-c", "uid-d"]);
});

it("keeps only pods of its namespace, if it has one", () => {
  const removed = makeRemovedPods({ now: () => 1, namespace: "ns" });
  removed.change(pod("a", { namespace: "other" }), undefined);
  removed.change(pod("b"), undefined);
  expect(names(removed)).toEqual(["uid-b"]);
});

it("no longer counts pods with a published end", () => {
  const dropped: string[] = [];
  const removed = makeRemovedPods({ now: () => 1, limit: 1, onDropped: (each) => dropped.push(each.pod.name) });
  removed.change(pod("a"), undefined);
  removed.unpublished("session.s.a", published(pod("a"), {}));
  expect(names(removed)).toEqual(["uid-a"]);
  removed.unpublished("session.s.a", published(pod("a"), { deleted: true }));
  expect(names(removed)).toEqual([]);
  removed.change(pod("b"), undefined);
  expect(dropped).toEqual([]);
});

it("separates two pods of one name, and forgets one that exists after all", () => {
  const removed = makeRemovedPods({ now: () => 1 });
  removed.change(pod("a", { uid: "u1" }), undefined);
  removed.change(pod("a", { uid: "u2" }), pod("a", { uid: "u3" }));
  removed.change(pod("a", { uid: "u3" }), pod("a", { uid: "u3", podIp: "10.0.0.1" }));
  expect(names(removed)).toEqual(["u1", "u2"]);
  removed.change(undefined, pod("a", { uid: "u1" }));
  expect(names(removed)).toEqual(["u2"]);
});
