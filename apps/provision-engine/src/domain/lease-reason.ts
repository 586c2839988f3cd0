import type { ResourceUnits } from "./claim.ts";
import type { EndingCause, LeasePhase } from "./lease.ts";

type Lease = { readonly lease: string };
type Need = { readonly need: string };

/**
 * Why a lease is admitted, refused or waits, or takes its next step: the codes with the values that their texts name (`describe-reason.ts`). The comment above
 * each group names the function that sets it.
 */
type Reasons = {
  // `decideNeeds` (`decide-admission.ts`)
  readonly "needs-nothing": object;
  readonly "needs-active": object;
  // `decideNetwork` (`decide-admission.ts`)
  readonly "network-free": { readonly network: string };
  readonly "network-taken": Lease & { readonly network: string };
  readonly "network-being-removed": Lease & { readonly network: string };
  // `decideReach` (`decide-admission.ts`); undefined: in no network
  readonly "volume-elsewhere": { readonly volume: string; readonly within: string | undefined };
  // `decideNeed` (`decide-admission.ts`)
  readonly "need-active": Need;
  readonly "need-coming": Need;
  readonly "need-missing": Need;
  // `decideCapacity` (`decide-admission.ts`)
  readonly "capacity-short": { readonly unit: keyof ResourceUnits; readonly needed: bigint; readonly free: bigint };
  readonly "capacity-suffices": object;
  // `decideDecommission` (`decide-admission.ts`); `more` users are not named
  readonly unused: object;
  readonly "in-use": { readonly users: readonly string[]; readonly more: number };
  // `decideReference` (`decide-take-over.ts`)
  readonly "reference-unreadable": Lease;
  readonly "reference-of-another-user": Lease;
  readonly "reference-on-another-engine": Lease;
  readonly "reference-of-another-type": Lease & { readonly type: string; readonly ordered: string };
  readonly "reference-taken-over": Lease & { readonly heir: string };
  readonly "reference-ended": Lease & { readonly phase: LeasePhase };
  readonly "reference-expired": Lease;
  readonly "reference-with-other-data": Lease;
  readonly "reference-coming": Lease;
  readonly "hands-over": Lease;
  // `decideTakeOver` (`decide-take-over.ts`)
  readonly "reference-gone": object;
  readonly "handed-over": Lease;
  readonly "hand-over-possible": object;
  readonly "no-workload": object;
  // `countExits` (`count-exits.ts`)
  readonly "no-new-exit": object;
  readonly "container-exited": { readonly how: string };
  readonly "exited-too-often": { readonly exits: number; readonly how: string };
  // `planLease` and the functions below it (`plan-lease.ts`)
  readonly expired: object;
  readonly "order-invalid": object;
  readonly "type-not-served": { readonly type: string };
  readonly "takes-over": Lease;
  readonly "may-have-workload": Lease;
  readonly "not-active-yet": object;
  readonly healthy: object;
  readonly ends: { readonly cause: EndingCause | undefined };
  // `planPause` (`plan-lease.ts`), with the trouble of the last attempt
  readonly "retry-pause": { readonly trouble: string };
  // `planTombstone` (`plan-lease.ts`)
  readonly "data-not-needed": object;
  readonly "heir-has-workload": Lease;
  readonly "order-may-return": object;
  readonly "history-not-published": object;
  readonly "order-is-too-old": object;
};

export type ReasonCode = keyof Reasons;
export type LeaseReason<Code extends ReasonCode = ReasonCode> = {
  readonly [Each in Code]: { readonly code: Each } & Reasons[Each];
}[Code];
