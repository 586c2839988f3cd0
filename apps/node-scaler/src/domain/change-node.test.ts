import { describe, expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { decideChange } from "./change-node.ts";
import type { NodePhase, Termination } from "./node.ts";

const PHASES: readonly NodePhase[] = [
  "Creating",
  "Created",
  "Available",
  "Claimed",
  "Cleaning",
  "Terminating",
  "Terminated",
];

/** Rows are present phases; y: may become the phase of the column. */
const ALLOWED: Readonly<Record<NodePhase, string>> = {
  Creating: "yyy--yy",
  Created: "-yy-yyy",
  Available: "--yy-yy",
  Claimed: "---yyyy",
  Cleaning: "--y-yyy",
  Terminating: "-----yy",
  Terminated: "------y",
};

const claim = { owner: { kind: "job", id: "j" }, reservationId: "1" };
const idle: Termination = { code: "IDLE", message: "idle", atMs: 5, drainUntilMs: 6 };

describe.each(PHASES)("a node of phase %s", (from) => {
  it.each(PHASES)("becomes %s only if the table allows it", (to) => {
    const node = buildNode("n", { status: { phase: from, claim: { ...claim, reached: true } } });
    const verdict = decideChange(
      node,
      { node: "n", expected: from, phase: to, status: { trouble: { code: "UNKNOWN", message: "t" } } },
      7,
    );
    if (ALLOWED[from][PHASES.indexOf(to)] === "y") expect(verdict.kind).toBe("write");
    else
      expect(verdict).toEqual({
        kind: "refuse",
        fault: {
          code: "invalid_request",
          field: "node n",
          reason: `a node of phase ${from} cannot become ${to}`,
        },
      });
  });
});

it("withdraws a claim whose pod never reached the node, and no other", () => {
  const change = { node: "n", expected: "Claimed", phase: "Available" } as const;
  const claimed = (reached: boolean) => buildNode("n", { status: { phase: "Claimed", claim: { ...claim, reached } } });
  expect(decideChange(claimed(false), change, 7).kind).toBe("write");
  expect(decideChange(claimed(true), change, 7).kind).toBe("refuse");
});

it("changes nothing if the phase differs from that of the decision", () => {
  const node = buildNode("n", { status: { phase: "Claimed" } });
  const stop = { node: "n", expected: "Available", spec: { terminate: idle } } as const;
  expect(decideChange(node, stop, 7)).toEqual({ kind: "nothing", because: "phase-moved-on" });
  expect(decideChange(undefined, stop, 7)).toEqual({ kind: "nothing", because: "gone" });
});

it("keeps the first reason to end, and removes it only on request", () => {
  const node = buildNode("n", { spec: { terminate: idle } });
  const other = { ...idle, code: "POOL_REMOVED" } as const;
  const change = { node: "n", expected: "Available" } as const;
  expect(decideChange(node, { ...change, spec: { terminate: other } }, 7)).toEqual({
    kind: "nothing",
    because: "no-difference",
  });
  expect(decideChange(node, { ...change, spec: { terminate: undefined } }, 7)).toMatchObject({
    kind: "write",
    node: { spec: { terminate: undefined } },
  });
});

it("prefers an operator's order to the end of an idle node, whichever came first, and never withdraws it", () => {
  const ordered = { ...idle, code: "REQUESTED" } as const;
  const change = { node: "n", expected: "Available" } as const;
  const surplus = buildNode("n", { spec: { terminate: idle } });
  expect(decideChange(surplus, { ...change, spec: { terminate: ordered } }, 7)).toMatchObject({
    node: { spec: { terminate: ordered } },
  });
  const node = buildNode("n", { spec: { terminate: ordered } });
  expect(decideChange(node, { ...change, spec: { terminate: idle } }, 7).kind).toBe("nothing");
  expect(decideChange(node, { ...change, spec: { terminate: undefined } }, 7)).toEqual({
    kind: "nothing",
    because: "ordered-otherwise",
  });
});

it("restarts a phase whose clock was ahead", () => {
  const node = buildNode("n", { status: { phaseSinceMs: 1000 } });
  const verdict = decideChange(node, { node: "n", expected: "Available" }, 7);
  expect(verdict).toMatchObject({ kind: "write", node: { status: { phaseSinceMs: 7 } } });
});

it("records when a phase began, and writes nothing unchanged", () => {
  const node = buildNode("n", { status: { phase: "Created", addresses: ["10.0.0.1"] } });
  const change = { node: "n", expected: "Created" } as const;
  expect(decideChange(node, { ...change, phase: "Available" }, 7)).toMatchObject({
    node: { status: { phaseSinceMs: 7 } },
  });
  expect(decideChange(node, { ...change, status: { trouble: { code: "UNKNOWN", message: "x" } } }, 7)).toMatchObject({
    node: { status: { phaseSinceMs: 0 } },
  });
  expect(decideChange(node, { ...change, status: { addresses: ["10.0.0.1"] } }, 7).kind).toBe("nothing");
});
