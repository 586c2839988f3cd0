import { within } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import type { Instances, ListedInstance } from "./domain/sightings.ts";
import { describeFailure, type LoopName, type Scaler, type ProviderList } from "./scaler.ts";

/**
 * Lists the instances of all providers that are configured or have a node. The named providers, by default all, are listed again, with one request per provider
 * at a time.
 *
 * A round waits `patienceMs` for them and uses the previous list of the others, so a slow provider delays no other. A provider is silent, and its instances are
 * unknown, if its list is too old or it is no longer configured.
 */
export async function listInstances(scaler: Scaler, loop: LoopName, names?: Iterable<string>): Promise<Instances> {
  const { memory, now, listFreshMs, patienceMs, providers, records } = scaler;
  const all = [...new Set([...providers.keys(), ...records.list().map(({ spec }) => spec.provider)])];
  const begun = [...new Set(names ?? all)]
    .filter((name) => !memory.asking.has(name))
    .map((name) => ask(scaler, loop, name));
  await within(patienceMs, Promise.all(begun));
  const lists = all.flatMap((name): (readonly [string, ProviderList])[] => {
    const list = memory.lists.get(name);
    return list === undefined || now() - list.askedAtMs > listFreshMs ? [] : [[name, list]];
  });
  const known = new Set(lists.map(([name]) => name));
  return {
    all: lists.flatMap(([, { instances }]) => instances),
    silent: new Set(all.filter((name) => !known.has(name))),
    askedAtMs: new Map(lists.map(([name, { askedAtMs }]) => [name, askedAtMs])),
  };
}

/** Lists the instances of one provider, and stores the list or the failure. Never rejects. */
function ask(scaler: Scaler, loop: LoopName, name: string): Promise<void> {
  const { memory, report, now } = scaler;
  const asking = list(scaler, name)
    .catch((error: unknown) => {
      const sinceMs = memory.silences.get(name)?.sinceMs ?? now();
      memory.silences.set(name, { sinceMs, message: describeFailure(error).message });
      report.failed(loop, `listing the instances of ${name}`, error);
    })
    .finally(() => memory.asking.delete(name));
  memory.asking.set(name, asking);
  return asking;
}

async function list({ providers, memory, signal, now, wallNow }: Scaler, provider: string): Promise<void> {
  const known = providers.get(provider);
  if (known === undefined) throwFault({ code: "not_found", kind: "provider in the file of pools", id: provider });
  const askedAtMs = now();
  const listed = await known.list(signal);
  const aheadMs = wallNow() - now();
  const instances = listed.map((instance): ListedInstance => {
    const { lostAtMs } = instance;
    return { ...instance, provider, lostAtMs: lostAtMs === undefined ? undefined : lostAtMs - aheadMs };
  });
  memory.lists.set(provider, { askedAtMs, instances });
  memory.silences.delete(provider);
}
