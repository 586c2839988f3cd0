import { fillPage, computePageLimit, type Handlers, type PageLimits } from "@muster/bus";
import { matchesLabels, readLabelSelector } from "@muster/names";
import { muster, type FarmService, type PropertiesOf } from "@muster/proto";
import { countAvailable, countHealthy } from "../domain/count-healthy.ts";
import { countDesired } from "../domain/count-desired.ts";
import { explainMissingPod } from "../domain/explain-missing-pod.ts";
import { explainRollout } from "../domain/explain-rollout.ts";
import { buildPodName, type ReplicaSet } from "../domain/replica-set.ts";
import { computeMinimum, type Rollout } from "../domain/rollout.ts";
import { explainSetNodes } from "../node-verdicts.ts";
import { applySet } from "../apply-set.ts";
import { refuseField } from "../domain/check-spec.ts";
import { requireSet, type RequestDeps, type StoredSet } from "../request-deps.ts";
import { enableSet, holdTransfers, removeSet, scaleSet, transferNode } from "../requests.ts";
import { changeRollout, createRollout, requireRollout } from "../rollout-requests.ts";
import { explainAnswer } from "./explain-answer.ts";
import { toSpec, toWireAudit, toWireRollout, toWireSet, type StoredValue } from "./messages.ts";
import type { StoredRecord } from "./records.ts";

const MAX_PAGE = 500;
const AUDITS = { fallback: 100, max: 500 };

type WireReplicaSet = PropertiesOf<typeof muster.farm.v1.ReplicaSet>;
type WireRollout = PropertiesOf<typeof muster.farm.v1.Roll>;

/** The methods of FarmService, answered by every farm. */
export function makeHandlers(deps: RequestDeps): Handlers<typeof FarmService> {
  return {
    ...makeSetHandlers(deps),
    ...makeRolloutHandlers(deps),
    listAudit: async ({ name, limit, continue: token }, { signal }) => {
      if (!/^\d*$/.test(token)) refuseField("continue", `"${token}" is not from the previous reply`);
      const pageLimit = limit === 0 ? AUDITS.fallback : Math.min(limit, AUDITS.max);
      const before = token === "" ? undefined : Number(token);
      const page = await deps.auditLog.page(name, { limit: pageLimit, before }, signal);
      // Two records of one millisecond may reach the stream in any order.
      const records = page.items.toSorted((a, b) => a.timestampMs - b.timestampMs);
      return { records: records.map(toWireAudit), continue: String(page.before ?? "") };
    },
  };
}

function makeSetHandlers(deps: RequestDeps) {
  const set = async (stored: Promise<StoredSet>) => ({ set: setMessage(deps, await stored) });
  return {
    applyReplicaSet: async ({ requestId, name, spec, replace, dryRun, by }) => {
      if (spec === undefined) return refuseField("spec", "is missing");
      const request = { requestId, name, spec: toSpec(name, spec), replace, dryRun, by };
      const applied = await applySet(deps, request);
      return { set: setMessage(deps, applied.set), outcome: applied.outcome };
    },
    getReplicaSet: ({ name }) => set(requireSet(deps, name)),
    listReplicaSets: ({ labelSelector, ...request }, { pageBytes: bytes }) => {
      const selector = readLabelSelector("labelSelector", labelSelector);
      const encode = (set: WireReplicaSet): Uint8Array => muster.farm.v1.ReplicaSet.encode(set).finish();
      const { messages, next } = buildPage(
        deps.world.sets().filter(({ read }) => "record" in read && matchesLabels(selector, read.record.spec.labels)),
        ({ name }) => name,
        (stored) => setMessage(deps, stored),
        { ...request, bytes, encode },
      );
      return Promise.resolve({
        sets: [...messages],
        continue: next,
        unreadable: request.continue === "" ? unreadableSets(deps) : [],
      });
    },
    scaleReplicaSet: ({ expected, ...request }) => set(scaleSet(deps, { ...request, expected })),
    enableReplicaSet: (request) => set(enableSet(deps, request)),
    deleteReplicaSet: async (request) => {
      const removed = await removeSet(deps, request);
      return { set: removed === undefined ? null : setMessage(deps, removed) };
    },
    transferNode: (request) => set(transferNode(deps, request)),
    holdTransfers: (request) => set(holdTransfers(deps, request)),
    explainReplicaSet: async ({ name }) => {
      const stored = await requireSet(deps, name);
      const { record } = stored;
      const nodes = explainSetNodes(deps, record);
      const message = setMessage(deps, stored);
      const roll = findRollout(deps, record);
      const rollout = roll && { record: roll.record, message: rolloutMessage(deps, roll) };
      return {
        set: message,
        roll: rollout?.message ?? null,
        nodesKnown: nodes !== undefined,
        nodes: nodes?.slice(0, MAX_PAGE) ?? [],
        nodesMore: Math.max(0, (nodes?.length ?? 0) - MAX_PAGE),
        explanation: explainAnswer({ set: record, message, rollout, nodes }, deps.now()),
      };
    },
  } satisfies Partial<Handlers<typeof FarmService>>;
}

function makeRolloutHandlers(deps: RequestDeps) {
  const roll = async (stored: Promise<StoredRecord<Rollout>>) => ({ roll: rolloutMessage(deps, await stored) });
  return {
    createRoll: ({ requestId, oldSet, newSet, spec, templateJson, replicasDesired, ...rest }) =>
      roll(
        createRollout(deps, {
          requestId,
          oldSet,
          newSet,
          spec: spec && toSpec(newSet, spec),
          template: templateJson,
          replicasDesired,
          minimum: rest.minimumReplicas,
          leaveOld: rest.leaveOld,
          delayMs: rest.rollDelayMs,
          by: rest.by,
        }),
      ),
    getRoll: ({ id }) => roll(requireRollout(deps, id)),
    listRolls: (request, { pageBytes: bytes }) => {
      const encode = (roll: WireRollout): Uint8Array => muster.farm.v1.Roll.encode(roll).finish();
      const { messages, next } = buildPage(
        deps.world.rollouts(),
        ({ id }) => id,
        (stored) => rolloutMessage(deps, stored),
        { ...request, bytes, encode },
      );
      return Promise.resolve({ rolls: [...messages], continue: next });
    },
    changeRoll: ({ minimumReplicas, ...request }) =>
      roll(changeRollout(deps, { ...request, minimum: minimumReplicas })),
  } satisfies Partial<Handlers<typeof FarmService>>;
}

/** One page of the readable records. */
function buildPage<Record, Wire>(
  seen: readonly { readonly read: StoredValue<Record>; readonly revision: number }[],
  keyOf: (record: Record) => string,
  messageOf: (stored: StoredRecord<Record>) => Wire,
  { limit, continue: after, ...size }: PageRequest<Wire>,
): { readonly messages: readonly Wire[]; readonly next: string } {
  const readable = seen
    .flatMap(({ read, revision }) => ("record" in read ? [{ record: read.record, revision }] : []))
    .filter(({ record }) => keyOf(record) > after);
  const { messages, last, isMore } = fillPage(readable, messageOf, {
    limit: computePageLimit(limit, MAX_PAGE),
    ...size,
  });
  return { messages, next: isMore && last !== undefined ? keyOf(last.record) : "" };
}

type PageRequest<Wire> = Pick<PageLimits<Wire>, "bytes" | "encode"> & {
  readonly limit: number;
  readonly continue: string;
};

function unreadableSets({ world }: RequestDeps): PropertiesOf<typeof muster.farm.v1.UnreadableSet>[] {
  return world
    .sets()
    .flatMap(({ name, read }) => ("unreadable" in read ? [{ name, because: read.unreadable }] : []))
    .slice(0, MAX_PAGE);
}

function setMessage(deps: RequestDeps, { record: set, revision }: StoredSet): WireReplicaSet {
  const { world } = deps;
  const nodes = world.nodesFor(set);
  const roll = findRollout(deps, set)?.record;
  return {
    record: toWireSet(set),
    revision,
    replicas: set.placements.map(({ node, ordinal, templateHash }) => {
      const pod = buildPodName(set.name, ordinal);
      const { health, reason, message } = livePod(deps, set, pod) ?? {
        health: muster.health.v1.Health.HEALTH_UNKNOWN,
        ...explainMissingPod({ set, rollout: roll, nodes }, node),
      };
      return { node, pod, health, reason, message, templateHash, eligible: nodes?.eligible.has(node) ?? true };
    }),
    replicasDesired: countDesired(set, roll, nodes?.eligible.size),
    healthy: countHealthy(set, world.podsOf(set.name), deps.templateHash(set)),
    eligibleNodes: nodes?.eligible.size ?? 0,
    farm: deps.farmOf(set.name),
  };
}

/** The rolling update of the set, if it can be read. */
function findRollout({ world }: RequestDeps, { rollout: roll }: ReplicaSet): StoredRecord<Rollout> | undefined {
  const found = roll === undefined ? undefined : world.rollout(roll);
  return found !== undefined && "record" in found.read
    ? { record: found.read.record, revision: found.revision }
    : undefined;
}

function livePod({ world }: RequestDeps, { name }: ReplicaSet, pod: string) {
  const state = world.podState(name, pod);
  return state?.deleted === true ? undefined : state;
}

function rolloutMessage(deps: RequestDeps, { record: roll, revision }: StoredRecord<Rollout>): WireRollout {
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
  const blind = deps.world.observedNodes() === undefined;
  return {
    record: toWireRollout({ ...roll, minimum: computeMinimum(roll) }),
    revision,
    oldHealthy: old.healthy,
    oldCurrent: old.current,
    newHealthy: fresh.healthy,
    newCurrent: fresh.current,
    waitingBecause: explainRollout({ nowMs, rollout: roll, old: old.rolled, fresh: fresh.rolled, blind }),
  };
}
