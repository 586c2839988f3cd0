import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import type { ClaimStep } from "./plan-node-claims.ts";
import type { HeartbeatStep } from "./plan-heartbeat.ts";
import type { ScaledNode } from "./node.ts";
import { transitionBootFailures, type BootFailure } from "./transition-boot-failures.ts";

const booting = (name: string) => buildNode(name, { status: { phase: "Created" } });
const nodes = [
  booting("n1"),
  booting("n2"),
  buildNode("n3", { status: { phase: "Creating" } }),
  buildNode("n4"),
  buildNode("n5", { status: { served: true } }),
];

function ends(node: string, code: "BOOT_FAILED" | "BOOT_TIMEOUT" | "UNHEALTHY" | "SPOT_NOTICE"): HeartbeatStep {
  const terminate = { code, message: `${node} ${code}`, atMs: 0, drainUntilMs: 0 };
  return { kind: "change", node, expected: "Created", because: "to-end", spec: { terminate } };
}

const ready: HeartbeatStep = { kind: "change", node: "n1", expected: "Created", because: "ready", phase: "Available" };
const granted = (node: string): ClaimStep => ({ kind: "change", node, expected: "Available", because: "granted" });

function run(...rounds: readonly (readonly [nowMs: number, steps: readonly (HeartbeatStep | ClaimStep)[]])[]) {
  return rounds.reduce<readonly BootFailure[]>(
    (before, [nowMs, steps]) => transitionBootFailures(before, { nodes, steps, nowMs }),
    [],
  );
}

it("counts consecutive failed boots of one kind, and reports the latest", () => {
  const failures = run([1000, [ends("n1", "BOOT_FAILED")]], [2000, [ends("n2", "BOOT_TIMEOUT")]], [3000, []]);
  expect(failures).toEqual([
    {
      ...{ pool: "a", provider: "cloud", instanceType: "small", spot: false },
      ...{ code: "BOOT_TIMEOUT", message: "n2 BOOT_TIMEOUT", boots: 2, sinceMs: 1000, latestMs: 2000 },
      ...{ pauses: 1, untilMs: 11_000 },
    },
  ]);
});

it("counts nodes that were ready and ended before any owner held them, and no other ready nodes", () => {
  expect(run([1000, [ends("n4", "UNHEALTHY"), ends("n5", "UNHEALTHY")]])).toMatchObject([
    { code: "UNHEALTHY", message: "n4 UNHEALTHY", boots: 1, untilMs: 11_000 },
  ]);
});

it("forgets a kind once a node of it is held, not once it is merely ready", () => {
  const failed = [1000, [ends("n2", "BOOT_FAILED")]] as const;
  expect(run(failed, [2000, [ready, granted("n5")]])).toHaveLength(1);
  expect(run(failed, [2000, [granted("n4")]])).toEqual([]);
});

it("forgets a kind once a node of it has been healthy for five minutes since the latest failure", () => {
  const failed = run([1000, [ends("n2", "BOOT_FAILED")]]);
  const after = (node: ScaledNode, nowMs: number) =>
    transitionBootFailures(failed, { nodes: [node], steps: [], nowMs }).length;
  const well = buildNode("n6", { status: { phaseSinceMs: 2000 } });
  expect([after(well, 301_999), after(well, 302_000)]).toEqual([1, 0]);
  expect(after(buildNode("n6", { status: { phaseSinceMs: 1000 } }), 302_000)).toBe(1);
  expect(after(buildNode("n6", { status: { phaseSinceMs: 2000, unhealthySinceMs: 3000 } }), 302_000)).toBe(1);
  expect(after(buildNode("n6", { spec: { spot: true }, status: { phaseSinceMs: 2000 } }), 302_000)).toBe(1);
});

it("forgets a kind without a recent failure", () => {
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_800_000, []])).toHaveLength(1);
  expect(run([1000, [ends("n2", "BOOT_FAILED")]], [1_801_000, []])).toEqual([]);
});

it("doubles each pause, whatever fails during it, until a node is used", () => {
  const fails = (atMs: number) => [atMs, [ends("n1", "BOOT_FAILED"), ends("n2", "BOOT_FAILED")]] as const;
  const pausesOf = (failures: readonly BootFailure[]) => failures.map(({ untilMs, latestMs }) => untilMs - latestMs);
  expect(pausesOf(run(fails(0)))).toEqual([10_000]);
  expect(pausesOf(run(fails(0), fails(9000)))).toEqual([1000]);
  expect(pausesOf(run(fails(0), fails(10_000)))).toEqual([20_000]);
  expect(pausesOf(run(...Array.from({ length: 9 }, (_, index) => fails(index * 300_000))))).toEqual([300_000]);
  expect(pausesOf(run(fails(0), fails(10_000), [20_000, [granted("n4")]], fails(30_000)))).toEqual([10_000]);
});

it("counts neither other ends nor nodes whose instance was never created", () => {
  expect(run([1000, [ends("n1", "SPOT_NOTICE"), ends("n3", "BOOT_FAILED")]])).toEqual([]);
});
