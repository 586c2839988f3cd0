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
  type Forest,
  type QueuedRequest,
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
  /** Only of a request. */
  readonly verdict?: NaiveVerdict;
  /** In the order in which they are granted. */
  readonly grants: readonly number[];
};

type Line = Omit<QueuedRequest, "ask"> & {
  readonly owner: string;
  readonly content: string;
  /** What it asks for, by preference; once granted, what it has. */
  asks: readonly PairAmounts[];
  isGranted: boolean;
};

/**
 * A ledger with queues where machines are plenty, so that only quotas and order decide. After every operation it grants one request after another until none
 * of those that wait fits, and decides each time from everything that it holds.
 */
export class NaiveQueues {
  readonly #allocatable: PairAmounts;
  #queues: Queue[] = [];
  #lines: Line[] = [];
  #nextSequence = 1;
  #nowMs = 0;

  /** `allocatable` is what the nodes of each pool can allocate together. */
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
   * A queue lowers the priority of a request when it arrives; a later `maxPriority` does not change it. Two requests of an owner are the same when their
   * `content` is.
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
    const maxPriority = this.#queues.find(({ name }) => name === queue)?.maxPriority ?? priority;
    this.#lines.push({
      sequence,
      owner,
      content,
      ...(queue !== undefined && { queue }),
      asks,
      priority: Math.min(priority, maxPriority),
      createdAtMs: this.#nowMs,
      isGranted: false,
    });
    const grants = this.#settle();
    return { verdict: { kind: grants.includes(sequence) ? "granted" : "waiting", sequence }, grants };
  }

  /** Of a grant, or of a request that waits. */
  release(owner: string): NaiveOutcome {
    this.#lines = this.#lines.filter((line) => line.owner !== owner);
    return { grants: this.#settle() };
  }

  putQueue(queue: Queue): NaiveOutcome {
    this.#queues = [...this.#queues.filter(({ name }) => name !== queue.name), queue];
    return { grants: this.#settle() };
  }

  /** What it has granted stays, and counts again when a queue of this name is put. */
  removeQueue(name: string): NaiveOutcome {
    this.#queues = this.#queues.filter((queue) => queue.name !== name);
    return { grants: this.#settle() };
  }

  pass(ms: number): NaiveOutcome {
    this.#nowMs += ms;
    return { grants: this.#settle() };
  }

  /** Of every request that waits, in the order of arrival. */
  waits(): readonly NaiveWait[] {
    return this.#waitingLines().map((line) => ({ sequence: line.sequence, code: this.#waitOf(line) }));
  }

  /** Each option of each request, in the order of arrival. */
  waiting(): readonly QueuedRequest[] {
    return this.#waitingLines().flatMap((line) => line.asks.map((ask, option) => ({ ...line, ask, option })));
  }

  #waitingLines(): readonly Line[] {
    return this.#lines.filter(({ isGranted }) => !isGranted);
  }

  /** Sequences of what is granted and not released, in the order of arrival. */
  granted(): readonly number[] {
    return this.#lines.filter(({ isGranted }) => isGranted).map(({ sequence }) => sequence);
  }

  forest(): Forest {
    const own = new Map<string, Map<string, number>>();
    for (const { queue, asks } of this.#lines.filter(({ isGranted }) => isGranted)) {
      const [ask] = asks;
      if (queue === undefined || ask === undefined) continue;
      const used = own.get(queue) ?? new Map<string, number>();
      for (const [pair, amount] of ask) used.set(pair, (used.get(pair) ?? 0) + amount);
      own.set(queue, used);
    }
    return { queues: this.#queues, own, allocatable: this.#allocatable };
  }

  /** A queue whose numbers cannot be known refuses nothing: what is in it waits until it is repaired. */
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
    const grants: number[] = [];
    for (;;) {
      const next = findNextGrant(this.forest(), this.waiting());
      const line = this.#lines.find(({ sequence }) => sequence === next?.sequence);
      if (line === undefined || next === undefined) return grants;
      line.asks = [next.ask];
      line.isGranted = true;
      grants.push(line.sequence);
    }
  }

  /** That of the first option that can ever fit. */
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

  /** Requests that can never fit are no head. */
  #isBehindHead(forest: Forest, queue: string, request: QueuedRequest): boolean {
    if (forest.queues.find(({ name }) => name === queue)?.strategy !== "StrictFIFO") return false;
    const before = this.waiting().filter(
      (other) => other.queue === queue && other.sequence !== request.sequence && compareRequests(other, request) < 0,
    );
    return before.some((other) => canEverFit(forest, queue, other.ask));
  }
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
