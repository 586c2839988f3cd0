import { findFault } from "@muster/faults";
import { askMachines, toWireExplanation, NO_ANSWERS, type ExplainCalls } from "@muster/ledger-client";
import { explainLeftoverPods, type LeftoverPod } from "@muster/ledger-client/explanation";
import { canOccupy } from "@muster/names";
import type { muster } from "@muster/proto";
import { explainJob, getJobPhase, type ObservedJobState } from "../domain/explain-job.ts";
import { isFinished } from "../domain/job-status.ts";
import { summariseState } from "../domain/summarise-state.ts";
import type { JobKey } from "../requests.ts";
import { OWNER_KIND } from "./machines.ts";
import type { JobRow } from "./read-job.ts";

type Explanation = muster.explain.v1.Explanation.$Properties;

/** The row of the job, and its message in replies. */
type Shown = { readonly job: JobRow; readonly message: () => muster.job.v1.Job.$Properties };

/** Explains the phase of a job, also of a deleted job whose pods still occupy machines. */
export async function explainAnswer(
  calls: ExplainCalls,
  key: Required<JobKey>,
  find: () => Promise<Shown>,
): Promise<Explanation> {
  let shown: Shown;
  try {
    shown = await find();
  } catch (error) {
    const gone = findFault(error)?.code === "not_found" ? explainGone(key, await calls.podsLeft()) : undefined;
    if (gone === undefined) throw error;
    return gone;
  }
  const seen = toObservedState(shown);
  const owner = { kind: OWNER_KIND, id: shown.message().ownerId ?? "" };
  const isOver = isFinished(shown.job.status);
  const parts = { kind: OWNER_KIND, includes: (part: typeof owner) => canOccupy(owner, part) };
  const asked = isOver ? NO_ANSWERS : await askMachines(calls, owner, parts);
  const { kind, name } = seen;
  return toWireExplanation({ kind, name, ...getJobPhase(seen), isOver }, explainJob(seen, asked.seen), asked);
}

function explainGone(
  { kind, name, namespace }: Required<JobKey>,
  left: readonly LeftoverPod[],
): Explanation | undefined {
  const own = left.filter(({ pod }) => pod.startsWith(`${namespace}/`));
  const reason = explainLeftoverPods(own.filter((each) => each.name === name || each.owner.endsWith(`/${name}`)));
  return reason && { kind: kind.toLowerCase() || OWNER_KIND, name, reasons: [reason] };
}

function toObservedState({ job, message }: Shown): ObservedJobState {
  const { waitingBecause, members, createdAtMs } = message();
  const { state } = summariseState(job.status, 0);
  return {
    kind: job.kind.kind.toLowerCase(),
    name: job.metadata.name,
    state,
    status: job.status,
    cancelRequested: job.cancelled,
    waitingBecause: waitingBecause ?? "",
    members: (members ?? []).map(({ component, state: memberState }) => {
      return { component: component ?? "", state: memberState ?? "" };
    }),
    createdAtMs: createdAtMs ?? 0,
  };
}
