import { expect, it } from "vitest";
import { describePods } from "./describe-pods.ts";

const unscheduled = { type: "PodScheduled", status: "False", message: "0/3 nodes are available" };
const waiting = { state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } } };

it.each([
  [[], "there is no pod yet"],
  [[{}], "its pod is Pending"],
  [[{ status: { phase: "Running", containerStatuses: [{ state: {} }] } }], "its pod is Running"],
  [[{ status: { phase: "Pending", conditions: [unscheduled] } }], "0/3 nodes are available"],
  [[{ status: { containerStatuses: [waiting] } }], "ImagePullBackOff: no such image"],
])("says of pods %j why none is available", (pods, because) => {
  expect(describePods(pods)).toBe(because);
});
