import type { KubeConfig } from "@kubernetes/client-node";
import { openInformer, listWatch, buildResourcePath, type Informer, type KubeCalls } from "@muster/kube";
import type { Logger } from "@muster/service";
import { findController } from "../domain/ownership.ts";
import type { GroupsSeen, GroupSpec } from "../domain/pod-group.ts";
import {
  POD_GROUP_KINDS,
  buildPodGroupResource,
  findServedPodGroupKinds,
  type PodGroup,
  type PodGroupKind,
} from "../members/pod-group.ts";

/** The groups of gang schedulers, for the kinds that the cluster serves. */
export type PodGroups = AsyncDisposable & {
  /** Follows the kinds that are served now. Rejects if the API server does not report which are. */
  discover(): Promise<void>;
  /** Returns the groups of this job, and the kind that its scheduler needs; undefined if the cluster's own scheduler places its pods. */
  groupsOf(
    job: { readonly namespace: string; readonly name: string; readonly uid: string },
    scheduler: string | undefined,
  ): GroupsSeen;
};

type PodGroupsDeps = {
  readonly kube: KubeConfig;
  readonly calls: Pick<KubeCalls, "list">;
  /** Undefined for every namespace. */
  readonly namespace: string | undefined;
  /** Called with the `namespace/name` of each changed group, which has the name of its job. */
  readonly changed: (key: string) => void;
  readonly logger: Pick<Logger, "warn">;
};

type Row = { readonly group: GroupSpec; readonly controllerUid: string | undefined };
type Followed = { readonly kind: PodGroupKind; readonly groups: Informer<Row> };

/** The default name of Volcano's scheduler. */
const VOLCANO = "volcano";

/** Opens the groups; follows no group before `discover`. */
export function openPodGroups({ kube, calls, namespace, changed, logger }: PodGroupsDeps): PodGroups {
  const followed = new Map<string, Followed>();

  function follow(kind: PodGroupKind): void {
    const groups = openInformer<PodGroup, Row>({
      source: listWatch<PodGroup>(kube, buildResourcePath(buildPodGroupResource(kind, namespace))),
      project: (group) => ({
        group: { ...group.spec, minMember: group.spec?.minMember ?? 0 },
        controllerUid: findController(group)?.uid,
      }),
      onError: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "following pod groups is interrupted"),
    });
    groups.onChange(({ key }) => changed(key));
    followed.set(kind.apiVersion, { kind, groups });
  }

  return {
    discover: async () => {
      if (followed.size === Object.keys(POD_GROUP_KINDS).length) return;
      for (const kind of await findServedPodGroupKinds(calls, namespace))
        if (!followed.has(kind.apiVersion)) follow(kind);
    },
    groupsOf: ({ namespace: of, name, uid }, scheduler) => {
      const all = [...followed.values()];
      const there = all.flatMap(({ kind: { apiVersion }, groups }) => {
        const row = groups.get(`${of}/${name}`);
        return row?.controllerUid === uid ? [{ apiVersion, group: row.group }] : [];
      });
      const kinds = all.map(({ kind }) => kind);
      return { kind: scheduler === undefined ? undefined : choosePodGroupKind(kinds, scheduler), existing: there };
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...followed.values()].map(({ groups }) => groups[Symbol.asyncDispose]()));
    },
  };
}

/** Chooses the kind that belongs to a scheduler of this name, or else any served kind, because schedulers can be renamed. */
function choosePodGroupKind(served: readonly PodGroupKind[], scheduler: string): PodGroupKind | undefined {
  const own = scheduler === VOLCANO ? POD_GROUP_KINDS.volcano : POD_GROUP_KINDS.schedulerPlugins;
  return served.find(({ apiVersion }) => apiVersion === own.apiVersion) ?? served[0];
}

export function findPodGroupKind(apiVersion: string | undefined): PodGroupKind | undefined {
  return Object.values(POD_GROUP_KINDS).find((kind) => kind.apiVersion === apiVersion);
}
