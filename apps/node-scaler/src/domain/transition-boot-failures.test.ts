import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import type { HeartbeatStep } from "./plan-heartbeat.ts";
import { transitionBootFailures, type BootFailure } from "./transition-boot-failures.ts";

const booting = (name: string) => buildNode(name, { status: { phase: "Created" } });
const nodes = [booting("n1"), booting("n2"), buildNode("n3", { status: { phase: "Creating" } })];

function ends(node: string, code: "BOOT_FAILED" | "BOOT_TIMEOUT" | "SPOT_NOTICE"): HeartbeatStep {
  const terminate = { code, message: `${node} ${code}`, atMs: 0, drainUntilMs: 0 };
  return { do: "change", node, expected: "Created", because: "to-end", spec: { terminate } };
}

const ready: HeartbeatStep = { do: "change", node: "n1", expected: "Created", because: "ready", phase: "Available" };

function run(...rounds: readonly (readonly [nowMs: number, steps: readonly HeartbeatStep[]])[]) {
  return rounds.reduce<readonly BootFailure[]>(
    (before, [nowMs, steps]) => transitionBootFailures(before, { nodes, steps, nowMs }),
    [],
  );
}

it("counts the boots of one kind that fail in a row, and tells the latest", () => {
  const failures = run([1000, [ends("n1", "BOOT_FAILED")]], [2000, [ends("n2", "BOOT_TIMEOUT")]], [3000, []]);
  expect(failures).toEqual([
    {
      ...{ pool: "a", provider: "cloud", instanceType: "small", spot: false },
      ...{ code: "BOOT_TIMEOUT", message: "n2 BOOT_TIMEOUT", boots: 2, sinceMs: 1000, latestMs: 2000 },
    },
  ]);
});

it("forgets a kind that has become ready, and one that has not failed again for long", () => {
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [2000, [ready]])).toEqual([]);
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_800_000, []])).toHaveLength(1);
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_801_000, []])).toEqual([]);
});

it("counts neither other ends nor nodes whose instance the provider has never made", () => {
  expect(run([1000, [ends("n1", "SPOT_NOTICE"), ends("n3", "BOOT_FAILED")]])).toEqual([]);
});
