import type { KubeConfig } from "@kubernetes/client-node";
import type { KubeCalls } from "@muster/kube";
import type { ServiceContext } from "@muster/service";
import { findFollowedNamespace, type Config } from "../config.ts";
import { buildOwnerId } from "../domain/build-units.ts";
import type { Kind } from "../domain/kind.ts";
import { KINDS } from "../domain/kinds.ts";
import { findResource } from "../members/find-resource.ts";
import { makeExpectations, type Expectations } from "../members/expectations.ts";
import type { RecordEvent } from "./gather-events.ts";
import { startKind, type KindRuntime } from "./kind-runtime.ts";
import type { World } from "./world.ts";

export type FollowDeps = {
  readonly context: Pick<ServiceContext<Config>, "config" | "logger">;
  readonly kube: KubeConfig;
  readonly calls: KubeCalls;
  readonly world: World;
  readonly recordEvent: RecordEvent;
  /** The runtimes by kind; only this module changes the map. */
  readonly runtimes: Map<string, KindRuntime>;
  /** Kinds that were watched and then uninstalled; only this module changes the set. */
  readonly gone: Set<string>;
  readonly jobChanged: (ownerId: string) => void;
};

/** An API server that is still loading definitions may report each as missing once, so a second answer confirms the absence. */
const ABSENCES = 2;

/** Follows the kinds of job that the API server serves, as they are installed and uninstalled. */
export function followKinds(deps: FollowDeps): {
  /** Returns the unwatched kinds. If the check of one kind fails, rejects after the other kinds were handled. */
  discover(): Promise<readonly Kind[]>;
  /** Kinds for which the API server has never answered. */
  unknown(): readonly Kind[];
  /** Kinds that RBAC did not allow the controller to read at the last check. */
  refused(): readonly Kind[];
  /** Kinds that may have jobs outside every cache. A job outside every cache counts as deleted only while this list is empty. */
  unread(): readonly Kind[];
} {
  const { runtimes, gone, calls, context } = deps;
  const expectations = makeExpectations();
  const absences = new Map<string, number>();
  const refused = new Set<Kind>();
  const unanswered = new Set<Kind>();
  const ending = new Map<string, () => Promise<void>>();
  return {
    unknown: () => KINDS.filter((kind) => !absences.has(kind.kind) && !refused.has(kind)),
    refused: () => [...refused],
    unread: () =>
      KINDS.filter((kind) => {
        const runtime = runtimes.get(kind.kind);
        if (runtime !== undefined) return refused.has(kind) || !Number.isFinite(runtime.jobs.listAgeMs());
        return unanswered.has(kind) || (absences.get(kind.kind) ?? 0) < ABSENCES;
      }),
    discover: async () => {
      const namespace = findFollowedNamespace(context.config.kube);
      const within = namespace === undefined ? {} : { namespace };
      const asked = await Promise.allSettled(
        KINDS.map(({ group, version, plural }) =>
          findResource(calls, { apiVersion: `${group}/${version}`, plural, ...within }),
        ),
      );
      const failures: unknown[] = [];
      for (const [index, kind] of KINDS.entries()) {
        const answer = asked[index];
        if (answer?.status !== "fulfilled") {
          unanswered.add(kind);
          continue;
        }
        unanswered.delete(kind);
        if (answer.value === "refused") {
          if (!refused.has(kind)) {
            const rights = `${kind.plural}.${kind.group}`;
            context.logger.warn(
              { kind: kind.kind, rights },
              "a right is missing: this kind of job cannot be read, and is not run",
            );
          }
          refused.add(kind);
          // The kind is installed, so only later answers can confirm that it is missing.
          absences.delete(kind.kind);
          continue;
        }
        refused.delete(kind);
        const absent = answer.value === "served" ? 0 : (absences.get(kind.kind) ?? 0) + 1;
        absences.set(kind.kind, absent);
        if (absent === 0) gone.delete(kind.kind);
        if (absent === 0 && !runtimes.has(kind.kind)) ending.set(kind.kind, start(deps, expectations, kind));
        const end = absent >= ABSENCES ? ending.get(kind.kind) : undefined;
        if (end === undefined) continue;
        gone.add(kind.kind);
        ending.delete(kind.kind);
        await end().catch((error: unknown) => failures.push(error));
      }
      // A failed check of one kind does not prevent the checks of other kinds. Until the check succeeds, the list of jobs is incomplete.
      failures.push(...asked.flatMap((answer) => (answer.status === "rejected" ? [answer.reason as unknown] : [])));
      if (failures.length > 0) throw failures[0];
      return KINDS.filter((kind) => !runtimes.has(kind.kind) && !refused.has(kind));
    },
  };
}

/** Starts to follow a kind, and returns the function that stops it. */
function start(
  { context: { config, logger }, kube, calls, world, recordEvent, runtimes, jobChanged }: FollowDeps,
  expectations: Expectations,
  kind: Kind,
): () => Promise<void> {
  const runtime = startKind(kind, {
    config: kube,
    calls,
    namespace: findFollowedNamespace(config.kube),
    defaults: config.defaults,
    pods: world.pods,
    services: world.services,
    expectations,
    recordEvent,
    syncPeriodMs: config.syncPeriodMs,
    workers: config.workers,
    onError: (error, retryInMs) =>
      logger.warn({ err: error, kind: kind.kind, retryInMs }, "following jobs is interrupted"),
  });
  const listening = [
    world.pods.onChange(runtime.controller.changePod),
    world.services.onChange(runtime.controller.changeService),
    world.onBudgetChange((key) => {
      if (runtime.job(key) !== undefined) runtime.wake(key);
    }),
  ];
  runtime.jobs.onChange(({ before, after }) => {
    const job = after ?? before;
    if (job !== undefined) jobChanged(buildOwnerId(job.metadata));
    if (before !== undefined && before.metadata.uid !== after?.metadata.uid) world.ends.forgetJob(before.metadata.uid);
  });
  runtimes.set(kind.kind, runtime);
  return async () => {
    runtimes.delete(kind.kind);
    for (const stop of listening) stop();
    await runtime[Symbol.asyncDispose]();
  };
}
