import type { Simulation } from "./simulate.ts";

const TRACE_LINES = 100;
const MAX_VIOLATIONS = 10;

/** Noun of the counted work, by the option that sets its number. */
export const COUNTED: Readonly<Record<Simulation["kind"], string>> = {
  sessions: "sessions",
  leases: "leases",
  queues: "requests",
};

/** Describes a seed without violations, on one line. */
export function describePassed({ kind, seed, count, virtualMs, lifeMs, trace }: Simulation): string {
  const minutes = (ms: number): string => (ms / 60_000).toFixed(1);
  const lives = `${count} ${COUNTED[kind]} of ${minutes(lifeMs)} min in total, in ${minutes(virtualMs)} min of virtual time`;
  return `seed ${seed}: ${lives}; all rules hold; trace ${trace.hash()}`;
}

/** Describes the violations, the events before them, and how to repeat the run. */
export function describeFailed({ kind, seed, count, parts, startMs, violations, trace }: Simulation): string {
  const [first] = violations;
  const lines = violations.slice(0, MAX_VIOLATIONS).map(({ atMs, session, rule, found }) => {
    return `  ${((atMs - startMs) / 1000).toFixed(3)} ${session ?? "the system"}: ${rule}\n    ${found}`;
  });
  const more = violations.length > MAX_VIOLATIONS ? [`  and ${violations.length - MAX_VIOLATIONS} more`] : [];
  return [
    `seed ${seed}: ${violations.length} violations`,
    ...lines,
    ...more,
    "",
    `The last ${TRACE_LINES} lines about ${first?.session ?? "everything"}:`,
    ...trace.about(first?.session, TRACE_LINES),
    "",
    `trace ${trace.hash()}`,
    `Repeat: npm run simulate -- --seed ${seed} --${kind} ${count}${kind === "sessions" ? ` --parts ${parts}` : ""} --trace trace.txt`,
  ].join("\n");
}

/** The document of -o json. */
export function toJson(simulation: Simulation): object {
  const { kind, seed, count, violations, trace, virtualMs, lifeMs, outcomes, faults } = simulation;
  return {
    seed,
    [kind]: count,
    virtualMs: Math.round(virtualMs),
    lifeMs: Math.round(lifeMs),
    trace: trace.hash(),
    outcomes: Object.fromEntries(outcomes),
    faults: Object.fromEntries(faults),
    violations,
  };
}
