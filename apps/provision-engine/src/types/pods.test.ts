import { expect, it } from "vitest";
import { describeUnstartable, describePods, isBlocked } from "./pods.ts";

const unscheduled = { type: "PodScheduled", status: "False", message: "0/3 nodes are available" };
const elsewhere = {
  ...unscheduled,
  message: "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
};
const waiting = { state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } } };

it.each([
  [[], "no pod exists yet"],
  [[{}], "its pod is Pending"],
  [[{ status: { phase: "Running", containerStatuses: [{ state: {} }] } }], "its pod is Running"],
  [[{ status: { phase: "Pending", conditions: [unscheduled] } }], "0/3 nodes are available"],
  [[{ status: { conditions: [elsewhere] } }], `${elsewhere.message} it runs elsewhere`],
  [[{ status: { containerStatuses: [waiting] } }], "ImagePullBackOff: no such image"],
])("explains for pods %j why none is available", (pods, because) => {
  expect(describePods(pods, "it runs elsewhere")).toBe(because);
});

it.each([
  [[], false],
  [[{}], false],
  [[{ status: { phase: "Pending", conditions: [unscheduled] } }], true],
  [[{ status: { conditions: [{ type: "PodScheduled", status: "True" }] } }], false],
  [[{ status: { containerStatuses: [{ state: { waiting: { reason: "ContainerCreating" } } }] } }], false],
  [[{ status: { containerStatuses: [waiting] } }], true],
])("knows whether the start of pods %j is blocked: %s", (pods, is) => {
  expect(isBlocked(pods)).toBe(is);
});

const unprepared = (reason: string, message: string) => ({
  status: { containerStatuses: [{ state: {} }, { state: { waiting: { reason, message } } }] },
});

it.each([
  ["CreateContainerConfigError", 'container "main" has no command: this kubelet runs processes', true],
  ["CreateContainerError", "failed to generate spec: no command specified", true],
  ["CreateContainerConfigError", 'secret "lease-1-1" not found', false],
  ["ImagePullBackOff", "no command", false],
])("reports a start that waits with %s (%s) by the field of the order if no retry can help", (reason, message, is) => {
  const hopeless = describeUnstartable([{}, unprepared(reason, message)]);
  expect(hopeless?.field).toBe(is ? "entrypoint" : undefined);
});

it("reports a start that failed without a command, while its restart waits, by the field of the order", () => {
  const terminated = { reason: "StartError", message: 'container "main" has no command' };
  const waiting = { reason: "CrashLoopBackOff", message: "back-off 10s restarting failed container=main" };
  for (const status of [{ state: { terminated } }, { state: { waiting }, lastState: { terminated } }]) {
    const pod = { status: { containerStatuses: [status] } };
    expect(describeUnstartable([pod])?.field).toBe("entrypoint");
  }
});
