import type { ResourceUnits } from "./claim.ts";
import type { LeaseReason, ReasonCode } from "./lease-reason.ts";

/** Describes the reason for people, in results, wait reasons and stored decisions. */
export function describeReason<Code extends ReasonCode>(reason: LeaseReason<Code>): string {
  return TEXTS[reason.code](reason);
}

/** The result of an order that fails for this reason. */
export function describeRefusal(reason: LeaseReason): string {
  return `failed to apply provision: ${describeReason(reason)}`;
}

const RESOURCE_NAMES = {
  cru: "processors",
  mru: "memory",
  hru: "HDD storage",
  sru: "SSD storage",
} as const satisfies Record<keyof ResourceUnits, string>;

const TEXTS: { readonly [Code in ReasonCode]: (reason: LeaseReason<Code>) => string } = {
  "needs-nothing": () => "it needs nothing",
  "needs-active": () => "everything it needs is active",
  "network-free": ({ network }) => `network ${network} is free`,
  "network-taken": ({ network, lease }) => `lease ${lease} of this user already has network ${network}`,
  "network-being-removed": ({ network, lease }) => `network ${network} of lease ${lease} is being taken down`,
  "volume-elsewhere": ({ volume, within }) =>
    `volume ${volume} is ${within === undefined ? "in no network" : `in network ${within}`}`,
  "need-active": ({ need }) => `${need} is active`,
  "need-coming": ({ need }) => `${need} is being provisioned`,
  "need-missing": ({ need }) => `this user has no active ${need}; order it first`,
  "capacity-short": ({ unit, needed, free }) =>
    `not enough free resources to support this ${RESOURCE_NAMES[unit]} size: ${String(needed)} of ${unit.toUpperCase()} needed, ${String(free)} free`,
  "capacity-suffices": () => "the capacity suffices",
  unused: () => "nothing uses it",
  "in-use": ({ users, more }) => `it is in use by ${users.join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
  "reference-unreadable": ({ lease }) => refused(lease, "has a record that cannot be read"),
  "reference-of-another-user": ({ lease }) => refused(lease, "is of another user"),
  "reference-on-another-engine": ({ lease }) => refused(lease, "is served by another engine; order from that one"),
  "reference-of-another-type": ({ lease, type, ordered }) =>
    refused(lease, `is of type ${type}, and this order of type ${ordered}`),
  "reference-taken-over": ({ lease, heir }) => refused(lease, `was taken over by lease ${heir}; refer to that one`),
  "reference-ended": ({ lease, phase }) => refused(lease, `is ${phase}; order without a reference`),
  "reference-expired": ({ lease }) => refused(lease, "is over; order without a reference"),
  "reference-with-other-data": ({ lease }) => refused(lease, "was ordered with other data; order with the same"),
  "reference-coming": ({ lease }) => `lease ${lease} is being provisioned`,
  "hands-over": ({ lease }) => `lease ${lease} hands over its workload`,
  "reference-gone": () => "upgrade refused: the lease no longer exists",
  "handed-over": ({ lease }) => `lease ${lease} has handed over its workload`,
  "hand-over-possible": () => "a previous leader may be about to hand it over",
  "no-workload": () => "it never had a workload",
  "no-new-exit": () => "no container has exited that was not counted",
  "container-exited": ({ how }) => `its container has exited, ${how}`,
  "exited-too-often": ({ exits, how }) => `exited ${exits} times, last with ${how}`,
  expired: () => "its time is over",
  "order-invalid": () => "its order is invalid",
  "type-not-served": ({ type }) => `type of reservation not served: ${type}`,
  "takes-over": ({ lease }) => `it takes over the workload of lease ${lease}`,
  "may-have-workload": ({ lease }) => `it may have the workload of lease ${lease}`,
  "not-active-yet": () => "it is not active yet",
  healthy: () => "it is healthy",
  ends: ({ cause }) => cause ?? "it ends",
  "retry-pause": ({ trouble }) => trouble,
  "data-not-needed": () => "it is over and reported, and its data are not needed",
  "heir-has-workload": ({ lease }) => `lease ${lease} has its workload`,
  "order-may-return": () => "its order may come again and must be answered",
  "history-not-published": () => "its history is not on the stream",
  "order-is-too-old": () => "its order would be refused",
};

function refused(lease: string, why: string): string {
  return `upgrade refused: lease ${lease} ${why}`;
}
