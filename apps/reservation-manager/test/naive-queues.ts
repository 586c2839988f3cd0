import type { Need } from "../src/domain/ledger/reservation.ts";
import type { PairAmounts, Queue } from "../src/domain/ledger/queue.ts";
import {
  candidateOf,
  canEverFit,
  compareRequests,
  findNextGrant,
  fits,
  isLeaf,
  pathOf,
  problemOf,
  shareOf,
  type Forest,
  type QueuedRequest,
  type Share,
} from "./naive-quota.ts";
import { optionsIn } from "./naive-ledger.ts";
import { askOf, type QueueOperation } from "./random-queues.ts";

type NaiveVerdict =
  | { readonly kind: "granted" | "waiting" | "known"; readonly sequence: number }
  | { readonly kind: "refused"; readonly code: "QUEUE_UNKNOWN" | "QUOTA_EXCEEDED" | "RESERVATION_DIFFERS" };

type NaiveWait = {
  readonly sequence: number;
  readonly code: "QUEUE_UNKNOWN" | "QUEUE_HELD" | "BEHIND_STRICT_HEAD" | "WAITING_FOR_QUOTA" | "KEPT_FOR_OWNER";
};

type NaiveOutcome = {
  /** Set only for a request. */
  readonly verdict?: NaiveVerdict;
  /** Granted sequences in the order of the grants. */
  readonly grants: readonly number[];
};

type Line = Omit<QueuedRequest, "ask"> & {
  readonly owner: string;
  readonly content: string;
  /** The amounts of the request, by preference; of a granted request, the amounts of the grant. */
  asks: readonly PairAmounts[];
  /** Undefined: it waits. */
  grantedAtMs?: number;
};

/**
 * A reference ledger with plentiful machines, so that only quotas and order decide. After every operation it grants one request after another until no waiting
 * request fits, and computes each decision from its whole state.
 */
export class NaiveQueues {
  readonly #allocatable: PairAmounts;
  #queues: Queue[] = [];
  #lines: Line[] = [];
  #nextSequence = 1;
  #nowMs = 0;
  /** By parent queue: the time of the last count, and the past shares of its children in millionths. */
  #past = new Map<string, { readonly atMs: number; readonly shares: ReadonlyMap<string, number> }>();

  /** `allocatable` is the sum of the allocatable amounts of each pool's nodes. */
  constructor(allocatable: PairAmounts) {
    this.#allocatable = allocatable;
  }

  step(operation: QueueOperation): NaiveOutcome {
    switch (operation.kind) {
      case "reserve": {
        const { owner, queue, needs, priority } = operation;
        const asks = optionsIn({ needs }).map((option) => askOf(option.needs));
        return this.reserve(`${owner.kind}/${owner.id}`, queue, asks, priority, printNeeds(needs));
      }
      case "release":
        return this.release(`${operation.owner.kind}/${operation.owner.id}`);
      case "put":
        return this.putQueue(operation.queue);
      case "remove":
        return this.removeQueue(operation.name);
      case "wait":
        return this.pass(operation.ms);
    }
  }

  /**
   * A queue lowers the priority of a request when it arrives; a later `maxPriority` does not change it. Two requests of an owner with equal `content` are the
   * same request.
   */
  reserve(
    owner: string,
    queue: string | undefined,
    ask: PairAmounts | readonly PairAmounts[],
    priority: number,
    content = [ask].flat().map(printAmounts).join(";"),
  ): NaiveOutcome {
    const known = this.#lines.find((line) => line.owner === owner);
    if (known !== undefined) {
      return known.content === content
        ? { verdict: { kind: "known", sequence: known.sequence }, grants: [] }
        : { verdict: { kind: "refused", code: "RESERVATION_DIFFERS" }, grants: [] };
    }
    const asks = [ask].flat();
    const code = this.#refusalOf(queue, asks);
    if (code !== undefined) return { verdict: { kind: "refused", code }, grants: [] };
    const sequence = this.#nextSequence++;
    const waited = this.waiting();
    const maxPriority = this.#queues.find(({ name }) => name === queue)?.maxPriority ?? priority;
    this.#lines.push({
      sequence,
      owner,
      content,
      ...(queue !== undefined && { queue }),
      asks,
      priority: Math.min(priority, maxPriority),
      createdAtMs: this.#nowMs,
    });
    // No earlier request could be granted. A request that fits is granted when it arrives: before past use is counted, and before requests that its arrival
    // unblocks, because quota is no longer kept for the previous head of its queue.
    const forest = this.forest();
    const next =
      queue === undefined
        ? findNextGrant(forest, this.waiting())
        : candidateOf({ ...forest, listWaiting: () => waited }, queue, this.waiting(), waited);
    const first = next?.sequence === sequence ? [this.#grant(next)] : [];
    const grants = [...first, ...this.#settle()];
    return { verdict: { kind: grants.includes(sequence) ? "granted" : "waiting", sequence }, grants };
  }

  /** Releases a grant, or removes a waiting request. */
  release(owner: string): NaiveOutcome {
    this.#lines = this.#lines.filter((line) => line.owner !== owner);
    return { grants: this.#settle() };
  }

  putQueue(queue: Queue): NaiveOutcome {
    this.#queues = [...this.#queues.filter(({ name }) => name !== queue.name), queue];
    if (queue.pastUseHalfLifeMs === undefined) this.#past.delete(queue.name);
    return { grants: this.#settle() };
  }

  /** The grants of a removed queue stay, and count again when a queue of this name is put. */
  removeQueue(name: string): NaiveOutcome {
    this.#queues = this.#queues.filter((queue) => queue.name !== name);
    this.#past.delete(name);
    return { grants: this.#settle() };
  }

  pass(ms: number): NaiveOutcome {
    this.#nowMs += ms;
    return { grants: this.#settle() };
  }

  /** Returns the wait of each waiting request, in the order of arrival. */
  waits(): readonly NaiveWait[] {
    return this.#waitingLines().map((line) => ({ sequence: line.sequence, code: this.#waitOf(line) }));
  }

  /** Lists each option of each waiting request, in the order of arrival. */
  waiting(): readonly QueuedRequest[] {
    return this.#waitingLines().flatMap((line) => line.asks.map((ask, option) => ({ ...line, ask, option })));
  }

  #waitingLines(): readonly Line[] {
    return this.#lines.filter(({ grantedAtMs }) => grantedAtMs === undefined);
  }

  /** Sequences of granted and unreleased requests, in the order of arrival. */
  granted(): readonly number[] {
    return this.#lines.filter(({ grantedAtMs }) => grantedAtMs !== undefined).map(({ sequence }) => sequence);
  }

  forest(): Forest {
    const own = new Map<string, Map<string, number>>();
    for (const { queue, asks } of this.#lines.filter(({ grantedAtMs }) => grantedAtMs !== undefined)) {
      const [ask] = asks;
      if (queue === undefined || ask === undefined) continue;
      const used = own.get(queue) ?? new Map<string, number>();
      for (const [pair, amount] of ask) used.set(pair, (used.get(pair) ?? 0) + amount);
      own.set(queue, used);
    }
    const past = this.#queues.map(({ name, parent = "" }): [string, number] => {
      return [name, this.#past.get(parent)?.shares.get(name) ?? 0];
    });
    const granted = this.#lines.flatMap(({ asks: [ask], grantedAtMs, ...line }) =>
      ask === undefined || grantedAtMs === undefined ? [] : [{ ...line, ask, grantedAtMs }],
    );
    return {
      queues: this.#queues,
      own,
      allocatable: this.#allocatable,
      past: new Map(past),
      listWaiting: () => this.waiting(),
      granted,
    };
  }

  /** A queue of unknown quota refuses nothing, because its work waits until the queue is repaired. */
  #refusalOf(queue: string | undefined, asks: readonly PairAmounts[]): "QUEUE_UNKNOWN" | "QUOTA_EXCEEDED" | undefined {
    if (queue === undefined) return undefined;
    const forest = this.forest();
    const known = forest.queues.find(({ name }) => name === queue);
    if (known === undefined) return "QUEUE_UNKNOWN";
    const path = pathOf(forest, queue);
    if (path === undefined || path.some(({ problem }) => problem !== undefined)) return undefined;
    if (!isLeaf(forest, queue)) return "QUEUE_UNKNOWN";
    return asks.some((ask) => canEverFit(forest, queue, ask)) ? undefined : "QUOTA_EXCEEDED";
  }

  #settle(): readonly number[] {
    this.#countPast();
    const grants: number[] = [];
    for (;;) {
      const next = findNextGrant(this.forest(), this.waiting());
      if (next === undefined) return grants;
      grants.push(this.#grant(next));
    }
  }

  #grant({ sequence, ask }: QueuedRequest): number {
    for (const line of this.#lines)
      if (line.sequence === sequence) Object.assign(line, { asks: [ask], grantedAtMs: this.#nowMs });
    return sequence;
  }

  /** past = past * 2^(-t/h) + share * (1 - 2^(-t/h)), in millionths: 32 times per half-life, and at most once a second. */
  #countPast(): void {
    const forest = this.forest();
    for (const { name, pastUseHalfLifeMs: halfLifeMs } of this.#queues) {
      const path = pathOf(forest, name);
      if (halfLifeMs === undefined || path === undefined || path.some(({ problem }) => problem !== undefined)) continue;
      const intervalMs = Math.max(1000, halfLifeMs / 32);
      const { atMs, shares } = this.#past.get(name) ?? { atMs: this.#nowMs - intervalMs, shares: new Map() };
      const passedMs = this.#nowMs - atMs;
      if (passedMs < intervalMs) continue;
      const kept = 2 ** (-passedMs / halfLifeMs);
      const added = 1 - 2 ** (-Math.min(passedMs, 2 * intervalMs) / halfLifeMs);
      const counted = this.#queues
        .filter(({ parent }) => parent === name)
        .map((child): [string, number] => {
          const past = (shares.get(child.name) ?? 0) * kept + inMillionths(shareOf(forest, child.name)) * added;
          return [child.name, Math.floor(past)];
        })
        .filter(([, past]) => past > 0);
      if (counted.length === 0) this.#past.delete(name);
      else this.#past.set(name, { atMs: this.#nowMs, shares: new Map(counted) });
    }
  }

  /** Returns the wait of the first option that can ever fit. */
  #waitOf({ asks, ...line }: Line): NaiveWait["code"] {
    const { queue } = line;
    if (queue === undefined) throw new Error(`request ${line.sequence} without a queue waits`);
    const forest = this.forest();
    const problem = problemOf(forest, queue);
    if (problem !== undefined) return problem;
    const ask = asks.find((each) => canEverFit(forest, queue, each));
    if (ask === undefined) return "WAITING_FOR_QUOTA";
    if (this.#isBehindHead(forest, queue, { ...line, ask })) return "BEHIND_STRICT_HEAD";
    if (!fits(forest, queue, ask)) return "WAITING_FOR_QUOTA";
    if (candidateOf(forest, queue, this.waiting()) !== undefined)
      throw new Error(`queue ${queue} could be granted more`);
    return "KEPT_FOR_OWNER";
  }

  /** Returns whether the head of a StrictFIFO queue blocks the request. Requests that can never fit are no head. */
  #isBehindHead(forest: Forest, queue: string, request: QueuedRequest): boolean {
    if (forest.queues.find(({ name }) => name === queue)?.strategy !== "StrictFIFO") return false;
    const before = this.waiting().filter(
      (other) => other.queue === queue && other.sequence !== request.sequence && compareRequests(other, request) < 0,
    );
    return before.some((other) => canEverFit(forest, queue, other.ask));
  }
}

/** Caps the share at a thousand, which stands for infinity. */
function inMillionths({ numerator, denominator }: Share): number {
  const most = 1_000_000_000;
  if (denominator === 0n) return numerator === 0n ? 0 : most;
  return Math.min(most, Number((numerator * 1_000_000n) / denominator));
}

function printAmounts(amounts: PairAmounts): string {
  return [...amounts]
    .map(([pair, amount]) => `${pair} ${amount}`)
    .sort()
    .join();
}

function printNeeds(needs: readonly Need[]): string {
  return needs
    .map(
      ({ component, pool, otherPools, shared }) =>
        `${component} ${pool} ${otherPools?.join(" ")} ${printAmounts(shared ?? new Map())}`,
    )
    .sort()
    .join(";");
}
