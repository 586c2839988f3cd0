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
      ...{ pauses: 1, untilMs: 11_000 },
    },
  ]);
});

it("forgets a kind that has become ready, and one that has not failed again for long", () => {
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [2000, [ready]])).toEqual([]);
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_800_000, []])).toHaveLength(1);
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_801_000, []])).toEqual([]);
});

it("pauses twice as long each time, whatever fails during a pause, until a node is ready", () => {
  const fails = (atMs: number) => [atMs, [ends("n1", "BOOT_FAILED"), ends("n2", "BOOT_FAILED")]] as const;
  const pausesOf = (failures: readonly BootFailure[]) => failures.map(({ untilMs, latestMs }) => untilMs - latestMs);
  expect(pausesOf(run(fails(0)))).toEqual([10_000]);
  expect(pausesOf(run(fails(0), fails(9000)))).toEqual([1000]);
  expect(pausesOf(run(fails(0), fails(10_000)))).toEqual([20_000]);
  expect(pausesOf(run(...Array.from({ length: 9 }, (_, index) => fails(index * 300_000))))).toEqual([300_000]);
  expect(pausesOf(run(fails(0), fails(10_000), [20_000, [ready]], fails(30_000)))).toEqual([10_000]);
});

it("counts neither other ends nor nodes whose instance the provider has never made", () => {
  expect(run([1000, [ends("n1", "SPOT_NOTICE"), ends("n3", "BOOT_FAILED")]])).toEqual([]);
});
