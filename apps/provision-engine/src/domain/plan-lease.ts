import { endOf, isOver } from "@muster/leases";
import { countExits, type CrashPolicy, type PodExits } from "./count-exits.ts";
import type { Admission } from "./decide-admission.ts";
import type { Release } from "./decide-release.ts";
import type { LeaseRecord } from "./lease.ts";
import type { LeaseChange } from "./transition-lease.ts";
import { describeProblems, type Claim } from "./workload-type.ts";
import { readClaim } from "./workload-types.ts";

export type LeaseSnapshot = {
  readonly record: LeaseRecord;
  readonly nowNs: bigint;
  /** Asked only of a lease that would be begun. */
  readonly admit: (claim: Claim) => Admission;
  /** Asked only of a lease that is active: what is seen of its pods now. */
  readonly exits: () => readonly PodExits[];
  /** Asked only of a lease whose workload would be taken down. */
  readonly release: () => Release;
};

export type LeasePolicy = {
  /** How long the record of a lease stays after it has ended and its order is over. */
  readonly tombstoneNs: bigint;
  readonly crash: CrashPolicy;
};

/** What is to be done for a lease next. */
export type LeasePlan =
  | { readonly do: "change"; readonly change: LeaseChange; readonly because: string }
  /** Its order can never be served: that is its result. */
  | { readonly do: "fail"; readonly message: string; readonly because: string }
  | { readonly do: "provision"; readonly because: string }
  /** It is beyond repair: it ends, and that is its result. */
  | { readonly do: "give-up"; readonly message: string; readonly because: string }
  | { readonly do: "decommission"; readonly because: string }
  /** The record goes. */
  | { readonly do: "remove"; readonly because: string }
  /** Until strictly after this time, or until something changes. */
  | { readonly do: "wait"; readonly untilNs: bigint | undefined; readonly because: string };

/** What a lease needs next, from its record alone: whatever was interrupted goes on from there. Nothing is begun for a lease that is over. */
export function planLease(snapshot: LeaseSnapshot, policy: LeasePolicy): LeasePlan {
  const { record, nowNs } = snapshot;
  switch (record.phase) {
    case "ORDERED":
      return isOver(record.expiresAtNs, nowNs) ? EXPIRE : planOrdered(snapshot);
    case "PROVISIONING":
      if (isOver(record.expiresAtNs, nowNs)) return EXPIRE;
      return notBefore(record, nowNs) ?? { do: "provision", because: "it is to be there" };
    case "ACTIVE":
      if (isOver(record.expiresAtNs, nowNs)) return EXPIRE;
      return planActive(snapshot, policy);
    case "DECOMMISSIONING":
      return planDown(snapshot);
    case "ENDED":
    case "FAILED":
      return planTombstone(snapshot, policy);
  }
}

const EXPIRE: LeasePlan = {
  do: "change",
  change: { kind: "ending", ending: { cause: "EXPIRED", message: "", request: undefined } },
  because: "its time is over",
};

function planOrdered({ record, admit }: LeaseSnapshot): LeasePlan {
  const claim = readClaim(record.order);
  if (!claim.ok)
    return { do: "fail", message: describeProblems(claim.problems), because: "its order cannot be understood" };
  const admission = admit(claim.value);
  switch (admission.admit) {
    case "yes":
      return { do: "change", change: { kind: "provisioning" }, because: admission.because };
    case "later":
      return { do: "wait", untilNs: record.expiresAtNs, because: admission.because };
    case "no":
      return { do: "fail", message: `failed to apply provision: ${admission.because}`, because: admission.because };
  }
}

function planActive({ record, exits }: LeaseSnapshot, { crash }: LeasePolicy): LeasePlan {
  const verdict = countExits(record.crashes, exits(), crash);
  switch (verdict.do) {
    case "nothing":
      return { do: "wait", untilNs: record.expiresAtNs, because: "it is as it should be" };
    case "count":
      return { do: "change", change: { kind: "exited", crashes: verdict.crashes }, because: verdict.because };
    case "give-up":
      return { do: "give-up", message: verdict.because, because: verdict.because };
  }
}

function planDown({ record, nowNs, release }: LeaseSnapshot): LeasePlan {
  const early = notBefore(record, nowNs);
  if (early !== undefined) return early;
  const verdict = release();
  if (verdict.release === "later") return { do: "wait", untilNs: undefined, because: verdict.because };
  return { do: "decommission", because: record.ending?.cause ?? "it ends" };
}

function notBefore({ notBeforeNs, expiresAtNs, phase, trouble }: LeaseRecord, nowNs: bigint): LeasePlan | undefined {
  if (isOver(notBeforeNs, nowNs)) return undefined;
  const endsFirst = phase === "PROVISIONING" && expiresAtNs < notBeforeNs;
  return { do: "wait", untilNs: endsFirst ? expiresAtNs : notBeforeNs, because: trouble };
}

/** As long as the order itself would still run, its record has to say that it has ended. */
function planTombstone({ record, nowNs }: LeaseSnapshot, { tombstoneNs }: LeasePolicy): LeasePlan {
  const orderEndsNs = endOf(record.order);
  const endedAtNs = record.endedAtNs ?? orderEndsNs;
  const goesAfterNs = (endedAtNs > orderEndsNs ? endedAtNs : orderEndsNs) + tombstoneNs;
  if (!isOver(goesAfterNs, nowNs))
    return { do: "wait", untilNs: goesAfterNs, because: "its order is answered, should it come again" };
  if (record.outbox.length > 0) return { do: "wait", untilNs: undefined, because: "its history is not on the stream" };
  return { do: "remove", because: "its order is over" };
}
