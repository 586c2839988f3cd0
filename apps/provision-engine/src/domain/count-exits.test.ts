import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { countExits, describeCrashes, MAX_EXITS, readExits, type PodExits } from "./count-exits.ts";
import type { CrashWindow } from "./lease.ts";
import { describeReason } from "./describe-reason.ts";

const WINDOW_NS = 100n;
const policy = { windowNs: WINDOW_NS };
const pod = (exits: number, lastNs: bigint, changes: Partial<PodExits> = {}): PodExits => ({
  pod: "p",
  startedNs: 0n,
  exits,
  lastNs,
  how: "exit code 1 (Error)",
  ...changes,
});

/** Returns the results of consecutive observations of pods. */
function looks(...each: readonly (readonly PodExits[])[]) {
  let crashes: CrashWindow | undefined;
  for (const pods of each) {
    const verdict = countExits(crashes, pods, policy);
    if (verdict.kind === "give-up") return describeReason(verdict.because);
    if (verdict.kind === "count") crashes = verdict.crashes;
  }
  return crashes?.exits ?? 0;
}

describe("a container that exits and restarts", () => {
  it.each([
    ["has never ended", [[pod(0, 0n)], [pod(0, 0n)]], 0],
    ["ended once, seen twice", [[pod(1, 5n)], [pod(1, 5n)]], 1],
    ["ended three times", [[pod(1, 5n)], [pod(2, 6n)], [pod(3, 7n)]], 3],
    ["ended four times, the last at the window's end", [[pod(1, 5n)], [pod(2, 6n)], [pod(3, 7n)], [pod(4, 105n)]], "4"],
    ["ended a fourth time after it", [[pod(1, 5n)], [pod(2, 6n)], [pod(3, 7n)], [pod(4, 106n)]], 1],
    ["ended four times between two observations", [[pod(0, 0n)], [pod(4, 90n)]], "4"],
    ["ended four times unseen, over a longer time", [[pod(0, 0n)], [pod(4, 101n)]], 1],
    ["ended unseen after an end that was seen", [[pod(1, 50n)], [pod(4, 140n)]], "4"],
    ["lost its first pod", [[pod(3, 5n)], [], [pod(1, 9n, { pod: "q", startedNs: 6n })]], "4"],
    ["lost its first pod long ago", [[pod(3, 5n)], [pod(1, 900n, { pod: "q", startedNs: 800n })]], 1],
    ["is reported by a late observation", [[pod(2, 6n)], [pod(1, 5n)], [pod(2, 6n)]], 2],
    ["has two pods at once", [[pod(2, 6n), pod(2, 7n, { pod: "q" })]], "4"],
  ] as const)("that %s", (_what, seen, counted) => {
    const reported = looks(...seen);
    expect(typeof reported === "string" ? String(MAX_EXITS) : reported).toBe(counted);
    if (typeof reported === "string") expect(reported).toBe("exited 4 times, last with exit code 1 (Error)");
  });

  it("counts each pod once, however many have ended long ago and remain", () => {
    const times = fc.uniqueArray(fc.bigInt({ min: 1n, max: 60n * WINDOW_NS }), { minLength: 20, maxLength: 40 });
    fc.assert(
      fc.property(times, (unsorted) => {
        const ends = unsorted.toSorted((a, b) => Number(a - b));
        const pods = ends.map((lastNs) => pod(1, lastNs, { pod: `p${lastNs}`, startedNs: lastNs }));
        let crashes: CrashWindow | undefined;
        for (const [at, lastNs] of ends.entries()) {
          // A repeated observation never has new exits.
          for (let look = 0; look < 2; look += 1) {
            const verdict = countExits(crashes, pods.slice(0, at + 1), policy);
            const inReach = ends.filter((each) => each <= lastNs && lastNs - each <= WINDOW_NS).length;
            if (verdict.kind === "give-up") {
              expect(inReach).toBeGreaterThanOrEqual(MAX_EXITS);
              return;
            }
            expect(verdict.kind).toBe(look === 0 ? "count" : "nothing");
            if (verdict.kind === "count") crashes = verdict.crashes;
          }
        }
      }),
    );
  });

  it("counts the same exits whichever observations an engine has missed, and none twice", () => {
    const times = fc.uniqueArray(fc.bigInt({ min: 1n, max: 3n * WINDOW_NS }), { maxLength: 12 });
    fc.assert(
      fc.property(times, fc.infiniteStream(fc.boolean()), (unsorted, seen) => {
        const ends = unsorted.toSorted((a, b) => Number(a - b));
        let crashes: CrashWindow | undefined;
        for (const [at, lastNs] of ends.entries()) {
          const isSeen = seen.next().value === true;
          if (!isSeen) continue;
          const verdict = countExits(crashes, [pod(at + 1, lastNs)], policy);
          const inReach = ends.filter((each) => each <= lastNs && lastNs - each <= WINDOW_NS).length;
          if (verdict.kind === "give-up") {
            // A container with fewer exits within the window never ends its lease.
            expect(inReach).toBeGreaterThanOrEqual(MAX_EXITS);
            return;
          }
          expect(verdict.kind).toBe("count");
          if (verdict.kind === "count") crashes = verdict.crashes;
          expect(countExits(crashes, [pod(at + 1, lastNs)], policy)).toMatchObject({ kind: "nothing" });
        }
      }),
    );
  });
});

const exited = (finishedAt: string) => ({ terminated: { exitCode: 137, reason: "OOMKilled", finishedAt } });
const at = (time: string) => BigInt(Date.parse(time)) * 1_000_000n;
const [FIRST, SECOND] = ["2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"];
const waiting = { waiting: { reason: "CrashLoopBackOff" } };
const running = { running: { startedAt: SECOND } };

it.each([
  ["runs for the first time", {}, { restartCount: 0, state: running }, 0, undefined],
  ["has just ended", {}, { restartCount: 0, state: exited(FIRST) }, 1, FIRST],
  ["waits for its restart", {}, { restartCount: 1, state: waiting, lastState: exited(SECOND) }, 2, SECOND],
  ["was restarted", {}, { restartCount: 2, state: running, lastState: exited(SECOND) }, 2, SECOND],
  ["waits for its first start", {}, { restartCount: 0, state: { waiting: {} } }, 0, undefined],
  [
    "is ended with its pod",
    { deletionTimestamp: SECOND },
    { restartCount: 1, state: exited(SECOND), lastState: exited(FIRST) },
    1,
    FIRST,
  ],
])("counts the exits of a container that %s", (_what, metadata, container, exits, last) => {
  const status = { containerStatuses: [container] };
  const read = readExits({ metadata: { uid: "p", ...metadata }, status } as Parameters<typeof readExits>[0]);
  expect(read).toMatchObject({ pod: "p", exits, lastNs: last === undefined ? 0n : at(last) });
  if (last !== undefined) expect(read.how).toBe("exit code 137 (OOMKilled)");
});

it("does not count the eviction of a pod as an exit of its container", () => {
  const status = { phase: "Failed", containerStatuses: [{ restartCount: 1, state: exited(SECOND) }] };
  expect(readExits({ metadata: { uid: "p" }, status }).exits).toBe(1);
});

it.each([
  ["none", [], undefined],
  ["too few", [pod(MAX_EXITS - 1, 1n)], undefined],
  ["many", [pod(0, 1n), pod(MAX_EXITS, 1n)], "is not available and has exited 4 times, last with exit code 1 (Error)"],
])("explains why a container with %s exits is unavailable", (_what, pods, description) => {
  expect(describeCrashes(pods)).toBe(description);
});
