import type { Verdict } from "../src/domain/decisions/decide-reservation.ts";
import type { LedgerEvent } from "../src/domain/ledger/ledger.ts";
import type { NaivePreemption, PreemptionOperation } from "./naive-preempting-ledger.ts";
import { PATIENT } from "./queue-run.ts";
import { makeRequest, stepRun, type LedgerRun } from "./random-world.ts";

export function stepReal(run: LedgerRun, operation: PreemptionOperation): Verdict | undefined {
  switch (operation.kind) {
    case "put":
      return stepRun(run, { kind: "queue", queue: operation.queue }, PATIENT);
    case "remove":
      return stepRun(run, { kind: "unqueue", name: operation.name }, PATIENT);
    case "reserve": {
      const { kind: _kind, notPreemptible, beyondMinimum, graceMs, queue, ...more } = operation;
      const request = makeRequest("", [], {
        ...more,
        ...(queue !== undefined && { queue }),
        ...(notPreemptible === true && { notPreemptible }),
        ...(beyondMinimum === true && { beyondMinimum }),
        ...(graceMs !== undefined && { graceMs }),
      });
      return stepRun(run, { kind: "reserve", request }, PATIENT);
    }
    default:
      return stepRun(run, operation, PATIENT);
  }
}

/** Prints the decisions; the owners' requests are left out. */
export function printEvents(events: readonly LedgerEvent[]): readonly string[] {
  return events.flatMap((event) => {
    switch (event.kind) {
      case "granted":
        return [`granted ${event.sequence} ${event.machines.map(({ node }) => node).join(" ")}`];
      case "preempted":
        return [`preempted ${event.sequence} for ${event.beneficiary} ${event.reason} until ${event.deadlineMs}`];
      case "preemptionWithdrawn":
        return [`withdrawn ${event.sequence}`];
      case "requeued":
        return [`requeued ${event.sequence}`];
      default:
        return [];
    }
  });
}

export function printNaive(events: ReturnType<NaivePreemption["step"]>["events"]): readonly string[] {
  return events.flatMap((event) => {
    switch (event.kind) {
      case "granted":
        return [`granted ${event.sequence} ${event.nodes.join(" ")}`];
      case "preempted":
        return [`preempted ${event.sequence} for ${event.beneficiary} ${event.reason} until ${event.deadlineMs}`];
      case "withdrawn":
      case "requeued":
        return [`${event.kind} ${event.sequence}`];
      default:
        return [];
    }
  });
}
