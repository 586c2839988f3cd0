import type { Simulation } from "./simulate.ts";

const TRACE_LINES = 100;
const VIOLATIONS_MOST = 10;

/** One seed that held, on one line. */
export function describeGood({ seed, sessions, virtualMs, sessionMs, trace }: Simulation): string {
  const minutes = (ms: number): string => (ms / 60_000).toFixed(1);
  return `seed ${seed}: ${sessions} sessions of together ${minutes(sessionMs)} min in ${minutes(virtualMs)} virtual min hold; trace ${trace.hash()}`;
}

/** What is wrong, what led to it, and how to see it again. */
export function describeBad({ seed, sessions, startMs, violations, trace }: Simulation): string {
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
    `Again: npm run simulate -- --seed ${seed} --sessions ${sessions} --trace trace.txt`,
  ].join("\n");
}

/** For programs. */
export function toJson(simulation: Simulation): object {
  const { seed, sessions, violations, trace, virtualMs, sessionMs, outcomes, faults } = simulation;
  return {
    seed,
    sessions,
    virtualMs: Math.round(virtualMs),
    sessionMs: Math.round(sessionMs),
    trace: trace.hash(),
    outcomes: Object.fromEntries(outcomes),
    faults: Object.fromEntries(faults),
    violations,
  };
}
