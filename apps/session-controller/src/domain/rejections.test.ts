import { expect, it } from "vitest";
import { makePodSeen, makeProvisioning, START_MS } from "../../test/samples.ts";
import { findRejection, rememberRejections } from "./rejections.ts";
import type { PodSeen } from "./summarise-components.ts";

const RECORD = makeProvisioning(["server-0"]);
const UNSTARTED = { health: "FAILED", podIp: "", node: "n1", exitCode: undefined } as const;
const rejected = (more: Partial<PodSeen> = {}) =>
  makePodSeen("server-0", { ...UNSTARTED, reason: "OutOfcpu", message: "needs 2 cpu", ...more });
const REJECTION = { component: "server-0", node: "n1", text: "OutOfcpu: needs 2 cpu", untilMs: START_MS + 30_000 };

it.each<[title: string, pod: PodSeen, isFound: boolean]>([
  ["that its node rejected", rejected(), true],
  ["that its node rejected without a message", rejected({ message: "" }), true],
  ["of another component or session", rejected({ uid: "other" }), false],
  ["that failed for another reason", rejected({ reason: "Evicted" }), false],
  ["that had an address", rejected({ podIp: "10.0.0.1" }), false],
  ["that ran", rejected({ exitCode: 1 }), false],
  ["that has not failed", rejected({ health: "NOT_READY" }), false],
])("looks for a pod %s", (_, pod, isFound) => {
  const found = rememberRejections([], RECORD, [pod], START_MS);
  expect(findRejection(found, "server-0", "n1") !== undefined).toBe(isFound);
});

it("counts from the last moment at which the pod existed, and forgets after ten minutes", () => {
  const first = rememberRejections([], RECORD, [rejected()], START_MS);
  expect(first).toEqual([REJECTION]);
  const again = rememberRejections(first, RECORD, [rejected()], START_MS + 5000);
  expect(again).toEqual([{ ...REJECTION, untilMs: START_MS + 35_000 }]);
  expect(rememberRejections(first, RECORD, [], START_MS + 629_999)).toEqual(first);
  expect(rememberRejections(first, RECORD, [], START_MS + 630_000)).toEqual([]);
});

it("remembers each machine of a component", () => {
  const first = rememberRejections([], RECORD, [rejected()], START_MS);
  const both = rememberRejections(first, RECORD, [rejected({ node: "n2" })], START_MS);
  expect(both.map(({ node }) => node)).toEqual(["n1", "n2"]);
  expect(findRejection(both, "driver", "n1")).toBeUndefined();
});
