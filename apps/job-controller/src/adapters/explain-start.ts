import { randomUUID } from "node:crypto";
import { QUEUE_UNKNOWN } from "@muster/ledger-client/choose-queue";
import { buildGang } from "../domain/build-units.ts";
import type { JobSpec } from "../domain/job.ts";
import { computePriority } from "../domain/plan-job-machines.ts";
import type { JobManifest } from "../requests.ts";
import type { Queues } from "./follow-queues.ts";
import type { Machines, WaitReason } from "./machines.ts";

type StartDeps = { readonly machines: Pick<Machines, "check">; readonly queues: Pick<Queues, "choose"> };

/** Returns why a new job would wait for its machines. A suspended job requests none. Rejects with FaultError if the ledger does not answer. */
export async function explainStart(
  { machines, queues }: StartDeps,
  { metadata: { name, namespace, labels } }: JobManifest,
  spec: JobSpec,
): Promise<WaitReason | undefined> {
  if (spec.suspend) return undefined;
  const choice = queues.choose(labels as Readonly<Record<string, string>> | undefined, namespace);
  if (choice.kind === "unknown") return { code: QUEUE_UNKNOWN, text: choice.message };
  // No other job has the id of this one, so the answer concerns a new request.
  const gang = buildGang({ name, uid: randomUUID() }, spec);
  const queue = choice.kind === "queue" ? choice.name : undefined;
  return machines.check({ ...gang, queue }, computePriority(choice, spec.priority).priority);
}
