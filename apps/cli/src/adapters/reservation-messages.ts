import { enums, toLowercaseNames, muster } from "@muster/proto";
import { printAmount } from "@muster/resources";
import { formatCount } from "../domain/plural.ts";
import { buildShare, type Share } from "../domain/share.ts";
import { pickFields, unlessDefault } from "./message-fields.ts";

const STATES = toLowercaseNames(enums.ReservationState);

export type Pool = ReturnType<typeof toPool>;
export type Reservation = ReturnType<typeof toReservation>;
export type ReservationExplanation = ReturnType<typeof toExplanation>;
export type PoolExplanation = ReservationExplanation["pools"][number];

export function toPool(message: muster.reservation.v1.Pool) {
  return {
    ...pickFields(message, "name", "available", "capacity", "held", "unusable"),
    unusableByReason: message.unusableByReason.map((each) => pickFields(each, "reason", "count")),
    ...pickFields(
      message,
      "waiting",
      "elasticMax",
      "shared",
      "allocatable",
      "free",
      "overcommitted",
      "overcommittedNodes",
    ),
    foreign: message.foreign?.pods ? pickFields(message.foreign, "pods", "requests") : undefined,
    /** Undefined if the node scaler never wrote the time, or the ledger does not report it. */
    elasticAtMs: unlessDefault(message.elasticAtMs),
  };
}

export function toReservation(message = muster.reservation.v1.Reservation.create()) {
  const { because } = message;
  return {
    id: message.id,
    ownerKind: message.owner?.kind ?? "",
    ownerId: message.owner?.id ?? "",
    state: STATES.nameOf(message.state) ?? ("unknown" as const),
    needs: message.needs.map((need) => ({ ...pickFields(need, "component", "pool"), ...toShare(need) })),
    machines: message.machines.map((each) => ({ ...pickFields(each, "component", "pool", "node"), ...toShare(each) })),
    ...pickFields(message, "priority", "createdAtMs"),
    grantedAtMs: unlessDefault(message.grantedAtMs),
    ...queueOf(message),
    ...preemptionOf(message),
    /** Undefined if the request does not wait. */
    because: because && {
      ...pickFields(because, "code", "pool", "requested", "parts", "available", "ahead"),
      ...quotaOf(because),
    },
  };
}

/** Returns the queue of a reservation, and how much of the quota it uses once granted; empty without a queue. */
function queueOf({ queue, use }: Pick<muster.reservation.v1.Reservation, "queue" | "use">): {
  readonly queue?: string;
  readonly use?: readonly { readonly pool: string; readonly amounts: Share }[];
} {
  if (queue === "") return {};
  if (use.length === 0) return { queue };
  return { queue, use: use.map(({ pool, amounts }) => ({ pool, amounts: buildShare(amounts) })) };
}

/** The machines of a reservation are preempted for a waiting request. */
export type Preemption = {
  /** The owner of the waiting request as `KIND/ID`. */
  readonly beneficiary: string;
  readonly queue: string;
  readonly reason: string;
  readonly deadlineMs: number;
  /** The owner of the machines has begun to end its work. */
  readonly accepted: boolean;
};

function preemptionOf({ preemption }: Pick<muster.reservation.v1.Reservation, "preemption">): {
  readonly preemption?: Preemption;
} {
  if (!preemption) return {};
  const { kind = "", id = "" } = preemption.beneficiary ?? {};
  const { queue, reason, deadlineMs, accepted } = preemption;
  return { preemption: { beneficiary: `${kind}/${id}`, queue, reason, deadlineMs, accepted } };
}

/** The resource that a queue lacks. */
export type QuotaShortage = {
  readonly queue: string;
  readonly pool: string;
  readonly resource: string;
  readonly requested: string;
  readonly available: string;
};

function quotaOf({ queue, quota }: muster.reservation.v1.WaitReason): { readonly quota?: QuotaShortage } {
  if (!quota) return {};
  const { resource, requested, available } = quota;
  const amounts = { requested: printAmount(resource, requested), available: printAmount(resource, available) };
  return { quota: { queue: quota.queue === "" ? queue : quota.queue, pool: quota.pool, resource, ...amounts } };
}

/** Returns the part of a machine that a need requests; empty if it requests a whole machine. */
export function toShare({ shared }: Pick<muster.reservation.v1.Need, "shared">): { readonly shared?: Share } {
  return shared === undefined ? {} : { shared: buildShare(shared.requests) };
}

export function toExplanation(message: muster.reservation.v1.ExplainReservationReply) {
  const { place, hold, concurrency } = message;
  return {
    reservation: toReservation(message.reservation),
    ...pickFields(message, "code", "message"),
    pools: message.pools.map((pool) => ({
      ...pickFields(pool, "pool", "requested", "partsMore", "available", "kept", "capacity", "held", "elasticMax"),
      /** The selector of the nodes that can be granted, such as `disk=ssd`; undefined for all nodes without taints. */
      nodes: unlessDefault(pool.nodes),
      parts: pool.parts.map(partDemandFrom),
      /** The amounts of the nodes that can be granted; undefined without parts. */
      amounts:
        pool.parts.length === 0
          ? undefined
          : { free: buildShare(pool.free), allocatable: buildShare(pool.allocatable) },
      elasticAtMs: unlessDefault(pool.elasticAtMs),
      unusable: pool.unusable,
      unusableNodes: pool.unusableNodes.map(({ node, reason, occupant, foreign, cordoned, taints }) => ({
        node,
        reason: reason === "CORDONED" && !cordoned && taints.length > 0 ? "TAINTED" : reason,
        occupant: foreign ? foreignText(foreign) : ownerText(occupant),
      })),
      unusableMore: pool.unusableMore,
      holders: pool.holders.map(holderFromMessage),
      holdersMore: pool.holdersMore,
    })),
    place: {
      ahead: place?.ahead ?? 0,
      byPriority: (place?.aheadByPriority ?? []).map((each) => pickFields(each, "priority", "requests")),
    },
    hold: hold && { owner: ownerText(hold.owner), ...pickFields(hold, "own", "waitingSinceMs") },
    concurrency: concurrency && {
      ...pickFields(concurrency, "limit", "granted"),
      holders: concurrency.holders.map(holderFromMessage),
    },
    /** Lists requests that go first, the most important rules first. */
    requestsAhead: message.requestsAhead.map(aheadFromMessage),
    requestsAheadMore: message.requestsAheadMore,
    /** Lists preempted work that has not ended yet. */
    preempted: message.preempted.map(victimFromMessage),
    preemptedMore: message.preemptedMore,
    /** The work that would have to leave for it; undefined: its queue preempts nothing, or it does not wait. */
    preemption: message.preemption && {
      victims: message.preemption.victims.map(victimFromMessage),
      ...pickFields(message.preemption, "victimsMore", "limit"),
      againAtMs: unlessDefault(message.preemption.againAtMs),
    },
  };
}

function aheadFromMessage({ owner, compared, comparedWith, ...request }: muster.reservation.v1.RequestAhead) {
  return {
    owner: ownerText(owner),
    ...pickFields(request, "queue", "priority", "createdAtMs", "rule"),
    /** Compares the shares of two queues below their nearest common parent: one on the path of this request, one on the path of the explained request. */
    ...(compared && { compared: comparedFromMessage(compared) }),
    ...(comparedWith && { comparedWith: comparedFromMessage(comparedWith) }),
  };
}

function comparedFromMessage(compared: muster.reservation.v1.ComparedQueue) {
  const { share } = compared;
  return { ...pickFields(compared, "queue", "level", "share", "pastShareMillionths"), shareDecimal: decimalOf(share) };
}

/** Returns a fraction such as 3/8 as a decimal with up to 6 digits; undefined if the denominator is 0. */
function decimalOf(fraction: string): number | undefined {
  const [numerator = 0n, denominator = 0n] = fraction.split("/").map(BigInt);
  return denominator === 0n ? undefined : Number((numerator * 1_000_000n) / denominator) / 1_000_000;
}

function partDemandFrom(message: muster.reservation.v1.PartDemand) {
  const { part, shortage } = message;
  return {
    part: buildShare(part?.requests ?? {}),
    ...pickFields(message, "requested", "fitting"),
    shortage: shortage && {
      ...pickFields(shortage, "node", "placed"),
      resources: shortage.resources.map(({ resource, requested, free }) => ({
        resource,
        requested: printAmount(resource, requested),
        free: printAmount(resource, free),
      })),
    },
  };
}

function holderFromMessage(message: muster.reservation.v1.Holder) {
  return { owner: ownerText(message.owner), ...pickFields(message, "machines", "parts", "sinceMs") };
}

function victimFromMessage(message: muster.reservation.v1.Holder) {
  return { ...holderFromMessage(message), ...pickFields(message, "reason") };
}

function ownerText(owner: muster.common.v1.Owner | undefined): string {
  return owner ? `${owner.kind}/${owner.id}` : "";
}

/** Names the first foreign pod, and counts the others. */
function foreignText({ pods, examples }: muster.watch.v1.NodeUse): string {
  const [first] = examples;
  if (first === undefined) return formatCount(pods, "foreign pod");
  return pods === 1 ? `pod ${first}` : `pod ${first} and ${pods - 1} more`;
}
