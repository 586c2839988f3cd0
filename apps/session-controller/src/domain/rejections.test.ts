import { expect, it } from "vitest";
import { makePodSeen, makeProvisioning } from "../../test/samples.ts";
import { listRejectedPods } from "./rejections.ts";
import type { PodSeen } from "./summarise-components.ts";

const RECORD = makeProvisioning(["server-0"]);
const UNSTARTED = { health: "FAILED", podIp: "", node: "n1", exitCode: undefined } as const;
const rejected = (more: Partial<PodSeen> = {}) =>
  makePodSeen("server-0", { ...UNSTARTED, reason: "OutOfcpu", message: "needs 2 cpu", ...more });

it.each<[title: string, pod: PodSeen, text: string | undefined]>([
  ["that its node rejected", rejected(), "OutOfcpu: needs 2 cpu"],
  ["that its node rejected without a message", rejected({ message: "" }), "OutOfcpu"],
  ["of another component or session", rejected({ uid: "other" }), undefined],
  ["that failed for another reason", rejected({ reason: "Evicted" }), undefined],
  ["that had an address", rejected({ podIp: "10.0.0.1" }), undefined],
  ["that ran", rejected({ exitCode: 1 }), undefined],
  ["that has not failed", rejected({ health: "NOT_READY" }), undefined],
])("looks for a pod %s", (_, pod, text) => {
  const expected = { uid: pod.uid, component: "server-0", node: "n1", text };
  expect(listRejectedPods(RECORD, [pod])).toEqual(text === undefined ? [] : [expected]);
});
