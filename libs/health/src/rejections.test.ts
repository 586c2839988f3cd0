import { expect, it } from "vitest";
import {
  findRejection,
  isRejecting,
  listRejectingNodes,
  makeRejectionMemory,
  rememberRejections,
  type RejectedPod,
} from "./rejections.ts";

const START_MS = 1_700_000_000_000;
const MINUTE_MS = 60_000;
const PLACE = { component: "worker-0", node: "n1" };
const rejected = (uid: string, node = "n1", component = "worker-0"): RejectedPod => {
  return { uid, component, node, text: "OutOfcpu: needs 2 cpu" };
};
const remember = (pods: readonly RejectedPod[]) => rememberRejections([], pods, START_MS);

it("loses a machine to the component whose pod it rejected, for 30 seconds", () => {
  const rejections = remember([rejected("a")]);
  expect(isRejecting(rejections, PLACE, START_MS + 29_999)).toBe(true);
  expect(isRejecting(rejections, PLACE, START_MS + 30_000)).toBe(false);
  expect(isRejecting(rejections, { ...PLACE, component: "worker-1" }, START_MS)).toBe(false);
  expect(isRejecting(rejections, { ...PLACE, node: "n2" }, START_MS)).toBe(false);
  expect(isRejecting(undefined, PLACE, START_MS)).toBe(false);
});

it("counts a pod that stays once, from its first observation", () => {
  const first = remember([rejected("a")]);
  expect(rememberRejections(first, [rejected("a")], START_MS + 5000)).toEqual(first);
  const old = rememberRejections(first, [rejected("a")], START_MS + 60 * MINUTE_MS);
  expect(isRejecting(old, PLACE, START_MS + 60 * MINUTE_MS)).toBe(false);
  const again = rememberRejections(old, [rejected("a"), rejected("b")], START_MS + 60 * MINUTE_MS);
  expect(findRejection(again, "worker-0", "n1")?.untilMs).toBe(START_MS + 60 * MINUTE_MS + 30_000);
});

it("forgets the rejection of a deleted pod after ten minutes", () => {
  const first = remember([rejected("a")]);
  const forgottenAtMs = START_MS + 30_000 + 10 * MINUTE_MS;
  expect(rememberRejections(first, [], forgottenAtMs - 1)).toEqual(first);
  expect(rememberRejections(first, [], forgottenAtMs)).toEqual([]);
});

it("lists the nodes that have recently rejected pods of the components, each once", () => {
  const rejections = remember([
    rejected("a", "n2"),
    rejected("b", "n1"),
    rejected("c", "n2"),
    rejected("d", "n3", "leader-0"),
  ]);
  const isWorker = (component: string): boolean => component.startsWith("worker-");
  expect(listRejectingNodes(rejections, isWorker, START_MS)).toEqual(["n1", "n2"]);
  expect(listRejectingNodes(rejections, isWorker, START_MS + 30_000 + 10 * MINUTE_MS)).toEqual([]);
  expect(listRejectingNodes(undefined, isWorker, START_MS)).toEqual([]);
});

it("remembers rejections of each owner apart", () => {
  const rejectionsOf = makeRejectionMemory();
  expect(rejectionsOf("one", [rejected("a")], START_MS)).toHaveLength(1);
  expect(rejectionsOf("other", [], START_MS)).toEqual([]);
  expect(rejectionsOf("one", [], START_MS + 1000)).toHaveLength(1);
  expect(rejectionsOf("one", [], START_MS + 11 * MINUTE_MS)).toEqual([]);
});
