import type { Handlers } from "@muster/bus";
import { muster, type FarmService, type PropertiesOf } from "@muster/proto";
import { countAvailable, countHealthy } from "../domain/count-healthy.ts";
import { desiredOf } from "../domain/desired-of.ts";
import { explainRoll } from "../domain/explain-roll.ts";
import { podNameOf, type ReplicaSet } from "../domain/replica-set.ts";
import { minimumOf, type Roll } from "../domain/roll.ts";
import { laterThan } from "../later-than.ts";
import { explainNodesOf } from "../node-verdicts.ts";
import {
  apply,
  enable,
  holdTransfers,
  refuse,
  remove,
  requireSet,
  scale,
  transferNode,
  type RequestDeps,
  type StoredSet,
} from "../requests.ts";
import { changeRoll, createRoll, requireRoll } from "../roll-requests.ts";
import { toSpec, toWireAudit, toWireRoll, toWireSet, type Readable } from "./messages.ts";
import type { Stored } from "./records.ts";

const PAGE_MAX = 500;
const AUDITS = { fallback: 100, max: 500 };
/** A word of its own: how the pod before it ended stands in the events of that alone. */
const NO_POD = {
  health: muster.health.v1.Health.HEALTH_UNKNOWN,
  reason: "NO_POD",
  message: "there is none now; it is made soon, or after a pause that grows when the one before it has ended",
};

type WireReplicaSet = PropertiesOf<typeof muster.farm.v1.ReplicaSet>;

/** The methods of FarmService, answered by every farm. */
export function makeHandlers(deps: RequestDeps): Handlers<typeof FarmService> {
  return {
    ...makeSetHandlers(deps),
    ...makeRollHandlers(deps),
    listAudit: async ({ name, limit, continue: token }, { signal }) => {
      if (!/^\d*$/.test(token)) refuse("continue", `"${token}" is not from the previous reply`);
      const most = limit === 0 ? AUDITS.fallback : Math.min(limit, AUDITS.max);
      const before = token === "" ? undefined : Number(token);
      const page = await deps.auditLog.page(name, { limit: most, before }, signal);
      // What two records of one moment tell comes to the stream by two ways.
      const records = page.items.toSorted((a, b) => a.timestampMs - b.timestampMs);
      return { records: records.map(toWireAudit), continue: String(page.before ?? "") };
    },
  };
}

function makeSetHandlers(deps: RequestDeps) {
  const set = async (stored: Promise<StoredSet>) => ({ set: setMessage(deps, await stored) });
  return {
    applyReplicaSet: async ({ requestId, name, spec, replace, dryRun, by }) => {
      if (spec === null || spec === undefined) return refuse("spec", "is missing");
      const request = { requestId, name, spec: toSpec(name, spec), replace, dryRun, by };
      const applied = await apply(deps, request);
      return { set: setMessage(deps, applied.set), outcome: applied.outcome };
    },
    getReplicaSet: ({ name, afterRevision }, { signal }) =>
      set(laterThan(deps.world, { kind: "set", name, afterRevision, signal }, () => requireSet(deps, name))),
    listReplicaSets: (request) => {
      const { items, next } = pageOf(deps.world.sets(), ({ name }) => name, request);
      return Promise.resolve({
        sets: items.map((each) => setMessage(deps, each)),
        continue: next,
        unreadable: request.continue === "" ? unreadableSets(deps) : [],
      });
    },
    scaleReplicaSet: ({ expected, ...request }) => set(scale(deps, { ...request, expected: expected ?? undefined })),
    enableReplicaSet: (request) => set(enable(deps, request)),
    deleteReplicaSet: async (request) => {
      const removed = await remove(deps, request);
      return { set: removed === undefined ? null : setMessage(deps, removed) };
    },
    transferNode: (request) => set(transferNode(deps, request)),
    holdTransfers: (request) => set(holdTransfers(deps, request)),
    explainReplicaSet: async ({ name }) => {
      const stored = await requireSet(deps, name);
      const verdicts = explainNodesOf(deps, stored.record);
      const roll = rollOf(deps, stored.record);
      return {
        set: setMessage(deps, stored),
        roll: roll === undefined ? null : rollMessage(deps, roll),
        nodesKnown: verdicts !== undefined,
        nodes: verdicts?.slice(0, PAGE_MAX) ?? [],
        nodesMore: Math.max(0, (verdicts?.length ?? 0) - PAGE_MAX),
      };
    },
  } satisfies Partial<Handlers<typeof FarmService>>;
}

function makeRollHandlers(deps: RequestDeps) {
  const roll = async (stored: Promise<Stored<Roll>>) => ({ roll: rollMessage(deps, await stored) });
  return {
    createRoll: ({ requestId, oldSet, newSet, spec, templateJson, replicasDesired, ...rest }) =>
      roll(
        createRoll(deps, {
          requestId,
          oldSet,
          newSet,
          spec: spec === null || spec === undefined ? undefined : toSpec(newSet, spec),
          template: templateJson,
          replicasDesired: replicasDesired ?? undefined,
          minimum: rest.minimumReplicas,
          leaveOld: rest.leaveOld,
          delayMs: rest.rollDelayMs,
          by: rest.by,
        }),
      ),
    getRoll: ({ id, afterRevision }, { signal }) =>
      roll(laterThan(deps.world, { kind: "roll", name: id, afterRevision, signal }, () => requireRoll(deps, id))),
    listRolls: (request) => {
      const { items, next } = pageOf(deps.world.rolls(), ({ id }) => id, request);
      return Promise.resolve({ rolls: items.map((each) => rollMessage(deps, each)), continue: next });
    },
    changeRoll: ({ minimumReplicas, ...request }) =>
      roll(changeRoll(deps, { ...request, minimum: minimumReplicas ?? undefined })),
  } satisfies Partial<Handlers<typeof FarmService>>;
}

/** The records that can be read, as far as one page goes. */
function pageOf<Record>(
  seen: readonly { readonly read: Readable<Record>; readonly revision: number }[],
  keyOf: (record: Record) => string,
  { limit, continue: after }: { readonly limit: number; readonly continue: string },
): { readonly items: Stored<Record>[]; readonly next: string } {
  const size = limit === 0 ? PAGE_MAX : Math.min(limit, PAGE_MAX);
  const readable = seen
    .flatMap(({ read, revision }) => ("record" in read ? [{ record: read.record, revision }] : []))
    .filter(({ record }) => keyOf(record) > after);
  const items = readable.slice(0, size);
  const last = items.at(-1);
  return { items, next: readable.length > size && last !== undefined ? keyOf(last.record) : "" };
}

function unreadableSets({ world }: RequestDeps): PropertiesOf<typeof muster.farm.v1.UnreadableSet>[] {
  return world
    .sets()
    .flatMap(({ name, read }) => ("unreadable" in read ? [{ name, because: read.unreadable }] : []))
    .slice(0, PAGE_MAX);
}

function setMessage(deps: RequestDeps, { record: set, revision }: StoredSet): WireReplicaSet {
  const { world } = deps;
  const nodes = world.nodesFor(set);
  return {
    record: toWireSet(set),
    revision,
    replicas: set.placements.map(({ node, ordinal, templateHash }) => {
      const pod = podNameOf(set.name, ordinal);
      const { health, reason, message } = livePod(deps, set, pod) ?? NO_POD;
      return { node, pod, health, reason, message, templateHash, eligible: nodes?.eligible.has(node) ?? true };
    }),
    replicasDesired: desiredOf(set, rollOf(deps, set)?.record, nodes?.eligible.size),
    healthy: countHealthy(set, world.podsOf(set.name), deps.templateHash(set)),
    eligibleNodes: nodes?.eligible.size ?? 0,
    farm: deps.farmOf(set.name),
  };
}

/** The rolling update that the set is in, as far as it can be read. */
function rollOf({ world }: RequestDeps, { roll }: ReplicaSet): Stored<Roll> | undefined {
  const found = world.rolls().find(({ id }) => id === roll);
  return found !== undefined && "record" in found.read
    ? { record: found.read.record, revision: found.revision }
    : undefined;
}

function livePod({ world }: RequestDeps, { name }: ReplicaSet, pod: string) {
  const state = world.podState(name, pod);
  return state?.deleted === true ? undefined : state;
}

function rollMessage(
  deps: RequestDeps,
  { record: roll, revision }: Stored<Roll>,
): PropertiesOf<typeof muster.farm.v1.Roll> {
  const nowMs = deps.now();
  const sight = (name: string) => {
    const read = deps.world.set(name)?.read;
    if (read === undefined || !("record" in read)) return { rolled: undefined, healthy: 0, current: 0 };
    const { record: set } = read;
    const [pods, templateHash] = [deps.world.podsOf(name), deps.templateHash(set)];
    const rolled = { set, healthy: countAvailable(set, pods, { templateHash, nowMs }) };
    return { rolled, healthy: countHealthy(set, pods, templateHash), current: set.placements.length };
  };
  const [old, fresh] = [sight(roll.oldSet), sight(roll.newSet)];
  const blind = deps.world.nodeSights() === undefined;
  return {
    record: toWireRoll({ ...roll, minimum: minimumOf(roll) }),
    revision,
    oldHealthy: old.healthy,
    oldCurrent: old.current,
    newHealthy: fresh.healthy,
    newCurrent: fresh.current,
    waitingBecause: explainRoll({ nowMs, roll, old: old.rolled, fresh: fresh.rolled, blind }),
  };
}
