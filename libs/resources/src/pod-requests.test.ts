import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computePodRequests, type RequestingPod } from "./pod-requests.ts";

const cpu = (amount: string) => ({ resources: { requests: { cpu: amount } } });

describe("the requests of a pod", () => {
  it.each<[string, RequestingPod, Record<string, number>]>([
    ["nothing", { containers: [{}] }, {}],
    ["its containers together", { containers: [cpu("1"), cpu("500m")] }, { cpu: 1500 }],
    [
      "a limit without a request",
      { containers: [{ resources: { limits: { "nvidia.com/gpu": "2" } } }] },
      { "nvidia.com/gpu": 2 },
    ],
    [
      "the request where there is a limit, too",
      { containers: [{ resources: { requests: { cpu: "1" }, limits: { cpu: "2" } } }] },
      { cpu: 1000 },
    ],
    [
      "an init container that is larger",
      { containers: [cpu("1")], initContainers: [cpu("3"), cpu("2")] },
      { cpu: 3000 },
    ],
    [
      "a sidecar beside the containers",
      { containers: [cpu("1")], initContainers: [{ restartPolicy: "Always", ...cpu("1") }] },
      { cpu: 2000 },
    ],
    [
      "an init container beside the sidecars before it, and not those after it",
      {
        containers: [],
        initContainers: [{ restartPolicy: "Always", ...cpu("1") }, cpu("2"), { restartPolicy: "Always", ...cpu("1") }],
      },
      { cpu: 3000 },
    ],
    [
      "its overhead",
      { containers: [cpu("1")], overhead: { cpu: "250m", memory: "1Mi" } },
      { cpu: 1250, memory: 2 ** 20 },
    ],
    [
      "what it requests as a whole, plus its overhead",
      { containers: [cpu("4")], initContainers: [cpu("8")], ...cpu("2"), overhead: { cpu: "100m" } },
      { cpu: 2100 },
    ],
  ])("%s", (_title, pod, amounts) => {
    expect(Object.fromEntries(computePodRequests(pod))).toEqual(amounts);
  });

  it("is the most that runs at one time while it starts and runs", () => {
    const container = fc.record({ milli: fc.nat(5000), isSidecar: fc.boolean() });
    fc.assert(
      fc.property(fc.array(fc.nat(5000), { maxLength: 4 }), fc.array(container, { maxLength: 5 }), (mains, inits) => {
        const pod = {
          containers: mains.map((milli) => cpu(`${milli}m`)),
          initContainers: inits.map(({ milli, isSidecar }) => ({
            ...cpu(`${milli}m`),
            ...(isSidecar && { restartPolicy: "Always" }),
          })),
        };
        expect(computePodRequests(pod).get("cpu") ?? 0).toBe(mostAtOnce(mains, inits));
      }),
    );
  });
});

/** Starts the containers one by one, and returns the maximum that ran together. */
function mostAtOnce(mains: readonly number[], inits: readonly { milli: number; isSidecar: boolean }[]): number {
  let sidecars = 0;
  let most = 0;
  for (const { milli, isSidecar } of inits) {
    if (isSidecar) sidecars += milli;
    most = Math.max(most, isSidecar ? sidecars : sidecars + milli);
  }
  return Math.max(
    most,
    mains.reduce((sum, milli) => sum + milli, sidecars),
  );
}
