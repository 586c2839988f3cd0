import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isWarningDue, readProbeTiming, startProbe, transitionProbe } from "./transition-probe.ts";

describe("transitionProbe", () => {
  it("uses Kubernetes' defaults", () => {
    expect(readProbeTiming({})).toEqual({
      periodMs: 10_000,
      timeoutMs: 1_000,
      initialDelayMs: 0,
      successThreshold: 1,
      failureThreshold: 3,
    });
  });

  it("probes first after the initial delay, then once a period", () => {
    const timing = readProbeTiming({ initialDelaySeconds: 5, periodSeconds: 2 });
    const state = startProbe(timing, 1_000);
    expect(state).toMatchObject({ ready: false, nextAtMs: 6_000 });
    expect(transitionProbe(state, { ok: false, atMs: 6_100 }, timing).nextAtMs).toBe(8_100);
  });

  it("changes only after a threshold of equal consecutive results", () => {
    const thresholds = fc.record({
      successThreshold: fc.integer({ min: 1, max: 4 }),
      failureThreshold: fc.integer({ min: 1, max: 4 }),
    });
    fc.assert(
      fc.property(thresholds, fc.array(fc.boolean(), { maxLength: 40 }), (part, answers) => {
        const timing = readProbeTiming(part);
        let state = startProbe(timing, 0);
        let expected = false;
        for (const [index, ok] of answers.entries()) {
          state = transitionProbe(state, { ok, atMs: index }, timing);
          const needed = ok ? part.successThreshold : part.failureThreshold;
          const row = answers.slice(Math.max(0, index + 1 - needed), index + 1);
          if (row.length === needed && row.every((answer) => answer === ok)) expected = ok;
          expect(state.ready).toBe(expected);
        }
      }),
    );
  });

  it.each<[string, number, string, number[]]>([
    ["not of a container that becomes ready before the threshold", 3, "--++", []],
    ["once of a container that does not become ready", 3, "------", [2]],
    ["of the first failure after a success, each time", 3, "-+-+--", [2, 4]],
    ["once of a container that turns unready and stays so", 2, "+-----", [1]],
  ])("warns %s", (_title, threshold, answers, warned) => {
    const timing = readProbeTiming({ failureThreshold: threshold });
    let state = startProbe(timing, 0);
    const due: number[] = [];
    for (const [index, answer] of [...answers].entries()) {
      const ok = answer === "+";
      if (!ok && isWarningDue(state, timing)) due.push(index);
      state = transitionProbe(state, { ok, atMs: index }, timing);
    }
    expect(due).toEqual(warned);
  });
});
