import type { KubeConfig } from "@kubernetes/client-node";
import { informer, listWatch, type Informer, type KubeCalls } from "@muster/kube";
import type { Logger } from "@muster/service";
import { controllerOf } from "../domain/ownership.ts";
import type { GroupsSeen, GroupWanted } from "../domain/pod-group.ts";
import {
  POD_GROUP_KINDS,
  POD_GROUPS_PLURAL,
  servedPodGroupKinds,
  type PodGroup,
  type PodGroupKind,
} from "../members/pod-group.ts";

/** Groups of schedulers that have such, as far as the cluster serves them. */
export type PodGroups = AsyncDisposable & {
  /** Begins to follow kinds that are served since. Rejects when nobody can say which are. */
  discover(): Promise<void>;
  /** What there is for the pods of this job, which the scheduler places; undefined: the cluster's own does. */
  groupsOf(
    job: { readonly namespace: string; readonly name: string; readonly uid: string },
    scheduler: string | undefined,
  ): GroupsSeen;
};

export type PodGroupsDeps = {
  readonly kube: KubeConfig;
  readonly calls: Pick<KubeCalls, "list">;
  readonly namespace: string;
  /** Called with the `namespace/name` of each group that came, changed or went; jobs have the names of theirs. */
  readonly changed: (key: string) => void;
  readonly logger: Pick<Logger, "warn">;
};

type Row = { readonly group: GroupWanted; readonly controllerUid: string | undefined };
type Followed = { readonly kind: PodGroupKind; readonly groups: Informer<Row> };

/** The name by which Volcano's scheduler is known unless somebody gives it another one. */
const VOLCANO = "volcano";

/** Follows nothing before `discover`. */
export function openPodGroups({ kube, calls, namespace, changed, logger }: PodGroupsDeps): PodGroups {
  const followed = new Map<string, Followed>();

  function follow(kind: PodGroupKind): void {
    const groups = informer<PodGroup, Row>({
      source: listWatch<PodGroup>(kube, `/apis/${kind.apiVersion}/namespaces/${namespace}/${POD_GROUPS_PLURAL}`),
      project: (group) => ({
        group: { ...group.spec, minMember: group.spec?.minMember ?? 0 },
        controllerUid: controllerOf(group)?.uid,
      }),
      onError: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "following pod groups is interrupted"),
    });
    groups.onChange(({ key }) => changed(key));
    followed.set(kind.apiVersion, { kind, groups });
  }

  return {
    discover: async () => {
      if (followed.size === Object.keys(POD_GROUP_KINDS).length) return;
      for (const kind of await servedPodGroupKinds(calls, namespace)) if (!followed.has(kind.apiVersion)) follow(kind);
    },
    groupsOf: ({ namespace: of, name, uid }, scheduler) => {
      const all = [...followed.values()];
      const there = all.flatMap(({ kind: { apiVersion }, groups }) => {
        const row = groups.get(`${of}/${name}`);
        return row?.controllerUid === uid ? [{ apiVersion, group: row.group }] : [];
      });
      const kinds = all.map(({ kind }) => kind);
      return { kind: scheduler === undefined ? undefined : choosePodGroupKind(kinds, scheduler), there };
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...followed.values()].map(({ groups }) => groups[Symbol.asyncDispose]()));
    },
  };
}

/** The one that belongs to a scheduler of this name; where that is not served, whichever is: schedulers may be given other names. */
export function choosePodGroupKind(served: readonly PodGroupKind[], scheduler: string): PodGroupKind | undefined {
  const own = scheduler === VOLCANO ? POD_GROUP_KINDS.volcano : POD_GROUP_KINDS.schedulerPlugins;
  return served.find(({ apiVersion }) => apiVersion === own.apiVersion) ?? served[0];
}

export function podGroupKind(apiVersion: string | undefined): PodGroupKind | undefined {
  return Object.values(POD_GROUP_KINDS).find((kind) => kind.apiVersion === apiVersion);
}
