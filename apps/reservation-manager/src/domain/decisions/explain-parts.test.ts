import { describe, expect, it } from "vitest";
import {
  toAmounts,
  makeNode,
  makeOwner,
  makeParts,
  policy,
  makeRequest,
  startRun,
  stepRun,
} from "../../../test/random-world.ts";
import { buildExplanation } from "./build-explanation.ts";
import { findReservation } from "../ledger/ledger.ts";
import type { NodeFacts } from "../ledger/machines.ts";

type Requests = Readonly<Record<string, number>> | undefined;

const GI = 2 ** 30;
const size = toAmounts({ cpu: 4000, memory: 16 * GI, pods: 10 });
const node = (name: string, more: Partial<NodeFacts> = {}) => makeNode(name, "a", { allocatable: size, ...more });

/** Explains why the last of these requests waits on these nodes. */
function explainLast(nodes: readonly NodeFacts[], ...all: readonly (readonly Requests[])[]) {
  const run = startRun(nodes);
  for (const [id, requests] of all.entries())
    stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs: makeParts("a", ...requests) }) });
  const reservation = findReservation(run.world.ledger, makeOwner(all.length - 1));
  if (reservation === undefined) throw new Error("it has no reservation");
  return buildExplanation(reservation, run.world, policy, run.nowMs);
}

describe("parts that do not fit", () => {
  const large = { cpu: 2000, memory: 4 * GI };

  it("name the resource that is short, on the node that lacks least", () => {
    const { pools, message } = explainLast(
      [node("a1"), node("a2"), node("a3")],
      [{ cpu: 3000 }, { cpu: 3500 }, { cpu: 2000 }],
      [large, large, large, large],
    );
    expect(pools[0]?.parts).toEqual({
      listed: [
        {
          requests: toAmounts(large),
          requested: 4,
          fitting: 1,
          shortage: { node: "a2", placed: 0, resources: [{ resource: "cpu", requested: 2000, free: 1000 }] },
        },
      ],
      more: 0,
    });
    expect(message).toContain(
      "pool a has room for 1 of 4 parts of machines; needs 4 × (cpu 2, memory 4Gi), 1 fits now; cpu is short: a2 has 1 free, the pool has 3500m of 12 free",
    );
  });

  it("name what the parts that fit leave, if those use up the room", () => {
    const { pools } = explainLast([node("a1")], [{ cpu: 500 }], [{ cpu: 3000 }, { cpu: 1000 }]);
    expect(pools[0]?.parts?.listed.map(({ fitting, shortage }) => [fitting, shortage])).toEqual([
      [1, undefined],
      [0, { node: "a1", placed: 1, resources: [{ resource: "cpu", requested: 1000, free: 500 }] }],
    ]);
  });

  it("name several resources, and pods", () => {
    const full = toAmounts({ cpu: 4000, memory: 16 * GI, pods: 1 });
    const { message } = explainLast([node("a1", { allocatable: full })], [{ cpu: 3000 }], [{ cpu: 2000 }]);
    expect(message).toContain("cpu and pods are short: a1 has 1 and 0 free, the pool has 1 of 4 and 0 of 1 free");
  });

  it("name no node where all machines are held as a whole", () => {
    const { message, pools } = explainLast([node("a1")], [undefined], [large]);
    expect(message).toContain("needs 1 × (cpu 2, memory 4Gi), 0 fit now; no machine of it can be granted in parts now");
    expect(pools[0]?.amounts).toMatchObject({ allocatable: size, free: toAmounts({}) });
  });

  it("count room that is kept for an older request as used", () => {
    const run = startRun([node("a1"), node("a2")]);
    const ask = (id: string, ...requests: readonly Requests[]) =>
      stepRun(run, { kind: "reserve", request: makeRequest(id, [], { needs: makeParts("a", ...requests) }) });
    ask("first", { cpu: 1000 });
    ask("older", undefined, undefined);
    stepRun(run, { kind: "wait", ms: policy.holdAfterMs + 1 });
    ask("x", { cpu: 3500 });
    const reservation = findReservation(run.world.ledger, makeOwner("x"));
    if (reservation === undefined) throw new Error("it has no reservation");
    const { because, message } = buildExplanation(reservation, run.world, policy, run.nowMs);
    expect(because?.code).toBe("HELD_FOR_OLDER");
    expect(message).toContain("; the rest of the room is kept for session oolder, which has waited too long");
  });
});

it("counts the parts of a holder apart from its machines", () => {
  const { pools, message } = explainLast(
    [node("a1"), node("a2")],
    [{ cpu: 1000 }, { cpu: 1000 }, undefined],
    [undefined],
  );
  expect(pools[0]?.holders.listed).toMatchObject([{ machines: 3, parts: 2 }]);
  expect(message).toContain("held by session o0 (1 machine and 2 parts)");
});
