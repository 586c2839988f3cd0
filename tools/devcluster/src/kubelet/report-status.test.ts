import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { includes, makeStatusReporter } from "./report-status.ts";

describe("makeStatusReporter", () => {
  it("writes once, and not again while the cache lags behind", async () => {
    const server = makeServer();
    const report = makeStatusReporter(server);
    const cached = server.stored();
    await report(cached, () => ({ phase: "Running" }));
    await report(cached, () => ({ phase: "Running" }));
    expect(server.writes).toEqual(["Running"]);
  });

  it("repairs a status that another client has overwritten", async () => {
    const server = makeServer();
    const report = makeStatusReporter(server);
    await report(server.stored(), () => ({ phase: "Running" }));
    server.change("Pending");
    await report(server.stored(), () => ({ phase: "Running" }));
    expect(server.writes).toEqual(["Running", "Running"]);
  });

  it("reads the pod after a conflict and builds its status from the newer one", async () => {
    const server = makeServer();
    const report = makeStatusReporter(server);
    const cached = server.stored();
    server.change("Unknown");
    const seen: (string | undefined)[] = [];
    await report(cached, (pod) => {
      seen.push(pod.status?.phase);
      return { phase: "Running" };
    });
    expect(seen).toEqual([undefined, "Unknown"]);
    expect(server.writes).toEqual(["Running"]);
  });

  it("stops without an error if the pod is gone, and with an error if conflicts persist", async () => {
    const server = makeServer();
    const cached = server.stored();
    server.change("Unknown");
    const readPod = (): Promise<undefined> => Promise.resolve(undefined);
    await makeStatusReporter({ ...server, readPod })(cached, () => ({ phase: "Running" }));
    expect(server.writes).toEqual([]);
    const stale = (): Promise<V1Pod> => Promise.resolve(cached);
    await expect(
      makeStatusReporter({ ...server, readPod: stale })(cached, () => ({ phase: "Running" })),
    ).rejects.toMatchObject({ code: 409 });
  });
});

describe("includes", () => {
  it.each<[unknown, unknown, boolean]>([
    [{ a: 1, b: 2 }, { a: 1 }, true],
    [{ a: 1 }, { a: 1, b: undefined }, true],
    [{ a: 1 }, { a: 2 }, false],
    [undefined, { a: 1 }, false],
    [undefined, {}, true],
    [[1, 2], [1], false],
    [undefined, [], true],
    ["2026-01-01T00:00:01Z", new Date("2026-01-01T00:00:01.900Z"), true],
    ["2026-01-01T00:00:02Z", new Date("2026-01-01T00:00:01.900Z"), false],
    [new Date("2026-01-01T00:00:01Z"), "2026-01-01T00:00:01Z", true],
  ])("%j has all of %j: %s", (actual, wanted, expected) => {
    expect(includes(actual, wanted)).toBe(expected);
  });
});

/** One pod with resource versions and conflicts, as the API server keeps it. */
function makeServer(): {
  writes: (string | undefined)[];
  stored: () => V1Pod;
  change: (phase: string) => void;
  readPod: () => Promise<V1Pod>;
  saveStatus: (pod: V1Pod) => Promise<V1Pod>;
} {
  const writes: (string | undefined)[] = [];
  let version = 1;
  let status: V1Pod["status"];
  const stored = (): V1Pod => ({
    metadata: { resourceVersion: String(version) },
    ...(status === undefined ? {} : { status }),
  });
  return {
    writes,
    stored,
    change: (phase) => {
      version += 1;
      status = { phase };
    },
    readPod: () => Promise.resolve(stored()),
    saveStatus: (pod) => {
      if (pod.metadata?.resourceVersion !== String(version)) {
        return Promise.reject(Object.assign(new Error("conflict"), { code: 409 }));
      }
      writes.push(pod.status?.phase);
      version += 1;
      status = pod.status;
      return Promise.resolve(stored());
    },
  };
}
