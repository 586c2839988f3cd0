import { describe, expect, it } from "vitest";
import { POLICY, makeProvisioning, makeRecord, makeRunning, makeSnapshot, START_MS } from "../../test/samples.ts";
import { decideVerdict, describeStates, isTimeOver } from "./decide-verdict.ts";
import type { ComponentStatus } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";

function decide(more: Partial<Snapshot>, changes: Readonly<Record<string, Partial<ComponentStatus>>> = {}) {
  const world = makeSnapshot({ record: makeRunning(), livePods: [], ...more });
  const components = world.record.components.map((each) => ({ ...each, ...changes[each.name] }));
  return decideVerdict(world, components, POLICY);
}

describe("a failed component", () => {
  it("ends the session with its kind, name, exit code and message", () => {
    expect(decide({}, { "client-0": { state: "FAILED", exitCode: 3, message: "out of memory" } })).toEqual({
      kind: "ERROR",
      atMs: START_MS,
      reason: "COMPONENT_FAILED",
      description: "client client-0 failed with exit code 3: out of memory",
    });
    expect(decide({}, { "client-0": { state: "FAILED", exitCode: undefined, message: "" } })?.description).toBe(
      "client client-0 failed",
    );
  });

  it("is the driver if several failed, in whatever order", () => {
    const failed = { state: "FAILED", exitCode: 1, message: "" } as const;
    const all = { driver: failed, "client-0": failed, "server-0": failed };
    const world = makeRunning();
    for (const components of [world.components, world.components.toReversed()]) {
      expect(decide({ record: { ...world, components } }, all)?.description).toBe("driver failed with exit code 1");
    }
  });

  it("does not undo the success of the driver, nor a cancellation", () => {
    const failed = { "client-0": { state: "FAILED" } } as const;
    expect(decide({}, { ...failed, driver: { state: "SUCCEEDED" } })?.kind).toBe("DONE");
    expect(decide({ record: makeRunning({ cancelRequested: true }) }, failed)?.kind).toBe("CANCELLED");
  });
});

it("keeps a description of 1024 characters, and truncates a longer one", () => {
  const described = (length: number) => {
    const message = "x".repeat(length - "client client-0 failed: ".length);
    return decide({}, { "client-0": { state: "FAILED", exitCode: undefined, message } })?.description ?? "";
  };
  expect(described(1024)).toMatch(/^client client-0 failed: x+$/);
  expect(described(1024)).toHaveLength(1024);
  expect(described(1025)).toMatch(/^client client-0 failed: x+\.\.\.$/);
  expect(described(1025)).toHaveLength(1024);
});

it("names five components, and counts the rest", () => {
  const [one] = makeRunning().components;
  const components = Array.from({ length: 7 }, (_, index) => ({ ...one!, name: `c${String(index)}`, message: "" }));
  expect(describeStates(components.slice(0, 1))).toBe("c0 is READY");
  expect(describeStates([{ ...components[0]!, message: "slow" }])).toBe("c0 is READY (slow)");
  expect(describeStates(components.slice(0, 5))).toBe(
    "c0 is READY, c1 is READY, c2 is READY, c3 is READY, c4 is READY",
  );
  expect(describeStates(components)).toMatch(/c4 is READY and 2 more$/);
});

describe("the first obstacle by name", () => {
  it("ends the session", () => {
    const obstacle = (component: string) =>
      ({ kind: "refused", component, reason: "INVALID_REQUEST", message: "bad image" }) as const;
    for (const names of [
      ["b", "a", "c"],
      ["c", "b", "a"],
    ]) {
      expect(decide({ obstacles: names.map(obstacle) as unknown as Snapshot["obstacles"] })).toMatchObject({
        kind: "ERROR",
        reason: "INVALID_REQUEST",
        description: "a: bad image",
      });
    }
  });
});

describe("a session in the queue", () => {
  const queued = makeRecord({ waitingBecause: "the pool is full" });
  const endMs = START_MS + queued.spec.queueTimeoutMs;

  it("ends when its queue time is over, with its wait reason", () => {
    const reservation = { state: "waiting", id: "r-1", because: undefined } as const;
    expect(decide({ record: queued, nowMs: endMs - 1 })).toBeUndefined();
    expect(decide({ record: queued, nowMs: endMs })).toBeUndefined();
    expect(decide({ record: queued, nowMs: endMs, reservation })).toMatchObject({
      kind: "ERROR",
      reason: "QUEUE_TIMEOUT",
    });
    expect(decide({ record: queued, nowMs: endMs, reservation })?.description).toMatch(
      /^no machines within .*; the pool is full$/,
    );
    expect(decide({ record: makeRecord(), nowMs: endMs, reservation })?.description).toMatch(
      /^no machines within [^;]*$/,
    );
  });

  it("ends with an internal error while the ledger cannot be reached", () => {
    expect(decide({ record: queued, nowMs: endMs, trouble: "NATS is away" })).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: expect.stringMatching(/^no machines within .*; NATS is away$/) as string,
    });
  });

  it("ends when a machine is missing from the grant", () => {
    const machines = queued.components.map(({ name }) => ({ component: name, node: `node-${name}` }));
    const grant = (granted: typeof machines) =>
      decide({
        record: queued,
        reservation: { state: "granted", id: "r-1", machines: granted } as unknown as Snapshot["reservation"],
      });
    expect(grant(machines)).toBeUndefined();
    const description = "the ledger granted no machine for client-0";
    const without = machines.filter(({ component }) => component !== "client-0");
    expect(grant(without)).toMatchObject({ kind: "INTERNAL_ERROR", description });
    expect(grant([...without, { component: "client-0", node: "" }])).toMatchObject({ description });
  });
});

describe("the time of a session", () => {
  const { timeoutMs } = makeRunning().spec;
  const endMs = START_MS + 1 + timeoutMs;

  it("begins with provisioning, and 0 is no limit", () => {
    expect(isTimeOver(makeRunning(), endMs - 1)).toBe(false);
    expect(isTimeOver(makeRunning(), endMs)).toBe(true);
    expect(isTimeOver(makeRecord(), endMs)).toBe(false);
    const unlimited = makeRunning();
    expect(isTimeOver({ ...unlimited, spec: { ...unlimited.spec, timeoutMs: 0 } }, endMs)).toBe(false);
  });

  it("ends with the missing components", () => {
    const early = makeProvisioning(["driver", "client-0", "server-0"]);
    const states = { driver: { state: "READY" }, "client-0": { state: "SUCCEEDED" } } as const;
    expect(decide({ record: early, nowMs: endMs - 1 }, states)).toBeUndefined();
    expect(decide({ record: early, nowMs: endMs }, states)).toMatchObject({
      kind: "ERROR",
      reason: "TIMEOUT",
      description: expect.stringMatching(/^not all components were ready within [^:]*: server-0 is CREATED$/) as string,
    });
    expect(decide({ record: early, nowMs: endMs, trouble: "away" }, states)).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: expect.stringMatching(/; away$/) as string,
    });
  });

  it("ends as the driver's failure once the session runs, unless its pods are not listed", () => {
    const description = expect.stringMatching(/^the driver did not end within [^;]*$/) as string;
    expect(decide({ nowMs: endMs })).toMatchObject({ kind: "ERROR", reason: "TIMEOUT", description });
    expect(decide({ nowMs: endMs, trouble: "away" })).toMatchObject({ kind: "ERROR", reason: "TIMEOUT" });
    expect(decide({ nowMs: endMs, livePods: undefined })).toMatchObject({
      kind: "INTERNAL_ERROR",
      description: expect.stringMatching(/; its pods were not listed$/) as string,
    });
    expect(decide({ nowMs: endMs, livePods: undefined, trouble: "away" })?.description).toMatch(/; away$/);
  });
});
