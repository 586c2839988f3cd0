import { withoutHeldMinima } from "./held-minima.ts";
import { getDomains, type Machines } from "./machines.ts";
import type { PoolGang, PoolNeed } from "./reservation.ts";
import { compareText } from "./sorted-map.ts";

/**
 * Lists the needs to try, in order; one list must fit. Without a topology these are the needs themselves, otherwise the needs in each domain where each need
 * has a node. The domain with the fewest free machines comes first, which keeps large domains free; ties by value.
 */
export function listAlternatives(gang: PoolGang, machines: Machines): readonly (readonly PoolNeed[])[] {
  const { topology } = gang;
  const needs = withoutHeldMinima(gang.needs, machines);
  if (topology === undefined) return [needs];
  const [first, ...others] = needs.map((need) => getDomains(machines, need, topology));
  const domains = [...(first?.entries() ?? [])].flatMap(([value, state]) => {
    const states = [state, ...others.map((domainsOfNeed) => domainsOfNeed.get(value))];
    if (states.includes(undefined)) return [];
    return [{ value, free: states.reduce((sum, each) => sum + (each?.free.size ?? 0), 0) }];
  });
  domains.sort((a, b) => a.free - b.free || compareText(a.value, b.value));
  return domains.map(({ value }) => inDomain(needs, topology, value));
}

/** By list of needs and domain, so that one list in one domain is one object: caches are keyed by its identity. */
const listsByDomain = new WeakMap<readonly PoolNeed[], Map<string, readonly PoolNeed[]>>();

function inDomain(needs: readonly PoolNeed[], key: string, value: string): readonly PoolNeed[] {
  const known = listsByDomain.get(needs) ?? new Map<string, readonly PoolNeed[]>();
  listsByDomain.set(needs, known);
  const domain = `${key}=${value}`;
  const list = known.get(domain) ?? needs.map((need) => ({ ...need, domain: { key, value } }));
  known.set(domain, list);
  return list;
}
