import type { ReservationRequest } from "../src/domain/decisions/check-request.ts";
import type { NodeFacts, PoolScaling } from "../src/domain/ledger/machines.ts";
import type { Owner } from "@muster/names";
import {
  matchesNode,
  buildNodeSelectionKey,
  findUntolerated,
  type Amounts,
  type NodeSelection,
} from "@muster/resources";
import type { Operation } from "./random-world.ts";

/** One reservation of the reference. */
type Line = {
  readonly number: number;
  readonly request: ReservationRequest;
  readonly since: number;
  /** In the order of the needs; empty while it waits. */
  nodes: string[];
};

type Needs = ReservationRequest["needs"];

/** The needs of one pool with one selection. */
type Group = { readonly pool: string; readonly selection?: NodeSelection | undefined; readonly needs: Needs };

/** A node that can be granted as a whole or in parts. */
type Spot = {
  readonly name: string;
  readonly node: NodeFacts;
  readonly allocatable: Record<string, number> | undefined;
  free: Record<string, number>;
  isWhole: boolean;
  readonly isForeign: boolean;
  /** The free amounts when nothing is granted. */
  readonly potential: Record<string, number>;
};

/** The rules of the ledger without any index, cache or shortcut: every decision scans everything. The ledger must decide the same. */
export class NaiveLedger {
  readonly #nodes: Map<string, NodeFacts>;
  readonly #holdAfterMs: number;
  readonly #scalings = new Map<string, PoolScaling>();
  #lines: Line[] = [];
  readonly #numbers = new Map<string, number[]>();
  /** The last limit named, by owner kind. */
  readonly #limits = new Map<string, number>();
  #next = 1;
  #now = 0;
  /** The other world in which a machine must be free as well. */
  #beside: NaiveLedger | undefined;

  constructor(nodes: readonly NodeFacts[], holdAfterMs: number) {
    this.#nodes = new Map(nodes.map((node) => [node.name, node]));
    this.#holdAfterMs = holdAfterMs;
  }

  /** Runs one operation. Returns the outcome of a request in a few words. */
  step(operation: Operation): string {
    const outcome = this.#do(operation);
    this.#settle();
    return outcome;
  }

  /** Grants these nodes, in the order of the needs, without checking their room. */
  occupy(request: ReservationRequest, nodes: readonly string[]): void {
    this.#lines.push({ number: this.#next++, request, since: this.#now, nodes: [...nodes] });
  }

  /** Returns the nodes that the request would get now, in the order of its needs; undefined: it does not fit. With `beside`, it must fit there as well. */
  place(request: ReservationRequest, beside?: NaiveLedger): readonly string[] | undefined {
    this.#beside = beside;
    const line: Line = { number: this.#next, request, since: this.#now, nodes: [] };
    if (this.#obstacle(line) === undefined) this.#grant(line);
    this.#beside = undefined;
    return line.nodes.length === 0 ? undefined : line.nodes;
  }

  /** Lists holders and waiting requests in the order of arrival. */
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

  /** Puts the request's limit into force, first for earlier requests; a refused request has no effect. */
  #reserveWithLimit(request: ReservationRequest): string {
    const { kind } = request.owner;
    const limit = this.#limits.get(kind) ?? 0;
    const lines = this.#lines.map((line) => ({ ...line, nodes: [...line.nodes] }));
    this.#limits.set(kind, request.concurrencyLimit);
    this.#settle();
    const outcome = this.#reserve(request);
    if (/^(answer|grant|queue) /.test(outcome)) return outcome;
    this.#limits.set(kind, limit);
    this.#lines = lines;
    return outcome;
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
        all
          .map(({ component, pool, otherPools, shared, selection }) => {
            return `${component} ${pool} ${otherPools?.join(" ")} ${shared ? textOf(shared) : ""} ${JSON.stringify(selection)}`;
          })
          .sort();
      const isSame = wants(own.request.needs).join() === wants(needs).join();
      if (!isSame || own.request.topology !== request.topology) return "reservation_differs";
      return `answer ${own.number}`;
    }
    const pools = optionsIn(request).flatMap((option) => option.needs.map(({ pool }) => pool).sort());
    const live = [...this.#nodes.values()];
    for (const pool of pools)
      if (!live.some((node) => node.pool === pool) && !this.#scalings.has(pool)) return `pool_unknown ${pool}`;
    const small = optionsIn(request).map(
      (option) => this.#isTooSmall(this.#groups(option.needs)) ?? this.#isTooSmallAnywhere(option),
    );
    if (!small.includes(undefined)) return small.find((reason) => reason === "unavailable") ?? small[0] ?? "";

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

  #isTooSmall(all: readonly Group[]): string | undefined {
    for (const group of all) {
      const good = this.#good(group);
      const wholes = wholesOf(group.needs).length;
      const max = Math.max(good.length, this.#scalings.get(group.pool)?.max ?? 0);
      if (max > good.length && wholes <= max) continue;
      const holdable = this.#holdable(group, max, false);
      const ofAnySize = this.#good(withAnySize(group));
      const maxOfAnySize = Math.max(ofAnySize.length, this.#scalings.get(group.pool)?.max ?? 0);
      if (holdable < group.needs.length && wholes <= maxOfAnySize && ofAnySize.some(isUnsized)) return "unavailable";
      if (holdable < group.needs.length) return `pool_capacity ${group.pool} ${group.needs.length} of ${holdable}`;
    }
    for (const pool of [...new Set(all.map((group) => group.pool))].sort()) {
      const groups = all.filter((group) => group.pool === pool);
      const wanted = groups.flatMap((group) => group.needs);
      if (groups.length !== 2 || wanted.some(({ shared }) => shared) || this.#scalings.has(pool)) continue;
      const fit = placedOf(place(groups, this.#emptySpots(pool, false)));
      if (fit >= wanted.length) continue;
      if (groups.some((group) => this.#good(withAnySize(group)).some(isUnsized))) return "unavailable";
      return `pool_capacity ${pool} ${wanted.length} of ${fit}`;
    }
    return undefined;
  }

  /** Returns the maximum that one domain of the topology holds if no domain is large enough. */
  #isTooSmallAnywhere(request: ReservationRequest): string | undefined {
    const { needs, topology } = request;
    if (topology === undefined || needs.some(({ pool }) => this.#scalings.has(pool))) return undefined;
    const small = this.#lists(request).map((groups) => this.#isTooSmall(groups));
    if (small.includes(undefined)) return undefined;
    if (small.includes("unavailable")) return "unavailable";
    const capacity = (reason: string | undefined): number => Number(reason?.split(" ").at(-1));
    const [largest] = [...small].sort((a, b) => capacity(b) - capacity(a));
    const [first] = this.#groups(needs);
    return largest ?? `pool_capacity ${first?.pool} ${first?.needs.length} of 0`;
  }

  /** Groups the needs, and drops a minimum size that every usable node for the need has. */
  #groups(needs: Needs): Group[] {
    return groupsOf(
      needs.map((need) => {
        const any = withAnySize(need);
        return this.#good(any).every((node) => holds(node, need.selection)) ? any : need;
      }),
    );
  }

  /** Lists the groups of the needs; with a topology, once per domain, starting with the domain with the fewest free machines. */
  #lists({ needs, topology }: ReservationRequest): Group[][] {
    const groups = this.#groups(needs);
    if (topology === undefined) return [groups];
    const nodes = [...this.#nodes.values()];
    const values = [...new Set(nodes.flatMap(({ labels }) => labels[topology] || []))].sort();
    const has = (group: Group, value: string): boolean =>
      nodes.some(
        (node) =>
          node.pool === group.pool &&
          node.labels[topology] === value &&
          (group.selection === undefined || (matchesNode(group.selection, node) && holds(node, group.selection))),
      );
    return values
      .filter((value) => groups.every((group) => has(group, value)))
      .map((value) => groups.map((group) => ({ ...group, selection: bind(group.selection, topology, value) })))
      .map((list) => ({ list, free: list.reduce((sum, group) => sum + this.#free(group, undefined), 0) }))
      .sort((a, b) => a.free - b.free)
      .map(({ list }) => list);
  }

  #free({ pool, selection }: Group, hold: readonly Group[] | undefined): number {
    return this.#spots(pool, hold).filter(({ isWhole, node }) => isWhole && accepts(node, selection)).length;
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
    const hold = this.#holdBefore(line);
    const option = optionsIn(line.request).find((each) => this.#obstacleOf({ ...line, request: each }) === undefined);
    const { needs } = option ?? line.request;
    const list = this.#lists(option ?? line.request).find((groups) => this.#shortage(groups, hold) === undefined) ?? [];
    const nodes = new Map<string, string>();
    for (const pool of new Set(needs.map((need) => need.pool))) {
      const groups = list.filter((group) => group.pool === pool);
      const placed = place(groups, this.#spots(pool, hold));
      for (const [index, group] of groups.entries()) {
        const own = placed[index];
        for (const [at, { component }] of partsOf(group.needs).entries())
          nodes.set(component, own?.parts[at] ?? "none");
        for (const [at, { component }] of wholesOf(group.needs).entries())
          nodes.set(component, own?.wholes[at] ?? "none");
      }
    }
    line.nodes = needs.map(({ component }) => nodes.get(component) ?? "none");
  }

  /** Returns the obstacle of the first option that can ever be granted, if each option has one. */
  #obstacle(line: Line): string | undefined {
    const options = optionsIn(line.request).map((request) => ({ ...line, request }));
    const obstacles = options.map((option) => this.#obstacleOf(option));
    if (obstacles.includes(undefined)) return undefined;
    const reported = options.findIndex(({ request }) => this.#isEverPossible(request));
    return obstacles[Math.max(0, reported)];
  }

  #isEverPossible(request: ReservationRequest): boolean {
    return this.#lists(request).some((groups) => this.#isPossible(groups));
  }

  #obstacleOf(line: Line): string | undefined {
    if (this.#atLimit(line)) return "limit_exceeded";
    const hold = this.#holdBefore(line);
    const { needs, topology } = line.request;
    const short = this.#shortage(this.#groups(needs), hold);
    if (short !== undefined || topology === undefined) return short;
    const lists = this.#lists(line.request);
    if (lists.some((groups) => this.#shortage(groups, hold) === undefined)) return undefined;
    const max = Math.max(0, ...lists.map((groups) => this.#fitting(groups, hold)));
    return `pool_availability ${this.#groups(needs)[0]?.pool} ${needs.length} of ${max}`;
  }

  #shortage(all: readonly Group[], hold: readonly Group[] | undefined): string | undefined {
    for (const group of all) {
      const available = this.#available(group, all, hold);
      if (available < group.needs.length)
        return `pool_availability ${group.pool} ${group.needs.length} of ${available}`;
    }
    return undefined;
  }

  #fitting(all: readonly Group[], hold: readonly Group[] | undefined): number {
    return all.reduce((sum, group) => sum + Math.min(group.needs.length, this.#available(group, all, hold)), 0);
  }

  #available(group: Group, all: readonly Group[], hold: readonly Group[] | undefined): number {
    const groups = all.filter((other) => other.pool === group.pool);
    const own = place(groups, this.#spots(group.pool, hold))[groups.indexOf(group)];
    const fit = own === undefined ? 0 : placedOf([own]);
    const isAlone = groups.length === 1 && partsOf(group.needs).length === 0;
    return isAlone ? this.#free(group, hold) : fit;
  }

  #holdBefore(line: Line): readonly Group[] | undefined {
    const hold = this.#hold();
    return hold !== undefined && inOrder(line, hold) > 0 ? this.#kept(hold.request) : undefined;
  }

  /** Returns the groups to keep machines for: those in the pools and domain where most of them fit now. */
  #kept(request: ReservationRequest): readonly Group[] {
    const lists = optionsIn(request).flatMap((option) => this.#lists(option));
    const possible = lists.filter((groups) => this.#isPossible(groups));
    const max = Math.max(...possible.map((groups) => this.#fitting(groups, undefined)));
    return possible.find((groups) => this.#fitting(groups, undefined) === max) ?? [];
  }

  /** Counts the machines and parts of the needs that fit when nothing is granted, with or without foreign pods. */
  #holdable(group: Group, max: number, foreignStays: boolean): number {
    const wholes = wholesOf(group.needs).length;
    const parts = partsOf(group.needs);
    const good = this.#good(group);
    if (wholes > max) return max;
    const stays = ({ foreign }: NodeFacts): boolean => foreignStays && foreign.pods > 0;
    const future = Math.max(0, max - good.filter((node) => !stays(node)).length);
    const sized = good.filter(({ allocatable }) => allocatable !== undefined);
    const spots = sized.map((node) => {
      const spot = emptySpot(node);
      if (!stays(node)) return spot;
      use(spot, { ...toRecord(node.foreign.requests), pods: node.foreign.pods });
      return { ...spot, isWhole: false };
    });
    const [largest] = sized
      .map((node) => emptySpot(node))
      .sort((a, b) => compareSizes(toMap(a.allocatable), toMap(b.allocatable)));
    if (largest === undefined) return wholes + (future > 0 ? parts.length : 0);
    for (let number = 0; number < Math.min(future, parts.length); number += 1)
      spots.push({ ...largest, free: { ...largest.free }, name: `new${number}` });
    const whole = new Set(spots.flatMap(({ name, isWhole }) => (isWhole ? [name] : [])));
    const used = new Set<string>();
    let fit = 0;
    for (const { shared } of parts) {
      const node = put(spots, shared);
      if (node === undefined) continue;
      if (whole.has(node) && !used.has(node) && used.size === max - wholes) continue;
      if (whole.has(node)) used.add(node);
      fit += 1;
    }
    return wholes + fit;
  }

  /** Lists every node of the pool that can be granted as a whole or in parts, by name, without those kept for the hold. */
  #spots(pool: string, hold: readonly Group[] = []): Spot[] {
    const held = (node: string) =>
      this.#lines.flatMap(({ nodes, request }) =>
        request.needs.flatMap((need, index) => (nodes[index] === node ? [{ owner: request.owner, need }] : [])),
      );
    let spots = this.#usable(pool)
      .filter(({ name }) => held(name).every(({ need }) => need.shared !== undefined))
      .filter(({ occupants }) => occupants.length === 0)
      .map((node): Spot => {
        const parts = held(node.name);
        const others = node.ownerUses.map(({ owner, use: seen }) => {
          const own = parts.filter((part) => same(part.owner, owner));
          const requests = new Map(seen.requests);
          for (const { need } of own)
            for (const [name, amount] of need.shared ?? [])
              requests.set(name, Math.max(0, (requests.get(name) ?? 0) - amount));
          return { pods: Math.max(0, seen.pods - own.length), requests };
        });
        const foreign = [node.foreign, ...others].filter(
          ({ pods, requests }) => pods > 0 || [...requests.values()].some((amount) => amount > 0),
        );
        const uses = [
          ...parts.map(({ need }) => ({ ...toRecord(need.shared), pods: 1 })),
          ...foreign.map(({ pods, requests }) => ({ ...toRecord(requests), pods })),
        ];
        const isExceeded = [...(node.allocatable ?? [])].some(
          ([name, amount]) => uses.reduce((sum, used) => sum + (toMap(used).get(name) ?? 0), 0) > amount,
        );
        const spot = emptySpot(isExceeded ? { ...node, allocatable: undefined } : node);
        for (const used of uses) use(spot, used);
        const isWhole = parts.length === 0 && foreign.length === 0;
        const potential = emptySpot(node);
        use(potential, { ...toRecord(node.foreign.requests), pods: node.foreign.pods });
        return { ...spot, isWhole, isForeign: node.foreign.pods > 0, potential: potential.free };
      })
      .sort(compareSpots);
    const beside = this.#beside;
    if (beside !== undefined) {
      const others = beside.#spots(pool);
      spots = spots.flatMap((spot) => {
        const other = others.find(({ name }) => name === spot.name);
        return other === undefined ? [] : [meet(spot, other)];
      });
    }
    for (const group of hold) {
      if (group.pool !== pool) continue;
      const seen = spots.filter(({ node }) => accepts(node, group.selection));
      const left = keep(seen, group.needs);
      spots = spots.filter((spot) => !seen.includes(spot) || left.includes(spot));
    }
    return spots;
  }

  /** Lists every node that some selection accepts, as if nothing were granted. */
  #emptySpots(pool: string, foreignStays: boolean): Spot[] {
    return this.#usable(pool)
      .map((node): Spot => {
        if (!foreignStays || node.foreign.pods === 0) return emptySpot(node);
        const uses = { ...toRecord(node.foreign.requests), pods: node.foreign.pods };
        const isExceeded = [...(node.allocatable ?? [])].some(
          ([name, amount]) => (toMap(uses).get(name) ?? 0) > amount,
        );
        const spot = emptySpot(isExceeded ? { ...node, allocatable: undefined } : node);
        use(spot, uses);
        return { ...spot, isWhole: false, isForeign: true };
      })
      .sort(compareSpots);
  }

  #hold(): Line | undefined {
    return this.#waiting().find(
      (line) =>
        this.#now - line.since > this.#holdAfterMs &&
        !this.#atLimit(line) &&
        optionsIn(line.request).some((option) => this.#isEverPossible(option)),
    );
  }

  #isPossible(all: readonly Group[]): boolean {
    return (
      all.every((group) => this.#holdable(group, this.#attainable(group), true) === group.needs.length) &&
      this.#holdableTogether(all)
    );
  }

  #holdableTogether(all: readonly Group[]): boolean {
    return all.every(({ pool }) => {
      const groups = all.filter((group) => group.pool === pool);
      if (groups.length < 2) return true;
      const wanted = groups.flatMap((group) => group.needs).length;
      return placedOf(place(groups, this.#emptySpots(pool, true))) === wanted;
    });
  }

  #attainable(group: Group): number {
    const scaling = this.#scalings.get(group.pool);
    const good = this.#good(group);
    const present = good.filter(({ foreign }) => foreign.pods === 0).length;
    if (scaling === undefined || scaling.exhausted || group.selection !== undefined) return present;
    return Math.max(present, scaling.max - (good.length - present));
  }

  #atLimit({ request: { owner } }: Line): boolean {
    const limit = this.#limits.get(owner.kind) ?? 0;
    const granted = this.#lines.filter(({ nodes, request }) => nodes.length > 0 && request.owner.kind === owner.kind);
    return limit > 0 && granted.length >= limit;
  }

  #good({ pool, selection }: Pick<Group, "pool" | "selection">): NodeFacts[] {
    return this.#usable(pool).filter((node) => accepts(node, selection));
  }

  /** Lists the nodes that some selection accepts. */
  #usable(pool: string): NodeFacts[] {
    const isUsable = ({ schedulable, taints }: NodeFacts): boolean => schedulable || taints.length > 0;
    return [...this.#nodes.values()].filter((node) => node.pool === pool && node.ready && isUsable(node));
  }
}

/** Returns the request with each choice of pools, the preferred ones first. Needs that name the same pools in the same order make the same choice. */
export function optionsIn<Asking extends Pick<ReservationRequest, "needs">>(request: Asking): Asking[] {
  const open = request.needs.find(({ otherPools }) => otherPools !== undefined);
  if (open === undefined) return [request];
  const { pool: first, otherPools = [] } = open;
  return [first, ...otherPools].flatMap((pool) => {
    const needs = request.needs.map(({ otherPools: others, ...need }) => {
      const isAlike = need.pool === first && others?.join(" ") === otherPools.join(" ");
      return isAlike ? { ...need, pool } : { ...need, ...(others && { otherPools: others }) };
    });
    return optionsIn({ ...request, needs });
  });
}

function inOrder(a: Line, b: Line): number {
  return b.request.priority - a.request.priority || a.since - b.since || a.number - b.number;
}

function keyOf({ pool, selection }: Pick<Group, "pool" | "selection">): string {
  return selection === undefined ? pool : `${pool}!${buildNodeSelectionKey(selection)}`;
}

/** Groups needs by pool and selection, in the order of their keys. */
function groupsOf(needs: Needs): Group[] {
  const keys = [...new Set(needs.map(keyOf))].sort();
  return keys.map((key) => {
    const own = needs.filter((need) => keyOf(need) === key);
    return { pool: own[0]?.pool ?? "", selection: own[0]?.selection, needs: own };
  });
}

/** Restricts the selection to nodes whose label has this value. */
function bind(selection: NodeSelection | undefined, key: string, value: string): NodeSelection {
  const requirement = { key, operator: "In", values: [value] };
  const { terms = [], ...others } = selection ?? { tolerations: [] };
  if (terms.length === 0) return { terms: [{ matchExpressions: [requirement] }], ...others };
  const isEmpty = ({ matchExpressions = [], matchFields = [] }: (typeof terms)[number]): boolean =>
    matchExpressions.length + matchFields.length === 0;
  const bound = terms
    .filter((term) => !isEmpty(term))
    .map((term) => ({ ...term, matchExpressions: [...(term.matchExpressions ?? []), requirement] }));
  return { terms: bound.length === 0 ? [{}] : bound, ...others };
}

/** Returns whether the selection accepts the node; without one, whether an unselective need of the pool does. */
export function accepts(node: NodeFacts, selection: NodeSelection | undefined): boolean {
  if (selection === undefined) return node.schedulable;
  const isOpen = node.schedulable || (node.taints.length > 0 && !findUntolerated(node.taints, selection.tolerations));
  return isOpen && matchesNode(selection, node) && holds(node, selection);
}

/** Returns whether the node is known to have the minimum size of the selection. */
function holds({ allocatable }: NodeFacts, { minimum }: NodeSelection = { terms: [], tolerations: [] }): boolean {
  return minimum === undefined || (allocatable !== undefined && hasRoom(toRecord(allocatable), toMap(minimum)));
}

function withAnySize<Selecting extends { readonly selection?: NodeSelection | undefined }>(one: Selecting): Selecting {
  const { minimum, terms = [], tolerations = [] } = one.selection ?? {};
  if (minimum === undefined) return one;
  return { ...one, selection: terms.length + tolerations.length === 0 ? undefined : { terms, tolerations } };
}

function isUnsized({ allocatable }: NodeFacts): boolean {
  return allocatable === undefined;
}

type Placed = { readonly parts: (string | undefined)[]; readonly wholes: string[] };

/** Places the groups of one pool, those with the fewest nodes first. */
function place(groups: readonly Group[], spots: readonly Spot[]): Placed[] {
  const seenBy = ({ selection }: Group): Spot[] => spots.filter(({ node }) => accepts(node, selection));
  const size = (group: Group): number =>
    seenBy(group).filter(({ isWhole, allocatable }) => isWhole || allocatable !== undefined).length;
  const sizes = new Map(groups.map((group) => [group, size(group)]));
  const order = [...groups].sort((a, b) => (sizes.get(a) ?? 0) - (sizes.get(b) ?? 0));
  const placed = new Map<Group, Placed>();
  for (const [index, group] of order.entries()) {
    const seen = seenBy(group);
    const parts = partsOf(group.needs).map(({ shared }) => put(seen, shared));
    const later = order.slice(index + 1).flatMap(seenBy);
    const free = seen.filter(({ isWhole }) => isWhole);
    const preferred = [...free.filter((spot) => !later.includes(spot)), ...free.filter((spot) => later.includes(spot))];
    const wholes = preferred.slice(0, wholesOf(group.needs).length);
    for (const spot of wholes) {
      spot.isWhole = false;
      spot.free = {};
    }
    placed.set(group, { parts, wholes: wholes.map(({ name }) => name) });
  }
  return groups.map((group) => placed.get(group) ?? { parts: [], wholes: [] });
}

function placedOf(placed: readonly Placed[]): number {
  return placed.flatMap(({ parts, wholes }) => [...parts.filter((node) => node !== undefined), ...wholes]).length;
}

function wholesOf(needs: Needs) {
  return needs.filter((need) => need.shared === undefined);
}

/** Lists the parts of the needs, the largest first. */
function partsOf(needs: Needs) {
  return needs
    .flatMap(({ component, shared }) => (shared ? [{ component, shared }] : []))
    .sort((a, b) => compareSizes(a.shared, b.shared) || (a.component < b.component ? -1 : 1));
}

function compareSizes(a: Amounts, b: Amounts): number {
  return (
    (b.get("cpu") ?? 0) - (a.get("cpu") ?? 0) ||
    (b.get("memory") ?? 0) - (a.get("memory") ?? 0) ||
    (textOf(a) < textOf(b) ? -1 : textOf(a) > textOf(b) ? 1 : 0)
  );
}

function textOf(amounts: Amounts): string {
  const entries = [...amounts].sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([name, amount]) => `${name}=${amount}`).join(",")}}`;
}

function toRecord(amounts: Amounts | undefined): Record<string, number> {
  return Object.fromEntries(amounts ?? []);
}

function toMap(record: Record<string, number> | undefined): Amounts {
  return new Map(Object.entries(record ?? {}));
}

function same(a: Owner, b: Owner): boolean {
  return a.kind === b.kind && a.id === b.id;
}

function emptySpot(node: NodeFacts): Spot {
  const { name, allocatable } = node;
  const room = allocatable && toRecord(allocatable);
  return { name, node, allocatable: room, free: { ...room }, isWhole: true, isForeign: false, potential: { ...room } };
}

function use(spot: Spot, amounts: Record<string, number>): void {
  for (const name of Object.keys(spot.free))
    spot.free[name] = Math.max(0, (spot.free[name] ?? 0) - (amounts[name] ?? 0));
}

/** The amounts that are free in both. */
function meet(spot: Spot, other: Spot): Spot {
  const free = { ...spot.free };
  for (const [name, amount] of Object.entries(spot.free)) free[name] = Math.min(amount, other.free[name] ?? 0);
  return { ...spot, free, isWhole: spot.isWhole && other.isWhole };
}

function hasRoom(free: Record<string, number>, shared: Amounts): boolean {
  const wants: Record<string, number> = { ...toRecord(shared), pods: 1 };
  return Object.keys(wants).every((name) => (wants[name] ?? 0) <= (free[name] ?? 0));
}

/** Puts one part on the best spot and returns its node; undefined if none has room. */
function put(spots: Spot[], shared: Amounts): string | undefined {
  const best = spots
    .filter(({ allocatable, free }) => allocatable && hasRoom(free, shared))
    .map((spot) => ({
      spot,
      rank: [Number(isSpecial(spot, toRecord(shared))), Number(spot.isWhole), spot.isWhole ? 0 : -inUse(spot)],
    }))
    .sort((a, b) => compareLists(a.rank, b.rank) || compareSpots(a.spot, b.spot))
    .at(0)?.spot;
  if (best === undefined) return undefined;
  use(best, { ...toRecord(shared), pods: 1 });
  best.isWhole = false;
  return best.name;
}

/** Orders nodes without extended resources first, then smaller ones. */
function compareSpots(a: Spot, b: Spot): number {
  const sizes = compareSizes(toMap(b.allocatable), toMap(a.allocatable));
  return Number(isSpecial(a, {})) - Number(isSpecial(b, {})) || sizes || (a.name < b.name ? -1 : 1);
}

function isSpecial({ allocatable }: Spot, wants: Record<string, number>): boolean {
  return (allocatable?.["example.com/gpu"] ?? 0) > 0 && (wants["example.com/gpu"] ?? 0) === 0;
}

/** The mean use of cpu and memory. */
function inUse({ allocatable = {}, free }: Spot): number {
  const fraction = (name: string): number => 1 - (free[name] ?? 0) / (allocatable[name] ?? 1);
  return (fraction("cpu") + fraction("memory")) / 2;
}

function compareLists(a: readonly number[], b: readonly number[]): number {
  return a.map((value, index) => value - (b[index] ?? 0)).find((order) => order !== 0) ?? 0;
}

/** Keeps nodes for these needs: those that fit, and for the rest those that may become free first. */
function keep(spots: Spot[], needs: Needs): Spot[] {
  const missing = partsOf(needs).filter(({ shared }) => put(spots, shared) === undefined);
  let left = spots;
  const last = (mayKeep: (spot: Spot) => boolean): Spot | undefined =>
    left
      .filter((spot) => spot.allocatable && !spot.isWhole && mayKeep(spot))
      .sort((a, b) => inUse(b) - inUse(a) || compareSpots(a, b))
      .at(-1);
  const without = (kept: Spot | undefined): Spot[] => left.filter((spot) => spot !== kept);
  for (let count = wholesOf(needs).length; count > 0; count -= 1)
    left = without(left.findLast(({ isWhole }) => isWhole) ?? last(({ isForeign }) => !isForeign));
  for (const { shared } of missing) left = without(last(({ potential }) => hasRoom(potential, shared)));
  return left;
}
