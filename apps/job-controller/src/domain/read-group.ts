import type { KindDefaults } from "./kind.ts";
import type { GroupSettings, GroupRequest } from "./pod-group.ts";
import { type Fields, NOT_NEGATIVE } from "./read-fields.ts";
import type { ReplicaDraft } from "./read-manifest.ts";

const CLUSTERS_OWN = "default-scheduler";
const QUANTITY = /^[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/;

/**
 * Returns the scheduler that places the whole gang, and the requested settings: the scheduler of the templates, or else the configured one. Undefined for the
 * cluster's own scheduler, which has no groups. Also undefined if the templates name different schedulers: then each pod is placed separately.
 */
export function readGroup(
  spec: Fields,
  drafts: readonly Pick<ReplicaDraft, "template">[],
  { scheduler }: Pick<KindDefaults, "scheduler">,
): GroupRequest | undefined {
  const policy = spec.object("runPolicy")?.object("schedulingPolicy");
  const settings = policy === undefined ? {} : readSettings(policy);
  const names = new Set(
    drafts.map(({ template }) => findFirst(template?.spec.schedulerName, scheduler) ?? CLUSTERS_OWN),
  );
  const [only = CLUSTERS_OWN] = names;
  if (names.size <= 1 && only !== CLUSTERS_OWN) return { scheduler: only, settings };
  if (names.size > 1)
    spec.warn(
      "",
      `names several schedulers, ${[...names].sort().join(" and ")}: none of them gets a group of the pods`,
    );
  for (const field of ["minResources", "priorityClass", "scheduleTimeoutSeconds"])
    if (policy?.raw(field) !== undefined)
      policy.warn(field, "is not used: no gang scheduler is named, and the ledger reserves the machines");
  return undefined;
}

function readSettings(policy: Fields): GroupSettings {
  const found = {
    queue: policy.text("queue"),
    priorityClassName: policy.text("priorityClass"),
    minResources: readResources(policy.object("minResources")),
    scheduleTimeoutSeconds: policy.integer("scheduleTimeoutSeconds", NOT_NEGATIVE),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined && value !== ""));
}

function readResources(resources: Fields | undefined): GroupSettings["minResources"] {
  if (resources === undefined) return undefined;
  return Object.fromEntries(
    resources.names.flatMap((name) => {
      const value = resources.raw(name);
      if ((typeof value === "string" || typeof value === "number") && QUANTITY.test(String(value)))
        return [[name, value]];
      resources.refuse(name, 'must be a quantity, such as 8 or "16Gi"');
      return [];
    }),
  );
}

function findFirst(...names: readonly (string | undefined)[]): string | undefined {
  return names.find((name) => name !== undefined && name !== "");
}
