import { assertNever, describeFault, findFault, isRetryable } from "@muster/faults";
import { planSessionEnd } from "./domain/plan-cleanup.ts";
import type { ActStep, SessionStep } from "./domain/session-steps.ts";
import type { SessionRecord } from "./domain/session.ts";
import type { PodObstacle, ReplacementSeen, ReservationSeen } from "./domain/snapshot.ts";
import { transitionRecord, type SessionOutcome } from "./domain/transition-record.ts";
import { ensureLead, SessionLostError, rememberRecord } from "./hold-session.ts";
import type { SessionRun } from "./run.ts";
import { getText, type StepResult, type CollectStep, type SessionDeps } from "./session-deps.ts";

/** Maximum number of concurrent steps in one pass. */
const MAX_CONCURRENT_STEPS = 32;

/** The outcomes of the steps of one pass. `before` is the record for which the steps were planned. */
type Effects = {
  readonly before: SessionRecord;
  readonly outcomes: SessionOutcome[];
  readonly obstacles: PodObstacle[];
  readonly failures: string[];
  reservation: ReservationSeen | undefined;
  readonly replacements: Map<string, ReplacementSeen>;
};

/** Executes all steps and writes their outcomes. If the store is full or unavailable, the round fails, and the next round plans from the stored record. */
export async function carryOutSteps(deps: SessionDeps, run: SessionRun, steps: readonly SessionStep[]): Promise<void> {
  try {
    await pass(deps, run, steps);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    run.failed = true;
    run.isWriteUnknown = true;
    deps.logger.warn({ session: run.record.name, reason: describeFault(fault) }, "cannot write the record");
  }
}

/** Executes one pass. A failed step does not affect the others: their outcomes are written before its defect is thrown. */
async function pass(deps: SessionDeps, run: SessionRun, steps: readonly SessionStep[]): Promise<void> {
  const effects: Effects = {
    before: run.record,
    outcomes: [],
    obstacles: [],
    failures: [],
    reservation: undefined,
    replacements: new Map(),
  };
  const defect = await executeSteps(deps, run, steps, effects);
  const { outcomes, obstacles, failures, reservation = run.reservation, replacements } = effects;
  run.reservation = reservation;
  run.replacements = new Map([...run.replacements, ...replacements]);
  if (steps.some(isAct)) recordEffects(run, obstacles, failures);
  // The end of the clean-up is written together with the terminal event.
  const end = planSessionEnd(outcomes.reduce(transitionRecord, run.record), deps.now());
  try {
    await rememberRecord(deps, run, end === undefined ? outcomes : [...outcomes, end]);
  } catch (error) {
    if (error instanceof SessionLostError) run.unwritten = [...run.unwritten, ...outcomes];
    throw error;
  }
  if (defect !== undefined) throw defect.error;
}

/** Executes the steps. Returns the first defect once no step is in flight, so that all effects are known. */
async function executeSteps(
  deps: SessionDeps,
  run: SessionRun,
  steps: readonly SessionStep[],
  effects: Effects,
): Promise<{ readonly error: unknown } | undefined> {
  deps.logger.info({ session: run.record.name, steps: steps.map(summaryOf) }, "session steps");
  const queue = steps.values();
  let defect: { readonly error: unknown } | undefined;
  const lane = async (): Promise<void> => {
    for (const step of queue) {
      try {
        if (isAct(step)) await executeStep(deps, run, step, effects);
        else effects.outcomes.push(step);
      } catch (error) {
        defect ??= { error };
      }
      if (defect !== undefined) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_STEPS, steps.length) }, lane));
  return defect;
}

async function executeStep(deps: SessionDeps, run: SessionRun, step: ActStep, effects: Effects): Promise<void> {
  try {
    ensureLead(deps);
    if (step.kind === "collect-logs") {
      startReading(deps, run, step);
      return;
    }
    const acted = await deps.act(effects.before, step);
    if (step.kind === "delete-pod") recordDeletion(run, step.uid);
    recordStepResult(effects, acted);
  } catch (error) {
    effects.failures.push(getText(error));
  }
}

function recordStepResult(effects: Effects, acted: StepResult): void {
  switch (acted.kind) {
    case "outcome":
      effects.outcomes.push(acted.outcome);
      return;
    case "reservation":
      effects.reservation = acted.reservation;
      return;
    case "replacement":
      effects.replacements.set(acted.component, acted.reservation);
      return;
    case "obstacle":
      effects.obstacles.push(acted.obstacle);
      return;
    case "nothing":
      return;
    default:
      assertNever(acted);
  }
}

/** Records the deletion of the pod, to prevent a second deletion before the next list. */
function recordDeletion(run: SessionRun, uid: string): void {
  if (run.lastList === undefined) return;
  const pods = run.lastList.pods.map((pod) =>
    pod.uid === uid ? { ...pod, deleting: true, overdueOn: undefined } : pod,
  );
  run.lastList = { ...run.lastList, pods };
}

/** Starts the read of logs. The round after its end records its report; a longer read is recorded in parts. */
function startReading(deps: SessionDeps, run: SessionRun, step: CollectStep): void {
  const { record, stopReading, read } = run;
  run.reading = deps
    .collectLogs(record, step, (logs) => void read.push(logs), stopReading.signal)
    .catch((error: unknown) => {
      run.defect = { error };
    })
    .finally(() => {
      run.reading = undefined;
      deps.wake(record.name);
    });
}

function recordEffects(run: SessionRun, obstacles: readonly PodObstacle[], failures: readonly string[]): void {
  run.obstacles = obstacles;
  const [first] = failures;
  run.trouble = first === undefined ? undefined : { of: "steps", text: first };
  // An obstructing pod needs time to terminate.
  if (first !== undefined || obstacles.some(({ kind }) => kind === "leftover")) run.failed = true;
}

/** The step kinds with external effects. The type requires every kind, so that a new kind cannot be mistaken for an outcome. */
const ACTS: Readonly<Record<ActStep["kind"], true>> = {
  reserve: true,
  "create-pod": true,
  "collect-logs": true,
  "delete-pod": true,
  release: true,
  "reserve-replacement": true,
  "release-replacement": true,
};

function isAct(step: SessionStep): step is ActStep {
  return step.kind in ACTS;
}

function summaryOf(step: SessionStep): object {
  switch (step.kind) {
    case "create-pod":
      return { kind: step.kind, component: step.component.name, node: step.node, because: step.because };
    case "note-components": {
      const states = step.components.map(({ name, state }) => `${name} ${state}`);
      return { kind: step.kind, states, because: step.because };
    }
    case "collect-logs":
      return { kind: step.kind, pods: step.pods.map(({ pod }) => pod), because: step.because };
    default:
      return step;
  }
}
