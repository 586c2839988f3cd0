import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import type { NodeFacts, PoolScaling } from "../src/domain/ledger/machines.ts";
import { policy, type Operation } from "./random-world.ts";

/** One reservation as kept on paper. */
type Line = {
  readonly number: number;
  readonly request: ReservationRequest;
  readonly since: number;
  /** Empty while it waits. */
  nodes: string[];
};

/**
 * The rules of the ledger without any index, cache or shortcut: every question is answered by looking at everything. What the ledger decides has to be
 * the same.
 */
export class NaiveLedger {
  readonly #nodes: Map<string, NodeFacts>;
  readonly #scalings = new Map<string, PoolScaling>();
  #lines: Line[] = [];
  readonly #numbers = new Map<string, number[]>();
  /** By owner kind, as it was named last. */
  readonly #limits = new Map<string, number>();
  #next = 1;
  #now = 0;

  constructor(nodes: readonly NodeFacts[]) {
    this.#nodes = new Map(nodes.map((node) => [node.name, node]));
  }

  /** Does one operation; for a request says what becomes of it in a few words. */
  step(operation: Operation): string {
    const said = this.#do(operation);
    this.#settle();
    return said;
  }

  /** Who holds what, and who waits, in the order of arrival. */
  show(): string[] {
    return this.#lines.map(({ number, nodes }) => `${number} [${nodes.join(" ")}]`);
  }

  #do(operation: Operation): string {
    switch (operation.kind) {
      case "node":
        this.#nodes.set(operation.facts.name, operation.facts);
        return "";
      case "lose":
        this.#nodes.delete(operation.node);
        return "";
      case "scale":
        if (operation.scaling === undefined) this.#scalings.delete(operation.pool);
        else this.#scalings.set(operation.pool, operation.scaling);
        return "";
      case "wait":
        this.#now += operation.ms;
        return "";
      case "release":
        this.#end(this.#meant(operation));
        return "";
      case "limit":
        this.#limits.set(operation.ownerKind, operation.limit);
        return "";
      case "reserve":
        return this.#reserveWithLimit(operation.request);
    }
  }

  /** The request's limit counts from now on, and for those before it first; not when the request is refused. */
  #reserveWithLimit(request: ReservationRequest): string {
    const { kind } = request.owner;
    const limit = this.#limits.get(kind) ?? 0;
    const lines = this.#lines.map((line) => ({ ...line, nodes: [...line.nodes] }));
    this.#limits.set(kind, request.concurrencyLimit);
    this.#settle();
    const said = this.#reserve(request);
    if (/^(answer|grant|queue) /.test(said)) return said;
    this.#limits.set(kind, limit);
    this.#lines = lines;
    return said;
  }

  #end(line: Line | undefined): void {
    this.#lines = this.#lines.filter((other) => other !== line);
  }

  #meant({ owner, late }: Extract<Operation, { kind: "release" }>): Line | undefined {
    const number = this.#numbers.get(`${owner.kind} ${owner.id}`)?.at(late === true ? -2 : -1);
    return this.#lines.find((line) => line.number === number);
  }

  #reserve(request: ReservationRequest): string {
    const { owner, needs } = request;
    const own = this.#lines.find(
      (line) => line.request.owner.kind === owner.kind && line.request.owner.id === owner.id,
    );
    if (own !== undefined) {
      const wants = (all: ReservationRequest["needs"]) =>
        all.map(({ component, pool }) => `${component} ${pool}`).sort();
      if (wants(own.request.needs).join() !== wants(needs).join()) return "reservation_differs";
      return `answer ${own.number}`;
    }
    const pools = [...new Set(needs.map(({ pool }) => pool))].sort();
    const live = [...this.#nodes.values()];
    for (const pool of pools)
      if (!live.some((node) => node.pool === pool) && !this.#scalings.has(pool)) return `pool_unknown ${pool}`;
    for (const pool of pools) {
      const most = Math.max(this.#good(pool).length, this.#scalings.get(pool)?.max ?? 0);
      if (most < count(needs, pool)) return `pool_capacity ${pool} ${count(needs, pool)} of ${most}`;
    }

    const line = { number: this.#next, request, since: this.#now, nodes: [] };
    const obstacle = this.#obstacle(line);
    if (obstacle !== undefined && !request.wait) return obstacle;
    this.#next += 1;
    const key = `${owner.kind} ${owner.id}`;
    this.#numbers.set(key, [...(this.#numbers.get(key) ?? []), line.number]);
    this.#lines.push(line);
    if (obstacle === undefined) this.#grant(line);
    return obstacle === undefined ? `grant ${line.number}` : `queue ${line.number}`;
  }

  #settle(): void {
    for (let next = this.#nextGrant(); next !== undefined; next = this.#nextGrant()) this.#grant(next);
  }

  #nextGrant(): Line | undefined {
    return this.#waiting().find((line) => this.#obstacle(line) === undefined);
  }

  #waiting(): Line[] {
    return this.#lines.filter(({ nodes }) => nodes.length === 0).sort(inOrder);
  }

  #grant(line: Line): void {
    for (const { pool } of line.request.needs) line.nodes.push(this.#free(pool, line)[0] ?? "none");
  }

  #obstacle(line: Line): string | undefined {
    if (this.#atLimit(line)) return "limit_exceeded";
    const hold = this.#hold();
    for (const pool of [...new Set(line.request.needs.map((need) => need.pool))].sort()) {
      const free = this.#free(pool).length;
      const kept = hold !== undefined && inOrder(line, hold) > 0 ? count(hold.request.needs, pool) : 0;
      const left = Math.max(0, free - kept);
      if (left < count(line.request.needs, pool))
        return `pool_availability ${pool} ${count(line.request.needs, pool)} of ${left}`;
    }
    return undefined;
  }

  #hold(): Line | undefined {
    return this.#waiting().find(
      (line) =>
        this.#now - line.since > policy.holdAfterMs &&
        !this.#atLimit(line) &&
        line.request.needs.every(({ pool }) => this.#attainable(pool) >= count(line.request.needs, pool)),
    );
  }

  #attainable(pool: string): number {
    const scaling = this.#scalings.get(pool);
    return Math.max(this.#good(pool).length, scaling === undefined || scaling.exhausted ? 0 : scaling.max);
  }

  #atLimit({ request: { owner } }: Line): boolean {
    const limit = this.#limits.get(owner.kind) ?? 0;
    const granted = this.#lines.filter(({ nodes, request }) => nodes.length > 0 && request.owner.kind === owner.kind);
    return limit > 0 && granted.length >= limit;
  }

  #good(pool: string): NodeFacts[] {
    return [...this.#nodes.values()].filter((node) => node.pool === pool && node.ready && node.schedulable);
  }

  #free(pool: string, besides?: Line): string[] {
    const taken = new Set([...this.#lines, ...(besides === undefined ? [] : [besides])].flatMap(({ nodes }) => nodes));
    return this.#good(pool)
      .filter(({ name, occupants }) => occupants.length === 0 && !taken.has(name))
      .map(({ name }) => name)
      .sort();
  }
}

function inOrder(a: Line, b: Line): number {
  return b.request.priority - a.request.priority || a.since - b.since || a.number - b.number;
}

function count(needs: ReservationRequest["needs"], pool: string): number {
  return needs.filter((need) => need.pool === pool).length;
}
