import type { Simulation } from "./simulate.ts";

const TRACE_LINES = 100;
const VIOLATIONS_MOST = 10;

/** One seed that held, on one line. */
export function describeGood({ of, seed, count, virtualMs, lifeMs, trace }: Simulation): string {
  const minutes = (ms: number): string => (ms / 60_000).toFixed(1);
  return `seed ${seed}: ${count} ${of} of together ${minutes(lifeMs)} min in ${minutes(virtualMs)} virtual min hold; trace ${trace.hash()}`;
}

/** What is wrong, what led to it, and how to see it again. */
export function describeBad({ of, seed, count, startMs, violations, trace }: Simulation): string {
  const [first] = violations;
  const lines = violations.slice(0, VIOLATIONS_MOST).map(({ atMs, session, rule, found }) => {
    return `  ${((atMs - startMs) / 1000).toFixed(3)} ${session ?? "the system"}: ${rule}\n    ${found}`;
  });
  const more = violations.length > VIOLATIONS_MOST ? [`  and ${violations.length - VIOLATIONS_MOST} more`] : [];
  return [
    `seed ${seed}: ${violations.length} violations`,
    ...lines,
    ...more,
    "",
    `The last ${TRACE_LINES} lines about ${first?.session ?? "everything"}:`,
    ...trace.about(first?.session, TRACE_LINES),
    "",
    `trace ${trace.hash()}`,
    `Again: npm run simulate -- --seed ${seed} --${of} ${count} --trace trace.txt`,
  ].join("\n");
}

/** For programs. */
export function toJson(simulation: Simulation): object {
  const { of, seed, count, violations, trace, virtualMs, lifeMs, outcomes, faults } = simulation;
  return {
    seed,
    [of]: count,
    virtualMs: Math.round(virtualMs),
    lifeMs: Math.round(lifeMs),
    trace: trace.hash(),
    outcomes: Object.fromEntries(outcomes),
    faults: Object.fromEntries(faults),
    violations,
  };
}
